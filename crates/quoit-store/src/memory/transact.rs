//! A transaction on the records of one partition.

use super::stripe::Stripe;
use crate::engine::{Interrupted, Record, RecordAt, RecordMeta, Transaction};
use crate::pending::{Name, Named};
use bytes::Bytes;
use quoit_model::hash::Partition;

/// The writes of a transaction: a record, or `None` where it is removed.
type Writes = Vec<(Name, Option<Record>)>;

/// A transaction while its body runs.
pub(super) struct OpenTransaction<'s> {
    partition: Partition,
    stripe: &'s Stripe,
    now_secs: u64,
    writes: Named<Option<Record>>,
}

impl<'s> OpenTransaction<'s> {
    pub(super) fn new(partition: Partition, stripe: &'s Stripe, now_secs: u64) -> Self {
        Self { partition, stripe, now_secs, writes: Named::new() }
    }

    /// What the body wrote; of several writes of a record the last one.
    pub(super) fn into_writes(self) -> Writes {
        self.writes.into_vec()
    }

    fn write(&mut self, at: &RecordAt<'_>, record: Option<Record>) {
        assert!(at.partition == self.partition, "a transaction stays in its partition");
        self.writes.insert(at, record);
    }
}

impl Transaction for OpenTransaction<'_> {
    fn get(&mut self, at: &RecordAt<'_>) -> Result<Option<Record>, Interrupted> {
        assert!(at.partition == self.partition, "a transaction stays in its partition");
        Ok(self.stripe.get(at, self.now_secs).cloned())
    }

    fn put(
        &mut self,
        at: &RecordAt<'_>,
        meta: RecordMeta,
        value: &[u8],
    ) -> Result<(), Interrupted> {
        self.write(at, Some(Record { meta, value: Bytes::copy_from_slice(value) }));
        Ok(())
    }

    fn remove(&mut self, at: &RecordAt<'_>) -> Result<(), Interrupted> {
        self.write(at, None);
        Ok(())
    }
}
