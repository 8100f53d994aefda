//! The engines' public type: implements the traits, opens and closes the store, and starts background work.

use super::backend::OrderedStore;
use super::commit::Writer;
use super::lsm::{LsmSettings, LsmStore};
use super::maintenance::{MaintenanceWorker, ReleaseWorker};
use super::open::{EngineKind, OrderedReport, StoreOpening, write_mark};
use super::repair;
use super::settings::OrderedSettings;
use super::store::StoreShared;
use super::tree::{ENGINE_FILE, TreeSettings, TreeStore};
use crate::engine::{
    Applied, BatchWrite, BeforeImage, ChangeFn, Compare, DataLocation, EngineStats, Fetch,
    InPlaceRead, IndexPage, IoMode, KeyPage, KeyRange, Maintenance, PointAccess, RecordAt,
    RecordMeta, RecordPage, RecordRef, RecordVisitor, RecordWalk, ScanAccess, SizeBound, Ticket,
    TransactionFn, Verified,
};
use crate::error::StoreError;
use crate::identity::StoreIdentity;
use crate::index::Tag;
use crate::index_activity::IndexActivity;
use crate::store_file::Meta;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::BucketRef;
use quoit_model::secondary_index::{IndexPosition, IndexRange};
use quoit_seam::{Clock, Disk, Execution, RealDisk, WorkerHandle};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};

/// Name of the worker that moves writes to the ordered store and syncs them.
pub const WRITE_WORKER: &str = "write";

/// Name of the worker that removes expired records and dropped partitions.
pub const MAINTENANCE_WORKER: &str = "upkeep";

/// Name of the worker that frees unused parts of the ordered store.
const RELEASE_WORKER: &str = "release";

/// Directory of the log-structured merge trees in the data directory.
pub(super) const LSM_DIRECTORY: &str = "lsm";

/// An engine on an ordered store. See the module's documentation.
pub struct OrderedEngine {
    store: Arc<StoreShared>,
    workers: Mutex<Vec<Arc<dyn WorkerHandle>>>,
}

impl OrderedEngine {
    /// Opens `leveled`, or creates it in the directory. It keeps heads and bodies in separate
    /// log-structured merge trees.
    ///
    /// # Errors
    ///
    /// If the directory is in use, has data of another engine or for another ring size, is damaged, or was
    /// written by a newer release, or the disk fails.
    pub fn open_leveled(
        directory: &Path,
        clock: Arc<dyn Clock>,
        execution: &dyn Execution,
        settings: OrderedSettings,
        of_trees: LsmSettings,
    ) -> Result<(Self, OrderedReport), StoreError> {
        Self::open_lsm("leveled", true, directory, clock, execution, settings, of_trees)
    }

    /// Opens `leveldb`, or creates it in the directory. It keeps records in a log-structured merge tree.
    ///
    /// # Errors
    ///
    /// As for [`OrderedEngine::open_leveled`].
    pub fn open_leveldb(
        directory: &Path,
        clock: Arc<dyn Clock>,
        execution: &dyn Execution,
        settings: OrderedSettings,
        of_trees: LsmSettings,
    ) -> Result<(Self, OrderedReport), StoreError> {
        Self::open_lsm("leveldb", false, directory, clock, execution, settings, of_trees)
    }

    fn open_lsm(
        name: &'static str,
        bodies_apart: bool,
        directory: &Path,
        clock: Arc<dyn Clock>,
        execution: &dyn Execution,
        settings: OrderedSettings,
        of_trees: LsmSettings,
    ) -> Result<(Self, OrderedReport), StoreError> {
        let disk = RealDisk::open(directory)?;
        let trees = directory.join(LSM_DIRECTORY);
        let open = |opening: &mut StoreOpening<'_>| -> Result<Box<dyn OrderedStore>, StoreError> {
            let queried_disk = RealDisk::open(directory)?;
            let disk_space = Box::new(move || queried_disk.available_bytes());
            Ok(Box::new(LsmStore::open(&trees, &of_trees, bodies_apart, disk_space, opening)?))
        };
        let kind = EngineKind { name, bodies_apart, open: &open };
        Self::open_kind(&kind, &disk, clock, execution, settings)
    }

    /// Opens `innostore`, or creates it in the directory. It keeps records in a B+tree.
    ///
    /// # Errors
    ///
    /// As for [`OrderedEngine::open_leveled`].
    pub fn open_innostore(
        disk: &Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        execution: &dyn Execution,
        settings: OrderedSettings,
        of_tree: TreeSettings,
    ) -> Result<(Self, OrderedReport), StoreError> {
        let open = |opening: &mut StoreOpening<'_>| -> Result<Box<dyn OrderedStore>, StoreError> {
            let tree = TreeStore::open(Arc::clone(disk), ENGINE_FILE, of_tree)?;
            if let Some(reason) = repair::lost(&**disk)? {
                opening.note_loss(reason)?;
                repair::forget_lost(&**disk)?;
            }
            Ok(Box::new(tree))
        };
        let kind = EngineKind { name: "innostore", bodies_apart: false, open: &open };
        Self::open_kind(&kind, &**disk, clock, execution, settings)
    }

    fn open_kind(
        kind: &EngineKind<'_>,
        disk: &dyn Disk,
        clock: Arc<dyn Clock>,
        execution: &dyn Execution,
        settings: OrderedSettings,
    ) -> Result<(Self, OrderedReport), StoreError> {
        let (store, report) = StoreShared::open(kind, disk, clock, settings)?;
        let store = Arc::new(store);
        let write = execution.start(WRITE_WORKER, Arc::new(Writer(Arc::clone(&store))));
        store.committer.attach(Arc::clone(&write));
        let maintenance =
            execution.start(MAINTENANCE_WORKER, Arc::new(MaintenanceWorker(Arc::clone(&store))));
        let is_first = store.maintenance.set(Arc::clone(&maintenance)).is_ok();
        assert!(is_first, "workers are started once");
        let release = execution.start(RELEASE_WORKER, Arc::new(ReleaseWorker(Arc::clone(&store))));
        Ok((Self { store, workers: Mutex::new(vec![release, maintenance, write]) }, report))
    }

    /// Name of the engine in settings.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.store.name
    }

    /// Identity of the store.
    #[must_use]
    pub fn identity(&self) -> &Arc<StoreIdentity> {
        &self.store.identity
    }

    fn stop_workers(&self) {
        let workers = std::mem::take(&mut *self.workers.lock());
        workers.iter().for_each(|worker| worker.stop());
    }
}

impl Drop for OrderedEngine {
    fn drop(&mut self) {
        self.stop_workers();
    }
}

impl PointAccess for OrderedEngine {
    fn get(&self, at: &RecordAt<'_>, access: IoMode) -> Result<Fetch, StoreError> {
        self.store.get(at, access)
    }

    fn show(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
        look: &mut dyn FnMut(&RecordRef<'_>),
    ) -> Result<InPlaceRead, StoreError> {
        Ok(match self.store.get(at, access)? {
            Fetch::Missing => InPlaceRead::Missing,
            Fetch::Found(record) => {
                look(&RecordRef::shared(&record));
                InPlaceRead::Found
            }
            Fetch::WouldBlock => InPlaceRead::WouldBlock,
        })
    }

    fn head(&self, at: &RecordAt<'_>) -> Result<Option<RecordMeta>, StoreError> {
        self.store.head(at)
    }

    fn size_bound(&self, at: &RecordAt<'_>, access: IoMode) -> SizeBound {
        self.store.size_bound(at, access)
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
        self.store.poll_durable(ticket, waker)
    }
}

impl ScanAccess for OrderedEngine {
    fn list_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<KeyPage, StoreError> {
        self.store.list_keys(range, after, limit)
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
        self.store.list_buckets(bucket_type, after, limit)
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

impl Maintenance for OrderedEngine {
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
        self.store.sync()
    }

    fn stats(&self) -> EngineStats {
        let store = &self.store;
        let figures = store.overlay.backend.figures();
        let (sync_count, synced_write_count) = store.committer.counts();
        let mut stats = EngineStats {
            disk_bytes: figures.disk_bytes,
            dead_bytes: figures.dead_bytes,
            segment_count: figures.file_count,
            merge_count: figures.merge_count,
            index_bytes: store.overlay.waiting_bytes(),
            sync_count,
            synced_write_count,
            corrupt_record_count: store.corrupt_records.load(Ordering::Relaxed),
            disk_full: store.committer.is_full(),
            write_failure: store.write_failure(),
            ..EngineStats::default()
        };
        for partition in &store.partitions {
            let tallies = partition.tallies.read();
            stats.key_count += tallies.summary().key_count();
            stats.tombstone_count += tallies.summary().tombstone_count;
        }
        stats
    }

    fn index_activity(&self) -> IndexActivity {
        self.store.index_counters.activity()
    }

    fn close(&self) -> Result<(), StoreError> {
        if !self.store.identity.begin_close() {
            return Err(StoreError::Closed);
        }
        self.stop_workers();
        // A change that began before has ended when its partition can be locked.
        self.store.partitions.iter().for_each(|partition| drop(partition.changing.lock()));
        self.store.sync_at_last()?;
        let mut meta = self.store.identity.file();
        let mark = write_mark(&self.store.overlay, meta.meta().mark)?;
        let closed = Meta { clean: true, mark, ..meta.meta().clone() };
        meta.write(closed)
    }
}
