//! Replication to other clusters: the source queues, and what their consumers are given.
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
mod entry;
mod fetch;
mod filter;
mod for_riak;
mod fuzz;
mod hook;
mod journal;
mod loss;
mod manifest;
mod missed;
mod missed_mark;
mod operators;
mod queue;
mod rebase;
mod run;
mod source_queues;

pub use arrive::Arrival;
pub use arrive_delta::{ArrivedDelta, DeltaOutcome};
pub use compare::{
    ArcRange, COMPARED_RANGE_COUNT_MAX, ClusterDigests, ClusterQuestion, ComparedRecord,
};
pub use conflicts::BucketConflicts;
pub(crate) use conflicts::ConflictCounts;
pub use copy::{CopiedPage, CopiedRecord};
pub use difference::{Difference, DifferenceDirection, OnlyIn, differences};
pub(crate) use entry::{EntryReference, QueueEntry};
pub use entry::{EntrySequence, QueuePriority, Visited, VisitedCluster};
pub use fetch::{BatchBounds, Patience, QueuedObject, QueuedValue};
pub use filter::{QUEUE_COUNT_MAX, QueueDefinition, QueueDefinitionError, QueueFilter};
pub use fuzz::{fuzz_source_journal, source_journal_samples};
pub(crate) use hook::{WriteHook, WrittenObject};
pub(crate) use journal::{Cursor, Journal, JournalEntry};
pub use missed::CheckNumber;
pub use operators::ReplicationOperator;
pub use queue::{QueueCounts, QueueLengths};
pub use rebase::{SeenDeletes, SeenRecord};
pub use source_queues::{ChangeQueueError, Lease, QueueStatus, SourceQueueSettings, SourceQueues};

#[cfg(test)]
mod missed_tests;
#[cfg(test)]
mod tests;
