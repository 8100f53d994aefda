//! [`ReplicatedStore`], which the client protocols call. Each method hands its request to one part.

mod builder;
mod imported;
mod in_place;
mod parts;
mod requests;
mod service;
mod started;

pub use builder::StoreBuilder;

use crate::changes::ChangeFeeds;
use crate::coordinator::Coordinator;
use crate::coordinator::in_flight::AdmittedRequests;
use crate::delivery::RecordDelivery;
use crate::error::RequestError;
use crate::exchange::AntiEntropy;
use crate::folds::Folds;
use crate::grants::Grants;
use crate::hints::HintRecorder;
use crate::jobs::Jobs;
use crate::listing::Listings;
use crate::local_node::{DiskSpace, LocalNode};
use crate::losses::LossRecovery;
use crate::preflist::PreflistEntry;
use crate::queues::SourceQueues;
use crate::reap_records::ReapRecordStats;
use crate::reaper::Reaper;
use crate::replica::Replica;
use crate::replica_server::ReplicaServer;
use crate::replication::Replication;
use crate::riak_trees::RiakTrees;
use crate::stats::StatsSnapshot;
use crate::transfer::Transfers;
use crate::write_hook::WriteHook;
use bytes::Bytes;
use quoit_model::clock::VersionVector;
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_model::vtag::make_vtag;
use quoit_store::error::StoreError;
use quoit_wire::internode::data::{METHOD_FIRST, METHOD_LAST};
use service::StoreService;
use std::sync::Arc;

/// Stands in for a record's identity in the hash that makes generated keys, so that a generated key
/// differs from the entity tag of the same event.
const GENERATED_KEY_SALT: u64 = 0x6B65_7973;

/// The store of one node, a facade over its parts. The fields are in order of dependency: a part uses
/// only parts that come before it. All connections share one store; every method takes `&self`.
pub struct ReplicatedStore {
    local: Arc<LocalNode>,
    replica: Arc<Replica>,
    missed: Arc<HintRecorder>,
    change_feeds: Arc<ChangeFeeds>,
    source_queues: Arc<SourceQueues>,
    hook: Arc<WriteHook>,
    grants: Arc<Grants>,
    replica_server: Arc<ReplicaServer>,
    coordinator: Arc<Coordinator>,
    listings: Arc<Listings>,
    folds: Arc<Folds>,
    jobs: Arc<Jobs>,
    riak_trees: Arc<RiakTrees>,
    delivery: Arc<RecordDelivery>,
    anti_entropy: Arc<AntiEntropy>,
    transfers: Arc<Transfers>,
    losses: Arc<LossRecovery>,
    reaper: Arc<Reaper>,
    replication: Arc<Replication>,
}

impl ReplicatedStore {
    /// Number of requests under way that wait for a disk or for other nodes.
    #[must_use]
    pub fn active(&self) -> AdmittedRequests {
        self.coordinator.active()
    }

    /// The preference list of a key as clients see it: for each position, the node that answers for it now.
    ///
    /// # Errors
    ///
    /// Invalid names and unknown bucket types.
    pub fn preflist(&self, key: KeyRef<'_>) -> Result<Vec<PreflistEntry>, RequestError> {
        self.local.preflist(key)
    }

    /// Version vector of the tombstone that was reaped under a name; `None` if this node has no reap
    /// record of it. A record that the node stores under that name has seen the tombstone, except in
    /// buckets with last_write_wins.
    ///
    /// # Errors
    ///
    /// Names that can't be decoded, and failures of the disk.
    pub fn reaped_clock(
        &self,
        encoded: &[u8],
        partition: Partition,
    ) -> Result<Option<VersionVector>, RequestError> {
        self.replica.reaped_clock(encoded, partition)
    }

    /// Sets whether this node consumes replication queues of other clusters.
    pub fn set_consumes(&self, consumes: bool) {
        self.hook.set_consumes(consumes);
    }

    /// Writes pending hints to disk. Call it before the process ends.
    ///
    /// # Errors
    ///
    /// Failures of the disk.
    pub fn flush_hints(&self) -> Result<(), StoreError> {
        self.missed.flush()
    }

    /// Number and size of the reap records.
    #[must_use]
    pub fn reap_record_stats(&self) -> ReapRecordStats {
        self.replica.reap_records.stats()
    }

    /// Recovers from a loss of records before the node serves requests. Waits until the cluster agrees on the
    /// loss and enough nodes with complete copies serve. Returns the number of records that were dropped.
    ///
    /// # Errors
    ///
    /// Failures of the disk.
    pub async fn recover_losses(&self) -> Result<u64, RequestError> {
        self.losses.recover_losses().await
    }

    /// True if reap records were lost, so that deleted records could come back. The node then has to
    /// recover as a store that has lost records ([`ReplicatedStore::recover_losses`]).
    #[must_use]
    pub fn has_lost_reap_records(&self) -> bool {
        !self.replica.reap_records.lost().is_empty()
    }

    /// Writes to disk where the files of reap records end. Call it before the process ends.
    ///
    /// # Errors
    ///
    /// Failures of the disk.
    pub fn flush_reap_records(&self) -> Result<(), StoreError> {
        self.replica.reap_records.note_ends()
    }

    /// Figures since the start and for the last minute, including those of the engine.
    #[must_use]
    pub fn figures(&self) -> StatsSnapshot {
        self.local.figures()
    }

    /// Samples the figures for those of the last minute. Call it once a second.
    pub fn sample_figures(&self) {
        self.local.stats.follow_indexes(|| self.local.engine.index_activity());
        self.local.stats.sample();
    }

    /// Sets the function that measures the disk of the data. Later calls have no effect.
    pub fn set_disk_space_probe(
        &self,
        probe: impl Fn() -> Option<DiskSpace> + Send + Sync + 'static,
    ) {
        self.local.set_disk_space_probe(probe);
    }

    /// Free and total bytes of the disk that holds the data; `None` if they are not known. Costs a system
    /// call.
    #[must_use]
    pub fn disk_space(&self) -> Option<DiskSpace> {
        self.local.disk_space()
    }

    /// Makes a key that no other record has, from an event of this store.
    ///
    /// # Errors
    ///
    /// Failures of the disk, if the event counter can't be made durable.
    pub fn generate_key(&self) -> Result<Bytes, RequestError> {
        let dot = self.local.dots.issue(0)?;
        Ok(make_vtag(&dot, GENERATED_KEY_SALT))
    }

    /// Registers this store with the transport, which from then on delivers other nodes' requests to it
    /// for as long as the store lives.
    pub fn serve_replicas(self: &Arc<Self>) {
        let service = Arc::new(StoreService { store: Arc::downgrade(self) });
        self.local.internode.register(METHOD_FIRST..=METHOD_LAST, service);
    }

    /// Runs the background work until the task is dropped: removal of tombstones, hints, anti-entropy,
    /// replication, change feeds, Riak's trees, and transfers.
    pub async fn run_background(self: Arc<Self>) {
        let reaper = Arc::clone(&self.reaper).run();
        let hints = Arc::clone(&self.missed).run();
        let anti_entropy = Arc::clone(&self.anti_entropy).run();
        let replication = Arc::clone(&self.replication).run();
        let changes = Arc::clone(&self.change_feeds).run();
        let trees = Arc::clone(&self.riak_trees).run();
        let transfers = Arc::clone(&self.transfers).run();
        tokio::join!(biased; reaper, hints, anti_entropy, replication, changes, trees, transfers);
    }
}
