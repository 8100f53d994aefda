//! The replicated store: what the protocols call.

mod builder;
mod preflist;
mod requests;

pub use builder::StoreBuilder;
pub use preflist::PreflistPlace;

use crate::changes::ChangeFeeds;
use crate::coordinator::Coordinator;
use crate::error::RequestError;
use crate::exchange::Exchanges;
use crate::grants::Grants;
use crate::healing::Healing;
use crate::hints::{Hints, MissedWrites};
use crate::listing::Listings;
use crate::local_node::LocalNode;
use crate::queues::SourceQueues;
use crate::reap_records::ReapRecordStats;
use crate::reaper::Retirement;
use crate::replica::Replica;
use crate::replication::{ConflictCounts, ReplicationOperator};
use crate::request_log::RequestLog;
use crate::riak_trees::RiakTrees;
use crate::service::ReplicaService;
use crate::settings::StoreSettings;
use crate::stats::{Stats, StatsSnapshot};
use crate::tombstones::NotedTombstones;
use crate::transfer::Transfers;
use crate::write_hook::WriteHook;
use bytes::Bytes;
use quoit_cluster::ControlPlane;
use quoit_model::clock::VersionVector;
use quoit_model::hash::Partition;
use quoit_model::vtag::make_vtag;
use quoit_store::engine::Engine;
use quoit_store::error::StoreError;
use quoit_store::seam::Clock;
use quoit_wire::internode::data::{METHOD_FIRST, METHOD_LAST};
use std::sync::{Arc, OnceLock};

/// Keeps generated keys apart from entity tags of the same events.
const GENERATED_KEY_SALT: u64 = 0x6B65_7973;

/// The store of one node. Shared by all connections; every method takes `&self`.
pub struct ReplicatedStore {
    pub(crate) local: Arc<LocalNode>,
    pub(crate) listings: Arc<Listings>,
    pub(crate) coordinator: Arc<Coordinator>,
    pub(crate) hook: Arc<WriteHook>,
    pub(crate) hints: Arc<Hints>,
    pub(crate) missed: Arc<MissedWrites>,
    pub(crate) tombstones: Arc<NotedTombstones>,
    pub(crate) retirement: Retirement,
    pub(crate) replica: Arc<Replica>,
    pub(crate) transfers: Transfers,
    pub(crate) exchanges: Exchanges,
    pub(crate) grants: Arc<Grants>,
    /// Damaged records that other nodes have asked for.
    pub(crate) healing: Arc<Healing>,
    /// Queues of writes for other clusters.
    pub(crate) source_queues: Arc<SourceQueues>,
    pub(crate) conflicts: ConflictCounts,
    pub(crate) change_feeds: Arc<ChangeFeeds>,
    /// Does what operators want of replication.
    pub(crate) replication_operator: OnceLock<Arc<dyn ReplicationOperator>>,
    /// Parts of the trees that Riak nodes compare clusters by.
    riak_trees: Arc<RiakTrees>,
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

impl ReplicatedStore {
    /// Clock of the tombstone that was reaped under a name, as far as this node remembers it. What it stores
    /// under that name has seen the tombstone, except where the last write wins.
    ///
    /// # Errors
    ///
    /// Names that are none, and faults of the disk.
    pub fn reaped_clock(
        &self,
        encoded: &[u8],
        partition: Partition,
    ) -> Result<Option<VersionVector>, RequestError> {
        self.replica.reaped_clock(encoded, partition)
    }

    /// Says whether this node consumes queues of other clusters.
    pub fn set_consumes(&self, consumes: bool) {
        self.hook.set_consumes(consumes);
    }

    /// Writes hints that are not on disk yet: before the process ends.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn flush_hints(&self) -> Result<(), StoreError> {
        self.missed.flush()
    }

    /// Figures of reap records.
    #[must_use]
    pub fn reap_record_stats(&self) -> ReapRecordStats {
        self.replica.reap_records.stats()
    }

    /// Whether reap records were lost, so that deleted records could come back: the node has to make up for
    /// that as for a store that has lost records ([`ReplicatedStore::settle_loss`]).
    #[must_use]
    pub fn has_lost_reap_records(&self) -> bool {
        !self.replica.reap_records.lost().is_empty()
    }

    /// Notes on disk where the files of reap records end: before the process ends.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn flush_reap_records(&self) -> Result<(), StoreError> {
        self.replica.reap_records.note_ends()
    }

    /// Listings of buckets and keys, and queries of secondary indexes.
    #[must_use]
    pub const fn listings(&self) -> &Arc<Listings> {
        &self.listings
    }

    /// The change feeds of buckets.
    #[must_use]
    pub const fn change_feeds(&self) -> &Arc<ChangeFeeds> {
        &self.change_feeds
    }

    /// The trees by which Riak nodes compare whole clusters.
    #[must_use]
    pub const fn riak_trees(&self) -> &Arc<RiakTrees> {
        &self.riak_trees
    }

    /// The control plane: bucket types, bucket properties, layout.
    #[must_use]
    pub fn control(&self) -> &Arc<ControlPlane> {
        &self.local.control
    }

    /// Counters and latency histograms of this store.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.local.stats
    }

    /// Figures since the start and of the last minute, those of the engine included.
    #[must_use]
    pub fn figures(&self) -> StatsSnapshot {
        self.local.stats.follow_indexes(|| self.local.engine.index_activity());
        self.local.stats.snapshot()
    }

    /// Keeps the present figures, so that later ones can tell of the last minute; call it once a second.
    pub fn sample_figures(&self) {
        self.local.stats.follow_indexes(|| self.local.engine.index_activity());
        self.local.stats.sample();
    }

    /// The slowest requests, the largest objects, the hottest keys.
    #[must_use]
    pub fn request_log(&self) -> &RequestLog {
        &self.coordinator.request_log
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
    pub fn settings(&self) -> &StoreSettings {
        &self.local.settings
    }

    /// The storage engine, for figures and operators.
    #[must_use]
    pub fn engine(&self) -> &dyn Engine {
        &*self.local.engine
    }

    /// The clock of the node.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        &*self.local.clock
    }

    /// A key that no other record has: made from an event of this store.
    ///
    /// # Errors
    ///
    /// When events can't be made durable.
    pub fn generate_key(&self) -> Result<Bytes, RequestError> {
        let dot = self.local.dots.issue(0)?;
        Ok(make_vtag(&dot, GENERATED_KEY_SALT))
    }

    /// Answers other nodes' requests on this node's copies from now on, for as long as the store lives.
    pub fn serve_replicas(self: &Arc<Self>) {
        let service = Arc::new(ReplicaService::new(self));
        self.local.internode.register(METHOD_FIRST..=METHOD_LAST, service);
    }

    /// Reaps tombstones, keeps hints and hands over what belongs to other nodes, until the task is dropped.
    pub async fn run_background(self: Arc<Self>) {
        let reaper = Arc::clone(&self).run_reaper();
        let hints = Arc::clone(&self.missed).run();
        let exchanges = Arc::clone(&self).run_exchanges();
        let verification = Arc::clone(&self).run_verification();
        let healing = Arc::clone(&self).run_healing();
        let found = Arc::clone(&self).run_healing_of_found();
        let queues = Arc::clone(&self).run_source_queues();
        let changes = Arc::clone(&self.change_feeds).run();
        let trees = Arc::clone(&self.riak_trees).run();
        let transfers = self.run_transfers();
        tokio::join!(
            biased; reaper, hints, exchanges, verification, healing, found, queues, changes, trees,
            transfers
        );
    }
}
