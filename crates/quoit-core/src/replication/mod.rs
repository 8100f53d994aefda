//! Replication to other clusters: what consumers of source queues are given, and what arrives from others.
//!
//! The coordinator of a write queues it right after its local write, in each queue whose filter takes it.
//! Sinks of other clusters pull: a Quoit sink takes entries under a lease and confirms them when they are on
//! its disks, a Riak sink takes them for good. `docs/design/replication.md` has the design.

mod arrive;
mod arrive_delta;
mod compare;
mod conflicts;
mod copy;
mod difference;
mod fetch;
mod for_riak;
mod operators;
mod rebase;
mod run;

pub use arrive::Arrival;
pub use arrive_delta::{ArrivedDelta, DeltaOutcome};
pub use compare::{
    ArcRange, COMPARED_RANGE_COUNT_MAX, ClusterDigests, ClusterQuestion, ComparedRecord,
};
pub use conflicts::BucketConflicts;
pub use copy::{CopiedPage, CopiedRecord};
pub use difference::{Difference, DifferenceDirection, OnlyIn, differences};
pub use fetch::{BatchBounds, Patience, QueuedObject, QueuedValue};
pub use operators::ReplicationOperator;
pub use rebase::{SeenDeletes, SeenRecord};

use crate::coordinator::Coordinator;
use crate::delivery::Deliveries;
use crate::local_node::LocalNode;
use crate::queues::SourceQueues;
use crate::replica::Replica;
use crate::tombstones::NotedTombstones;
use crate::transfer::Transfers;
use crate::write_hook::WriteHook;
use conflicts::ConflictCounts;
use std::sync::{Arc, OnceLock};

/// Replication of a node with other clusters.
pub struct Replication {
    local: Arc<LocalNode>,
    replica: Arc<Replica>,
    coordinator: Arc<Coordinator>,
    hook: Arc<WriteHook>,
    /// Queues of writes for other clusters.
    source_queues: Arc<SourceQueues>,
    tombstones: Arc<NotedTombstones>,
    delivery: Arc<Deliveries>,
    transfers: Arc<Transfers>,
    conflicts: ConflictCounts,
    /// Does what operators want of replication.
    operator: OnceLock<Arc<dyn ReplicationOperator>>,
}

impl Replication {
    pub(crate) fn new(
        coordinator: &Arc<Coordinator>,
        source_queues: &Arc<SourceQueues>,
        tombstones: &Arc<NotedTombstones>,
        transfers: &Arc<Transfers>,
    ) -> Self {
        Self {
            local: Arc::clone(&coordinator.local),
            replica: Arc::clone(&coordinator.replica),
            coordinator: Arc::clone(coordinator),
            hook: Arc::clone(&coordinator.hook),
            source_queues: Arc::clone(source_queues),
            tombstones: Arc::clone(tombstones),
            delivery: Arc::clone(&transfers.delivery),
            transfers: Arc::clone(transfers),
            conflicts: ConflictCounts::default(),
            operator: OnceLock::new(),
        }
    }
}
