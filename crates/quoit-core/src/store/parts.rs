//! The parts of a store, for the protocols, the operators and the figures.

use super::ReplicatedStore;
use crate::changes::ChangeFeeds;
use crate::exchange::AntiEntropy;
use crate::folds::Folds;
use crate::jobs::Jobs;
use crate::listing::Listings;
use crate::queues::SourceQueues;
use crate::reaper::Reaper;
use crate::replication::Replication;
use crate::request_log::RequestLog;
use crate::riak_trees::RiakTrees;
use crate::settings::StoreSettings;
use crate::stats::Stats;
use crate::transfer::Transfers;
use quoit_cluster::{ControlPlane, Internode};
use quoit_seam::Clock;
use quoit_store::engine::Engine;
use std::sync::Arc;

impl ReplicatedStore {
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

    /// Folds over buckets.
    #[must_use]
    pub const fn folds(&self) -> &Arc<Folds> {
        &self.folds
    }

    /// MapReduce jobs.
    #[must_use]
    pub const fn jobs(&self) -> &Arc<Jobs> {
        &self.jobs
    }

    /// Queues of writes for other clusters.
    #[must_use]
    pub const fn source_queues(&self) -> &Arc<SourceQueues> {
        &self.source_queues
    }

    /// Comparison of copies with those of other nodes.
    #[must_use]
    pub const fn anti_entropy(&self) -> &Arc<AntiEntropy> {
        &self.anti_entropy
    }

    /// Transfers of records to the nodes that should have them.
    #[must_use]
    pub const fn transfers(&self) -> &Arc<Transfers> {
        &self.transfers
    }

    /// Removal of tombstones.
    #[must_use]
    pub const fn reaper(&self) -> &Arc<Reaper> {
        &self.reaper
    }

    /// Replication with other clusters.
    #[must_use]
    pub const fn replication(&self) -> &Arc<Replication> {
        &self.replication
    }

    /// The connections with the other nodes of the cluster.
    #[must_use]
    pub fn internode(&self) -> &Arc<Internode> {
        &self.local.internode
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

    /// The slowest requests, the largest objects, the hottest keys.
    #[must_use]
    pub fn request_log(&self) -> &RequestLog {
        &self.coordinator.request_log
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
}
