//! Source queues: writes that wait for other clusters, kept in a journal.

mod entry;
mod filter;
#[cfg(any(test, feature = "testing"))]
mod fuzz;
mod journal;
mod loss;
mod manifest;
mod missed;
mod missed_mark;
mod queue;
mod source_queues;

pub(crate) use entry::{EntryReference, QueueEntry};
pub use entry::{EntrySequence, QueuePriority, Visited, VisitedCluster};
pub use filter::{QUEUE_COUNT_MAX, QueueDefinition, QueueDefinitionError, QueueFilter};
#[cfg(any(test, feature = "testing"))]
pub use fuzz::{fuzz_source_journal, source_journal_samples};
pub(crate) use journal::{Cursor, Journal, JournalEntry};
pub use missed::CheckNumber;
pub use queue::{QueueCounts, QueueLengths};
pub use source_queues::{ChangeQueueError, Lease, QueueStatus, SourceQueueSettings, SourceQueues};

#[cfg(test)]
mod missed_tests;
#[cfg(test)]
mod tests;
