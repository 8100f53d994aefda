//! The engine's public type: implements the traits, opens and closes the store, and starts background work.

use super::checkpoint::Checkpointer;
use super::merge::Merger;
use super::report::OpenReport;
use super::seal::Sealer;
use super::settings::BitcaskSettings;
use super::store::LogStore;
use crate::engine::{
    Applied, BatchWrite, BeforeImage, ChangeFn, Compare, DataLocation, EngineStats, Fetch,
    InPlaceRead, IndexPage, IoMode, KeyPage, KeyRange, LargeChange, Maintenance, PointAccess,
    RecordAt, RecordMeta, RecordPage, RecordRef, RecordVisitor, RecordWalk, ScanAccess, SizeBound,
    Ticket, TransactionFn, Verified,
};
use crate::error::StoreError;
use crate::identity::StoreIdentity;
use crate::index::Tag;
use crate::index_activity::IndexActivity;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::BucketRef;
use quoit_model::secondary_index::{IndexPosition, IndexRange};
use quoit_seam::{Clock, Disk, Execution, WorkerHandle};
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Name of the worker that syncs the log.
pub const COMMIT_WORKER: &str = "commit";

/// Name of the worker that writes key files.
pub const SEAL_WORKER: &str = "seal";

/// Name of the worker that writes snapshots of the index.
pub const SNAPSHOT_WORKER: &str = "snapshot";

/// Name of the worker that merges segments.
pub const MERGE_WORKER: &str = "merge";

/// The Bitcask engine: an append-only log and an index in memory. See the module's documentation.
pub struct BitcaskEngine {
    store: Arc<LogStore>,
    workers: Mutex<Vec<Arc<dyn WorkerHandle>>>,
}

impl BitcaskEngine {
    /// Opens the store in a data directory, or creates one, and starts its background work.
    ///
    /// # Errors
    ///
    /// If the directory is in use, the disk fails, or the data was written by a newer release or for another
    /// ring size. Damage does not prevent opening; the report lists it.
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        execution: &dyn Execution,
        settings: BitcaskSettings,
    ) -> Result<(Self, OpenReport), StoreError> {
        let (store, report) = LogStore::open(disk, clock, settings)?;
        let store = Arc::new(store);
        let committer = Arc::clone(&store.committer);
        let commit = execution.start(COMMIT_WORKER, committer);
        store.committer.attach(Arc::clone(&commit));
        let sealer = Arc::new(Sealer::new(Arc::clone(&store)));
        let seal = execution.start(SEAL_WORKER, sealer);
        let checkpointer = Arc::new(Checkpointer::new(Arc::clone(&store)));
        let snapshot = execution.start(SNAPSHOT_WORKER, checkpointer);
        store.indexes.attach(Arc::clone(&snapshot));
        store.log.set_roll_listeners(vec![Arc::clone(&seal), Arc::clone(&snapshot)]);
        let merge = execution.start(MERGE_WORKER, Arc::new(Merger::new(Arc::clone(&store))));
        let engine = Self { store, workers: Mutex::new(vec![merge, snapshot, seal, commit]) };
        Ok((engine, report))
    }

    /// Identity of the store.
    #[must_use]
    pub fn identity(&self) -> &Arc<StoreIdentity> {
        &self.store.identity
    }

    /// Describes each index entry and the record that it refers to.
    #[cfg(test)]
    pub(super) fn entries(&self) -> Vec<String> {
        let store = &self.store;
        let table = store.table.load();
        let mut told = Vec::new();
        for (partition, stripe) in store.stripes.iter().enumerate() {
            for entry in stripe.read().iter() {
                let (part, wait) = (super::read::ReadPart::Key, IoMode::Wait);
                let loaded = store.reader.load(&table, &entry, 64, part, wait);
                let header = match loaded {
                    Ok(super::read::LoadedRecord::Stored(stored)) => {
                        format!("{:?} {:?}", stored.key(), stored.header)
                    }
                    _ => "unreadable".to_owned(),
                };
                told.push(format!("{partition}: {:?} {header}", entry.location));
            }
        }
        told
    }

    fn stop_workers(&self) {
        let workers = std::mem::take(&mut *self.workers.lock());
        workers.iter().for_each(|worker| worker.stop());
    }
}

impl Drop for BitcaskEngine {
    fn drop(&mut self) {
        self.stop_workers();
    }
}

impl PointAccess for BitcaskEngine {
    fn get(&self, at: &RecordAt<'_>, access: IoMode) -> Result<Fetch, StoreError> {
        self.store.get(at, access)
    }

    fn show(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
        look: &mut dyn FnMut(&RecordRef<'_>),
    ) -> Result<InPlaceRead, StoreError> {
        self.store.show(at, access, look)
    }

    fn head(&self, at: &RecordAt<'_>) -> Result<Option<RecordMeta>, StoreError> {
        self.store.head(at)
    }

    fn size_bound(&self, at: &RecordAt<'_>, _: IoMode) -> SizeBound {
        SizeBound::of(self.store.size_bytes_max(at))
    }

    fn update(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        access: IoMode,
        change: &mut ChangeFn<'_>,
    ) -> Result<Applied, StoreError> {
        self.store.update(at, before, access, change)
    }

    fn update_large(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        access: IoMode,
        change: &mut LargeChange<'_>,
    ) -> Result<Applied, StoreError> {
        self.store.update_large(at, before, access, change)
    }

    fn transact(
        &self,
        partition: Partition,
        access: IoMode,
        body: &mut TransactionFn<'_>,
    ) -> Result<Applied, StoreError> {
        self.store.transact(partition, access, body)
    }

    fn batch(&self, writes: &[BatchWrite<'_>]) -> Result<Ticket, StoreError> {
        self.store.batch(writes)
    }

    fn poll_durable(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<(), StoreError>> {
        self.store.committer.poll(ticket, waker)
    }
}

impl ScanAccess for BitcaskEngine {
    fn list_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<KeyPage, StoreError> {
        self.store.repairing(|| self.store.list_keys(range, after, limit))
    }

    fn visit_records(
        &self,
        walk: RecordWalk<'_>,
        visitor: &mut dyn RecordVisitor,
    ) -> Result<Option<Bytes>, StoreError> {
        self.store.visit_records(walk, visitor)
    }

    fn query_index(
        &self,
        range: &IndexRange<'_>,
        partitions: &dyn Fn(Partition) -> bool,
        after: Option<&IndexPosition>,
        limit: usize,
    ) -> Result<IndexPage, StoreError> {
        self.store.query_index(range, partitions, after, limit)
    }

    fn list_buckets(
        &self,
        bucket_type: &[u8],
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        self.store.repairing(|| self.store.list_buckets(bucket_type, after, limit))
    }

    fn fold(
        &self,
        partition: Partition,
        from: Identity,
        limit: usize,
        tombstones_only: bool,
    ) -> Result<RecordPage, StoreError> {
        self.store.fold(partition, from, limit, tombstones_only)
    }

    fn compared(&self) -> Option<&dyn Compare> {
        Some(&*self.store)
    }
}

impl Maintenance for BitcaskEngine {
    fn take_found_damage(&self) -> Vec<(Partition, Tag)> {
        self.store.found_damage.take()
    }

    fn verify(&self, from: Option<DataLocation>, limit_bytes: u64) -> Result<Verified, StoreError> {
        self.store.verify(from, limit_bytes)
    }

    fn drop_partition(&self, partition: Partition) -> Result<Ticket, StoreError> {
        self.store.drop_partition(partition)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.store.check_open()?;
        self.store.committer.sync()
    }

    fn stats(&self) -> EngineStats {
        self.store.stats()
    }

    fn index_activity(&self) -> IndexActivity {
        self.store.indexes.counters.activity()
    }

    fn close(&self) -> Result<(), StoreError> {
        if !self.store.identity.begin_close() {
            return Err(StoreError::Closed);
        }
        self.store.log.refuse(StoreError::Closed);
        self.stop_workers();
        self.store.close()
    }
}
