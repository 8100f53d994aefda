//! Transactions of records that may be stored compressed.

use super::engine::{CompressedEngine, unpacked};
use crate::engine::{Interrupted, Record, RecordAt, RecordMeta, Transaction};

/// Shows values as they were written, and stores them compressed if they should be.
pub(super) struct CompressingTransaction<'t> {
    pub(super) of: &'t CompressedEngine,
    pub(super) inner: &'t mut dyn Transaction,
}

impl Transaction for CompressingTransaction<'_> {
    fn get(&mut self, at: &RecordAt<'_>) -> Result<Option<Record>, Interrupted> {
        let record = self.inner.get(at)?;
        Ok(record.map(|record| unpacked(at.key, record)).transpose()?)
    }

    fn put(
        &mut self,
        at: &RecordAt<'_>,
        meta: RecordMeta,
        value: &[u8],
    ) -> Result<(), Interrupted> {
        let packed = self.of.packed(at.key, value);
        self.inner.put(at, meta, packed.as_deref().unwrap_or(value))
    }

    fn remove(&mut self, at: &RecordAt<'_>) -> Result<(), Interrupted> {
        self.inner.remove(at)
    }
}
