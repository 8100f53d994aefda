//! The replicated store: what the protocols call.

use crate::blocking::Blocking;
use crate::changes::ChangeLog;
use crate::dots::DotSequence;
use crate::error::RequestError;
use crate::exchange::{ExchangeSettings, Exchanges};
use crate::grants::Grants;
use crate::healing::Healing;
use crate::hints::Hints;
use crate::in_flight::InFlight;
use crate::listing::CoveragePlans;
use crate::map_work::MapSessions;
use crate::options::WriteOptions;
use crate::reap_records::{ReapRecordLimits, ReapRecordStats, ReapRecords};
use crate::reaper::{DeleteMode, Reaper};
use crate::records::Records;
use crate::replication::{ConflictCounts, ReplicationOperator, SourceQueueSettings, SourceQueues};
use crate::request_log::{RequestLog, RequestLogSettings};
use crate::riak_trees::RiakTrees;
use crate::service::ReplicaService;
use crate::stats::{Stats, StatsSnapshot};
use crate::topology::Topology;
use crate::transfer::{TransferLimits, Transfers, n_vals};
use crate::votes::ReplicaCount;
use crate::write_clock::WriteClock;
use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use quoit_cluster::{ControlPlane, Internode, NoSuchType, State};
use quoit_model::hash::{KeyHash, Partition, RingSize};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::object::Object;
use quoit_model::props::BucketProps;
use quoit_model::vtag::make_vtag;
use quoit_store::compressed::{CompressedEngine, CompressionChoice};
use quoit_store::engine::{Access, Engine, RecordAt, Ticket};
use quoit_store::error::StoreError;
use quoit_store::seam::{Clock, Disk};
use quoit_wire::internode::data::{METHOD_FIRST, METHOD_LAST};
use std::future::poll_fn;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Time that a request may take when it does not say, in milliseconds.
pub const TIMEOUT_MS_DEFAULT: u32 = 60_000;

/// Keeps generated keys apart from entity tags of the same events.
const GENERATED_KEY_SALT: u64 = 0x6B65_7973;
/// Takes the place of an identity in entity tags that are made before the event of their write.
const TAG_SALT: u64 = 0x7461_6773;

/// Limits on what is stored and done. Repair and replication are exempt from them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Largest object, as stored, in bytes (`object.size.maximum`).
    pub object_size_bytes_max: u64,
    /// Objects above this many bytes are logged (`object.size.warning_threshold`).
    pub object_size_bytes_warning: u64,
    /// Most siblings (`object.siblings.maximum`).
    pub sibling_count_max: u32,
    /// Objects with more siblings than this are logged (`object.siblings.warning_threshold`).
    pub sibling_count_warning: u32,
    /// Most requests under way, reads and writes each (`max_concurrent_requests`).
    pub concurrent_request_count_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            object_size_bytes_max: 50 << 20,
            object_size_bytes_warning: 5 << 20,
            sibling_count_max: 100,
            sibling_count_warning: 25,
            concurrent_request_count_max: 50_000,
        }
    }
}

/// Settings of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreSettings {
    /// Limits on objects.
    pub limits: Limits,
    /// How soon tombstones are reaped.
    pub delete_mode: DeleteMode,
    /// Seconds after which objects of buckets without a `ttl` of their own expire; `None` = never.
    pub ttl_secs_default: Option<u32>,
    /// Where the store waits for the disk.
    pub blocking: Blocking,
    /// How much transfers of partitions may take at first.
    pub transfer_limits: TransferLimits,
    /// The least part of the time in which transfers work, in percent, however slow requests are; 100: they
    /// never rest.
    pub transfer_share_min: TransferShareMin,
    /// How copies are compared.
    pub exchanges: ExchangeSettings,
    /// References to records that other nodes have missed, at most.
    pub hint_count_max: HintCountMax,
    /// How many reap records there may be.
    pub reap_records: ReapRecordLimits,
    /// How many slow requests, large objects and hot keys are kept.
    pub request_log: RequestLogSettings,
}

/// A least share of the time, in percent, 1 to 100.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferShareMin(pub u8);

impl Default for TransferShareMin {
    fn default() -> Self {
        Self(2)
    }
}

/// A bound on hints: references of 32 bytes on disk, and some more in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HintCountMax(pub usize);

impl Default for HintCountMax {
    fn default() -> Self {
        Self(1_000_000)
    }
}

/// One position of a preference list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreflistPlace {
    /// The partition.
    pub partition: Partition,
    /// Name of the node that holds it.
    pub node: String,
    /// Whether the node is a primary and no fallback.
    pub primary: bool,
}

/// The store of one node. Shared by all connections; every method takes `&self`.
pub struct ReplicatedStore {
    pub(crate) engine: Arc<dyn Engine>,
    /// Records of the engine, as whole objects.
    pub(crate) records: Arc<Records>,
    pub(crate) control: Arc<ControlPlane>,
    pub(crate) internode: Arc<Internode>,
    topology: ArcSwap<Topology>,
    /// Which nodes are asked when all partitions are.
    pub(crate) plans: CoveragePlans,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dots: DotSequence,
    pub(crate) write_clock: WriteClock,
    pub(crate) settings: StoreSettings,
    pub(crate) hints: Arc<Hints>,
    pub(crate) reaper: Reaper,
    pub(crate) reap_records: Arc<ReapRecords>,
    pub(crate) transfers: Transfers,
    /// Reads and writes under way.
    pub(crate) gets: InFlight,
    pub(crate) puts: InFlight,
    pub(crate) exchanges: Exchanges,
    /// Rights of conditional writes that this node has given as a primary.
    pub(crate) grants: Arc<Grants>,
    /// Damaged records that other nodes have asked for.
    pub(crate) healing: Healing,
    /// Queues of writes for other clusters.
    pub(crate) source_queues: Arc<SourceQueues>,
    pub(crate) conflicts: ConflictCounts,
    /// Writes of buckets with a change feed; `None` where records end with the process.
    pub(crate) change_log: Option<Arc<ChangeLog>>,
    /// Does what operators want of replication.
    pub(crate) replication_operator: OnceLock<Arc<dyn ReplicationOperator>>,
    /// Parts of the trees that Riak nodes compare clusters by.
    pub(crate) riak_trees: RiakTrees,
    /// Whether this node consumes queues of other clusters.
    pub(crate) consumes: AtomicBool,
    /// Scripts of other nodes' jobs.
    pub(crate) map_sessions: MapSessions,
    stats: Stats,
    pub(crate) request_log: RequestLog,
    room: OnceLock<RoomOfDisk>,
}

/// Asks the system for the room of the disk that holds the data.
type RoomOfDisk = Box<dyn Fn() -> Option<DiskRoom> + Send + Sync>;

/// Room of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskRoom {
    /// Bytes that the node may still use.
    pub free_bytes: u64,
    /// Its size in bytes.
    pub total_bytes: u64,
}

/// The property `compression` of buckets.
struct Properties(Arc<ControlPlane>);

impl CompressionChoice for Properties {
    fn compresses(&self, bucket: BucketRef<'_>) -> bool {
        self.0.read().compresses(bucket)
    }
}

impl ReplicatedStore {
    /// Puts the parts together. Background work starts with [`ReplicatedStore::run_background`].
    #[must_use]
    pub fn new(
        engine: Arc<dyn Engine>,
        control: Arc<ControlPlane>,
        internode: Arc<Internode>,
        clock: Arc<dyn Clock>,
        dots: DotSequence,
        settings: StoreSettings,
    ) -> Self {
        let topology = ArcSwap::from_pointee(Topology::new(&control.read(), &internode));
        let own = control.read().node_id();
        let ring_size = control.read().ring_size();
        let reaper = Reaper::new(clock.unix_us());
        // Nobody has looked yet.
        control.set_clear_by(0);
        let choice = Arc::new(Properties(Arc::clone(&control)));
        let engine: Arc<dyn Engine> = Arc::new(CompressedEngine::new(engine, choice));
        let records = Arc::new(Records::new(Arc::clone(&engine), clock.unix_us()));
        Self {
            engine,
            records,
            control,
            internode,
            topology,
            plans: CoveragePlans::new(),
            clock,
            dots,
            write_clock: WriteClock::default(),
            settings,
            hints: Arc::new(Hints::in_memory(settings.hint_count_max.0)),
            reaper,
            reap_records: Arc::new(ReapRecords::in_memory(ring_size, settings.reap_records)),
            transfers: Transfers::new(settings.transfer_limits, settings.transfer_share_min.0),
            gets: InFlight::new(settings.limits.concurrent_request_count_max),
            puts: InFlight::new(settings.limits.concurrent_request_count_max),
            exchanges: Exchanges::new(own, settings.exchanges),
            grants: Arc::default(),
            healing: Healing::default(),
            source_queues: Arc::new(SourceQueues::in_memory(SourceQueueSettings::default())),
            conflicts: ConflictCounts::default(),
            change_log: None,
            replication_operator: OnceLock::new(),
            riak_trees: RiakTrees::default(),
            consumes: AtomicBool::new(false),
            map_sessions: MapSessions::default(),
            stats: Stats::default(),
            request_log: RequestLog::new(settings.request_log),
            room: OnceLock::new(),
        }
    }

    /// Keeps hints on a disk, and takes up those that are there. Without it they end with the process.
    ///
    /// # Errors
    ///
    /// When the disk refuses, or has something else in the place of hints.
    pub fn with_hints(mut self, disk: Arc<dyn Disk>) -> Result<Self, StoreError> {
        let count_max = self.settings.hint_count_max.0;
        self.hints = Arc::new(Hints::open(disk, self.ring_size(), count_max)?);
        Ok(self)
    }

    /// Keeps reap records on a disk, and takes up those that are there. Without it they end with the process,
    /// and what was deleted and reaped may come back with copies that are older. `entropy` is random.
    ///
    /// # Errors
    ///
    /// When the disk refuses, or has reap records of another ring or of a newer release.
    pub fn with_reap_records(
        mut self,
        disk: Arc<dyn Disk>,
        entropy: u64,
    ) -> Result<Self, StoreError> {
        let limits = self.settings.reap_records;
        let records = ReapRecords::open(disk, self.ring_size(), limits, entropy)?;
        self.reap_records = Arc::new(records);
        Ok(self)
    }

    /// Keeps what was hashed for Riak's trees on a disk, and takes up what is there. Without it all is in
    /// memory, within a bound, and ends with the process.
    #[must_use]
    pub fn with_riak_trees(mut self, disk: Arc<dyn Disk>) -> Self {
        self.riak_trees = RiakTrees::open(disk, self.clock.unix_secs());
        self
    }

    /// Replicates to other clusters by these queues.
    #[must_use]
    pub fn with_source_queues(mut self, queues: SourceQueues) -> Self {
        self.source_queues = Arc::new(queues);
        self
    }

    /// Figures of reap records.
    #[must_use]
    pub fn reap_record_stats(&self) -> ReapRecordStats {
        self.reap_records.stats()
    }

    /// Whether reap records were lost, so that deleted records could come back: the node has to make up for
    /// that as for a store that has lost records ([`ReplicatedStore::settle_loss`]).
    #[must_use]
    pub fn has_lost_reap_records(&self) -> bool {
        !self.reap_records.lost().is_empty()
    }

    /// Notes on disk where the files of reap records end: before the process ends.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn flush_reap_records(&self) -> Result<(), StoreError> {
        self.reap_records.note_ends()
    }

    /// The control plane: bucket types, bucket properties, layout.
    #[must_use]
    pub const fn control(&self) -> &Arc<ControlPlane> {
        &self.control
    }

    /// Counters and latency histograms of this store.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Figures since the start and of the last minute, those of the engine included.
    #[must_use]
    pub fn figures(&self) -> StatsSnapshot {
        self.stats.follow_indexes(|| self.engine.index_activity());
        self.stats.snapshot()
    }

    /// Keeps the present figures, so that later ones can tell of the last minute; call it once a second.
    pub fn sample_figures(&self) {
        self.stats.follow_indexes(|| self.engine.index_activity());
        self.stats.sample();
    }

    /// The slowest requests, the largest objects, the hottest keys.
    #[must_use]
    pub const fn request_log(&self) -> &RequestLog {
        &self.request_log
    }

    /// Says how the room of the disk that holds the data is found out; once, when the node is put together.
    pub fn set_room_of_disk(&self, ask: impl Fn() -> Option<DiskRoom> + Send + Sync + 'static) {
        // The second time would be a fault of the assembly, and the first one stands.
        let _ = self.room.set(Box::new(ask));
    }

    /// The room of the disk that holds the data; `None` where nothing tells. A system call.
    #[must_use]
    pub fn room_of_disk(&self) -> Option<DiskRoom> {
        self.room.get().and_then(|ask| ask())
    }

    /// The settings, for operators.
    #[must_use]
    pub const fn settings(&self) -> &StoreSettings {
        &self.settings
    }

    /// The storage engine, for figures and operators.
    #[must_use]
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// The clock of the node.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The preference list of a key as clients are shown it: who answers for each position now.
    ///
    /// # Errors
    ///
    /// Bad names and unknown bucket types.
    pub fn preflist(&self, key: KeyRef<'_>) -> Result<Vec<PreflistPlace>, RequestError> {
        key.check()?;
        let state = self.control.read();
        let props = bucket_props(&state, key.bucket)?;
        let encoded = key.encoded();
        let first = record_at(&state, props, key, &encoded).partition;
        let partition_count = state.ring_size().get();
        let n_val = props.n_val.min(u32::from(partition_count));
        let topology = self.topology_of(&state);
        let positions = topology.positions(first, n_val).into_iter().zip(0..);
        let places = positions.map(|((node, primary), position)| PreflistPlace {
            // Each position has a partition of its own as clients are shown it.
            partition: Partition((first.0 + position) % partition_count),
            node: (*topology.node(node).name).to_owned(),
            primary,
        });
        Ok(places.collect())
    }

    /// The present topology, which is no older than any state that was read before. Two atomic loads while
    /// nothing has changed.
    pub(crate) fn topology_now(&self) -> Guard<Arc<Topology>> {
        let topology = self.topology.load();
        if topology.is_current(self.control.newest_version(), &self.internode) {
            return topology;
        }
        self.topology_of(&self.control.read())
    }

    /// The topology of a state that was read just now.
    pub(crate) fn topology_of(&self, state: &State) -> Guard<Arc<Topology>> {
        let topology = self.topology.load();
        if topology.is_current(state.version(), &self.internode) {
            return topology;
        }
        let newest = Arc::new(Topology::new(state, &self.internode));
        self.topology.store(Arc::clone(&newest));
        // Not what is stored now: who has begun with an older state may have been last.
        Guard::from_inner(newest)
    }

    /// As [`ReplicatedStore::topology_now`], to keep across waiting.
    pub(crate) fn topology(&self) -> Arc<Topology> {
        Guard::into_inner(self.topology_now())
    }

    /// As [`ReplicatedStore::topology`], once this node may judge who is up: right after its start everybody
    /// looks dead, and fallbacks would vote that know nothing.
    pub(crate) async fn settled_topology(&self, timeout_ms: Option<u32>) -> Arc<Topology> {
        if !self.internode.is_settled() {
            let limit = Duration::from_millis(u64::from(timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT)));
            self.internode.settled(Instant::now() + limit).await;
        }
        self.topology()
    }

    /// Waits until the control plane knows something newer than `version`.
    pub(crate) async fn wait_for_newer(
        &self,
        version: u64,
        deadline: Instant,
    ) -> Result<(), RequestError> {
        let mut versions = self.control.watch();
        let newer = versions.wait_for(|known| *known > version);
        match timeout_at(deadline, newer).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(RequestError::Timeout),
        }
    }

    /// The most replicas that any bucket has.
    pub(crate) fn n_val_max(&self) -> u32 {
        n_vals(&self.control.read()).1
    }

    /// Number of partitions.
    pub(crate) fn ring_size(&self) -> RingSize {
        self.control.read().ring_size()
    }

    /// How many replicas a record has, of a bucket with this `n_val`. One comparison while no bucket was
    /// raised lately.
    pub(crate) fn replicas_by(
        &self,
        topology: &Topology,
        encoded: &[u8],
        n_val: u32,
    ) -> ReplicaCount {
        if topology.raised_at() == 0 {
            return n_val.into();
        }
        let key = KeyRef::decode(encoded).ok();
        let state = self.control.read();
        let filled = key.map(|key| state.filled_n_val(key.bucket, n_val));
        ReplicaCount { n_val, filled_n_val: filled.unwrap_or(n_val) }
    }

    /// The partition of a record and the number of its bucket's replicas.
    pub(crate) fn partition_of(&self, key: KeyRef<'_>) -> Result<(Partition, u32), RequestError> {
        key.check()?;
        let state = self.control.read();
        let props = object_props(&state, key.bucket)?;
        let encoded = key.encoded();
        Ok((record_at(&state, props, key, &encoded).partition, props.n_val))
    }

    /// The properties of the bucket of a record, to keep across waiting.
    pub(crate) fn props_of(&self, key: KeyRef<'_>) -> Result<Arc<BucketProps>, RequestError> {
        key.check()?;
        let state = self.control.read();
        object_props(&state, key.bucket)?;
        self.control
            .bucket_props(key.bucket)
            .map_err(|NoSuchType| RequestError::NoSuchType(key.bucket.bucket_type.to_vec()))
    }

    /// Whether this node coordinates a write of a record: it is one of those that should have it, or the
    /// request has a fault that any node can tell.
    pub(crate) fn coordinates(
        &self,
        topology: &Topology,
        key: KeyRef<'_>,
        options: &WriteOptions,
    ) -> bool {
        if topology.is_alone() {
            return true;
        }
        let Ok((partition, bucket_n_val)) = self.partition_of(key) else { return true };
        let n_val = options.n_val.unwrap_or(bucket_n_val).min(bucket_n_val);
        topology.coordinates(&topology.writers(partition, n_val, options.is_sloppy(), &[]))
    }

    /// A key that no other record has: made from an event of this store.
    ///
    /// # Errors
    ///
    /// When events can't be made durable.
    pub fn generate_key(&self) -> Result<Bytes, RequestError> {
        let dot = self.dots.issue(0)?;
        Ok(make_vtag(&dot, GENERATED_KEY_SALT))
    }

    /// An entity tag that no other value has: made from an event of this store that writes nothing.
    ///
    /// # Errors
    ///
    /// As [`ReplicatedStore::generate_key`].
    pub(crate) fn new_tag(&self) -> Result<Bytes, RequestError> {
        let dot = self.dots.issue(0)?;
        Ok(make_vtag(&dot, TAG_SALT))
    }

    /// Answers other nodes' requests on this node's copies from now on, for as long as the store lives.
    pub fn serve_replicas(self: &Arc<Self>) {
        let service = Arc::new(ReplicaService::new(self));
        self.internode.register(METHOD_FIRST..=METHOD_LAST, service);
    }

    /// Reaps tombstones, keeps hints and hands over what belongs to other nodes, until the task is dropped.
    pub async fn run_background(self: Arc<Self>) {
        let reaper = Arc::clone(&self).run_reaper();
        let hints = Arc::clone(&self).run_hints();
        let exchanges = Arc::clone(&self).run_exchanges();
        let verification = Arc::clone(&self).run_verification();
        let healing = Arc::clone(&self).run_healing();
        let found = Arc::clone(&self).run_healing_of_found();
        let queues = Arc::clone(&self).run_source_queues();
        let changes = Arc::clone(&self).run_change_log();
        let trees = Arc::clone(&self).run_riak_trees();
        let transfers = self.run_transfers();
        tokio::join!(
            biased; reaper, hints, exchanges, verification, healing, found, queues, changes, trees,
            transfers
        );
    }

    /// Waits until everything up to `ticket` survives the death of the machine.
    pub(crate) async fn durable(
        &self,
        ticket: Ticket,
        timeout_ms: Option<u32>,
    ) -> Result<(), RequestError> {
        let synced = poll_fn(|context| self.engine.poll_durable(ticket, context.waker()));
        let limit = Duration::from_millis(u64::from(timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT)));
        match tokio::time::timeout(limit, synced).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(RequestError::Timeout),
        }
    }
}

/// How many replicas the records of a bucket have.
pub(crate) fn replicas_of(
    state: &State,
    bucket: BucketRef<'_>,
) -> Result<ReplicaCount, RequestError> {
    let n_val = bucket_props(state, bucket)?.n_val;
    Ok(ReplicaCount { n_val, filled_n_val: state.filled_n_val(bucket, n_val) })
}

/// The effective properties of a bucket.
pub(crate) fn bucket_props<'s>(
    state: &'s State,
    bucket: BucketRef<'_>,
) -> Result<&'s BucketProps, RequestError> {
    match state.bucket_props(bucket) {
        Ok(props) => Ok(props),
        Err(NoSuchType) => Err(RequestError::NoSuchType(bucket.bucket_type.to_vec())),
    }
}

/// The properties of a bucket whose objects are read or written.
///
/// A promise of strong consistency is refused, not broken.
pub(crate) fn object_props<'s>(
    state: &'s State,
    bucket: BucketRef<'_>,
) -> Result<&'s BucketProps, RequestError> {
    let props = bucket_props(state, bucket)?;
    if props.is_consistent() {
        return Err(RequestError::Consistent(bucket.bucket_type.to_vec()));
    }
    Ok(props)
}

/// Finds a record's place; `encoded` is its name as [`KeyRef::encoded`] gives it.
pub(crate) fn record_at<'a>(
    state: &State,
    props: &BucketProps,
    key: KeyRef<'a>,
    encoded: &'a [u8],
) -> RecordAt<'a> {
    let hash = KeyHash::of(encoded, key.bucket, props.chash_keyfun);
    let partition = state.ring_size().partition(hash.placement);
    RecordAt { key, encoded, identity: hash.identity, partition }
}

/// Repeats `step` where waiting for the disk is allowed when it would have to wait.
///
/// Only then does the request leave its thread's rhythm.
pub(crate) fn wait_if_blocked<T>(
    blocking: Blocking,
    mut step: impl FnMut(Access) -> Result<Option<T>, RequestError>,
) -> Result<T, RequestError> {
    if let Some(done) = step(Access::NoWait)? {
        return Ok(done);
    }
    let waited = blocking.in_place(|| step(Access::Wait))?;
    Ok(waited.expect("an engine that may wait does not answer WouldBlock"))
}

/// Reads what an engine stored.
pub(crate) fn decode(stored: &Bytes) -> Result<Object, RequestError> {
    Object::decode(stored).map_err(|reason| RequestError::Damaged(reason.to_string()))
}
