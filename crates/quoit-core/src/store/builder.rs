//! Assembles a node's store from its parts.

use super::ReplicatedStore;
use crate::changes::{ChangeFeeds, ChangeLog};
use crate::coordinator::Coordinator;
use crate::delivery::RecordDelivery;
use crate::dots::DotSequence;
use crate::exchange::AntiEntropy;
use crate::folds::Folds;
use crate::grants::Grants;
use crate::healing::Healing;
use crate::hints::{HintRecorder, Hints};
use crate::jobs::Jobs;
use crate::listing::Listings;
use crate::local_node::LocalNode;
use crate::losses::LossRecovery;
use crate::queues::{SourceQueueSettings, SourceQueues};
use crate::reap_records::ReapRecords;
use crate::reaper::Reaper;
use crate::replica::Replica;
use crate::replica_server::ReplicaServer;
use crate::replication::Replication;
use crate::riak_trees::RiakTrees;
use crate::settings::StoreSettings;
use crate::tombstones::NotedTombstones;
use crate::transfer::Transfers;
use crate::write_hook::WriteHook;
use parking_lot::Mutex;
use quoit_cluster::{ControlPlane, Internode};
use quoit_model::key::BucketRef;
use quoit_seam::{Clock, Disk};
use quoit_store::compressed::{CompressedEngine, CompressionChoice};
use quoit_store::engine::Engine;
use quoit_store::error::StoreError;
use std::sync::Arc;

/// Looks up whether a bucket's values are compressed (property `compression`).
struct Properties(Arc<ControlPlane>);

impl CompressionChoice for Properties {
    fn compresses(&self, bucket: BucketRef<'_>) -> bool {
        self.0.read().compresses(bucket)
    }
}

/// Builds a node's store. A part that is given no disk keeps its state in memory and loses it when the
/// process ends.
pub struct StoreBuilder {
    local: Arc<LocalNode>,
    hints: Hints,
    reap_records: ReapRecords,
    riak_trees: Arc<RiakTrees>,
    source_queues: SourceQueues,
    change_log: Option<ChangeLog>,
}

impl StoreBuilder {
    /// Creates a builder from the services that every part of the store needs.
    #[must_use]
    pub fn new(
        engine: Arc<dyn Engine>,
        control: Arc<ControlPlane>,
        internode: Arc<Internode>,
        clock: Arc<dyn Clock>,
        dots: DotSequence,
        settings: StoreSettings,
    ) -> Self {
        let choice = Arc::new(Properties(Arc::clone(&control)));
        let engine: Arc<dyn Engine> = Arc::new(CompressedEngine::new(engine, choice));
        let local = LocalNode::new(engine, control, internode, clock, dots, settings);
        let local = Arc::new(local);
        Self {
            hints: Hints::in_memory(settings.hint_count_max.0),
            reap_records: ReapRecords::in_memory(local.ring_size(), settings.reap_records),
            riak_trees: RiakTrees::in_memory(&local),
            source_queues: SourceQueues::in_memory(SourceQueueSettings::default()),
            change_log: None,
            local,
        }
    }

    /// Keeps hints on a disk, and loads the hints that are already there.
    ///
    /// # Errors
    ///
    /// Failures of the disk, and files with the names of hint files that are not hint files.
    pub fn with_hints(mut self, disk: Arc<dyn Disk>) -> Result<Self, StoreError> {
        let count_max = self.local.settings.hint_count_max.0;
        self.hints = Hints::open(disk, self.local.ring_size(), count_max)?;
        Ok(self)
    }

    /// Keeps reap records on a disk, and loads those that are already there. Without a disk, deleted
    /// records can come back with older copies after a restart. `entropy` is a random number.
    ///
    /// # Errors
    ///
    /// Failures of the disk, and reap records that belong to another ring size or were written by a newer
    /// release.
    pub fn with_reap_records(
        mut self,
        disk: Arc<dyn Disk>,
        entropy: u64,
    ) -> Result<Self, StoreError> {
        let limits = self.local.settings.reap_records;
        self.reap_records = ReapRecords::open(disk, self.local.ring_size(), limits, entropy)?;
        Ok(self)
    }

    /// Keeps the hashes of Riak's trees on a disk, and loads those that are already there. In memory
    /// their number is bounded.
    #[must_use]
    pub fn with_riak_trees(mut self, disk: Arc<dyn Disk>) -> Self {
        self.riak_trees = RiakTrees::open(&self.local, disk);
        self
    }

    /// Serves change feeds from this log. Without it the store has no change feeds.
    #[must_use]
    pub fn with_change_log(mut self, log: ChangeLog) -> Self {
        self.change_log = Some(log);
        self
    }

    /// Replicates to other clusters through these queues.
    #[must_use]
    pub fn with_source_queues(mut self, queues: SourceQueues) -> Self {
        self.source_queues = queues;
        self
    }

    /// Returns the store. Its background work starts with [`ReplicatedStore::run_background`].
    #[must_use]
    pub fn build(self) -> Arc<ReplicatedStore> {
        let Self { local, hints, reap_records, riak_trees, source_queues, change_log } = self;
        // Tells the control plane that nothing is known yet about strays in this store.
        local.control.set_drained_by_layout(0);
        let tombstones = Arc::new(NotedTombstones::new(local.clock.unix_us()));
        let healing = Arc::<Healing>::default();
        let suspects = Arc::<Mutex<_>>::default();
        let replica = Replica::new(
            Arc::clone(&local),
            Arc::new(reap_records),
            Arc::clone(&tombstones),
            Arc::clone(&suspects),
            Arc::clone(&healing),
        );
        let replica = Arc::new(replica);
        let grants = Grants::new(&local, &replica);
        let change_feeds = ChangeFeeds::new(&local, change_log);
        let (hints, source_queues) = (Arc::new(hints), Arc::new(source_queues));
        let hook = WriteHook::new(
            Arc::clone(&local),
            Arc::clone(&source_queues),
            Arc::clone(&change_feeds),
        );
        let hook = Arc::new(hook);
        let missed = Arc::new(HintRecorder::new(Arc::clone(&local), Arc::clone(&hints)));
        let coordinator = Coordinator::new(
            Arc::clone(&local),
            Arc::clone(&replica),
            Arc::clone(&hook),
            Arc::clone(&missed),
            Arc::clone(&grants),
        );
        let coordinator = Arc::new(coordinator);
        let listings = Listings::new(&local, &tombstones, &healing);
        let delivery = Arc::new(RecordDelivery::new(&replica, &hints, suspects));
        let anti_entropy = Arc::new(AntiEntropy::new(&coordinator, &delivery, &healing));
        let transfers = Arc::new(Transfers::new(&delivery, &anti_entropy));
        let reaper = Reaper::new(&coordinator, &source_queues, &tombstones, &delivery);
        let replication = Replication::new(&coordinator, &source_queues, &tombstones, &transfers);
        Arc::new(ReplicatedStore {
            folds: Arc::new(Folds::new(&coordinator, &listings, &source_queues)),
            jobs: Arc::new(Jobs::new(&coordinator, &listings)),
            reaper: Arc::new(reaper),
            replication: Arc::new(replication),
            replica_server: Arc::new(ReplicaServer::new(&coordinator, &healing)),
            losses: Arc::new(LossRecovery::new(&replica, &anti_entropy)),
            local,
            replica,
            missed,
            change_feeds,
            source_queues,
            hook,
            grants,
            coordinator,
            listings,
            riak_trees,
            delivery,
            anti_entropy,
            transfers,
        })
    }
}
