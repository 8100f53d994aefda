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
pub(crate) use conflicts::ConflictCounts;
pub use copy::{CopiedPage, CopiedRecord};
pub use difference::{Difference, DifferenceDirection, OnlyIn, differences};
pub use fetch::{BatchBounds, Patience, QueuedObject, QueuedValue};
pub use operators::ReplicationOperator;
pub use rebase::{SeenDeletes, SeenRecord};
