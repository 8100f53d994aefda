//! Replication to other clusters: entries of source queues for their consumers, and objects that arrive
//! from other clusters.
//!
//! The coordinator of a write queues it right after its local write, in each source queue whose filter takes
//! it. Sinks pull entries from the nodes of the source. A Quoit sink takes entries under a lease, stores them
//! in a quorum of its replicas, and confirms them once they are on disk; unconfirmed entries are sent again.
//! An entry that is sent to a Riak sink leaves the queue at once, so entries in transit are lost if the sink
//! fails.
//!
//! An arriving object is merged with the stored one under its own clock, without an event of this
//! cluster, so a second arrival changes nothing. Each entry carries the clusters that it has visited,
//! and is not sent back to them. `docs/design/replication.md` has the design.

mod arrive;
mod arrive_delta;
mod compare;
mod conflicts;
mod copy;
mod difference;
mod fetch;
mod operators;
mod rebase;
mod riak_entries;
mod run;

pub use arrive::Arrival;
pub use arrive_delta::{ArrivedDelta, DeltaOutcome};
pub use compare::{
    ArcRange, COMPARED_RANGE_COUNT_MAX, ClusterDigests, ClusterQuestion, ComparedRecord,
};
pub use conflicts::BucketConflicts;
pub use copy::{CopiedPage, CopiedRecord};
pub use difference::{ClusterWithRecord, Difference, DifferenceDirection, differences};
pub use fetch::{BatchBounds, QueueWait, QueuedObject, QueuedValue};
pub use operators::ReplicationOperator;
pub use rebase::{DeletesOutcome, RecordVersion};

use crate::coordinator::Coordinator;
use crate::delivery::RecordDelivery;
use crate::local_node::LocalNode;
use crate::queues::SourceQueues;
use crate::replica::Replica;
use crate::tombstones::NotedTombstones;
use crate::transfer::Transfers;
use crate::write_hook::WriteHook;
use conflicts::ConflictCounts;
use std::sync::{Arc, OnceLock};

/// Replication between this node and other clusters.
pub struct Replication {
    local: Arc<LocalNode>,
    replica: Arc<Replica>,
    coordinator: Arc<Coordinator>,
    hook: Arc<WriteHook>,
    /// Writes that wait for other clusters.
    source_queues: Arc<SourceQueues>,
    tombstones: Arc<NotedTombstones>,
    delivery: Arc<RecordDelivery>,
    transfers: Arc<Transfers>,
    conflicts: ConflictCounts,
    /// Executes replication commands of operators.
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
