//! A transaction on the records of one partition.

use super::stripe::MemoryStripe;
use crate::engine::{Interrupted, Record, RecordAt, RecordMeta, Transaction};
use crate::pending::{ByRecord, OwnedName};
use bytes::Bytes;
use quoit_model::hash::Partition;
use std::borrow::Cow;

/// The writes of a transaction: a record, or `None` to remove it.
type MemoryWrites = Vec<(OwnedName, Option<Record>)>;

/// Result of a transaction.
pub(super) struct TransactionResult {
    /// The last write of each record.
    pub(super) writes: MemoryWrites,
    /// Names of the records that were read, once for each read.
    pub(super) reads: Vec<OwnedName>,
}

/// A transaction while its body runs.
pub(super) struct OpenTransaction<'s> {
    partition: Partition,
    stripe: &'s MemoryStripe,
    now_secs: u64,
    writes: ByRecord<Option<Record>>,
    reads: Vec<OwnedName>,
}

impl<'s> OpenTransaction<'s> {
    pub(super) fn new(partition: Partition, stripe: &'s MemoryStripe, now_secs: u64) -> Self {
        Self { partition, stripe, now_secs, writes: ByRecord::new(), reads: Vec::new() }
    }

    /// The result of the body.
    pub(super) fn into_result(self) -> TransactionResult {
        TransactionResult { writes: self.writes.into_vec(), reads: self.reads }
    }

    fn write(&mut self, at: &RecordAt<'_>, record: Option<Record>) {
        assert!(at.partition == self.partition, "a transaction stays in its partition");
        self.writes.insert(at, record);
    }
}

impl Transaction for OpenTransaction<'_> {
    fn get(&mut self, at: &RecordAt<'_>) -> Result<Option<Record>, Interrupted> {
        assert!(at.partition == self.partition, "a transaction stays in its partition");
        if self.stripe.notes_reads() {
            self.reads.push(OwnedName::of(at));
        }
        Ok(self.stripe.get(at, self.now_secs).map(Cow::into_owned))
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
