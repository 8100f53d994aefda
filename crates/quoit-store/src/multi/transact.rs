//! Transactions in one of several engines.

use super::routes::Routes;
use crate::engine::{Interrupted, Interruption, Record, RecordAt, RecordMeta, Transaction};
use crate::error::StoreError;
use quoit_model::hash::Partition;

/// Finds the engine of the first record of a transaction, and interrupts the body there.
pub(super) struct Probe<'r> {
    pub(super) routes: &'r Routes,
    pub(super) partition: Partition,
    pub(super) found: Option<usize>,
}

impl Probe<'_> {
    fn find<T>(&mut self, at: &RecordAt<'_>) -> Result<T, Interrupted> {
        assert!(at.partition == self.partition, "a transaction stays in its partition");
        self.found.get_or_insert(self.routes.of_key(at.key));
        Err(Interrupted(Interruption::NeedsWait))
    }
}

impl Transaction for Probe<'_> {
    fn get(&mut self, at: &RecordAt<'_>) -> Result<Option<Record>, Interrupted> {
        self.find(at)
    }

    fn put(&mut self, at: &RecordAt<'_>, _: RecordMeta, _: &[u8]) -> Result<(), Interrupted> {
        self.find(at)
    }

    fn remove(&mut self, at: &RecordAt<'_>) -> Result<(), Interrupted> {
        self.find(at)
    }
}

/// Wraps a transaction and fails if it leaves its engine.
pub(super) struct SingleEngineTransaction<'t> {
    pub(super) routes: &'t Routes,
    pub(super) engine: usize,
    pub(super) inner: &'t mut dyn Transaction,
}

impl SingleEngineTransaction<'_> {
    fn check(&self, at: &RecordAt<'_>) -> Result<(), Interrupted> {
        let is_within = self.routes.of_key(at.key) == self.engine;
        if is_within { Ok(()) } else { Err(StoreError::SeveralEngines.into()) }
    }
}

impl Transaction for SingleEngineTransaction<'_> {
    fn get(&mut self, at: &RecordAt<'_>) -> Result<Option<Record>, Interrupted> {
        self.check(at)?;
        self.inner.get(at)
    }

    fn put(
        &mut self,
        at: &RecordAt<'_>,
        meta: RecordMeta,
        value: &[u8],
    ) -> Result<(), Interrupted> {
        self.check(at)?;
        self.inner.put(at, meta, value)
    }

    fn remove(&mut self, at: &RecordAt<'_>) -> Result<(), Interrupted> {
        self.check(at)?;
        self.inner.remove(at)
    }
}
