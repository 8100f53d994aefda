//! Source queues: writes that wait to be fetched by sinks, which are other clusters.
//!
//! The coordinator of a write queues it right after its local write, in every queue whose filter takes
//! its bucket. Sinks take entries under a lease and confirm them; an entry that is not confirmed is sent
//! again. The entries of highest priority ([`QueuePriority::RealTime`]) are also in a journal, so they
//! survive the death of the process. Entries that are lost in another way (a power cut, a damaged or a
//! full disk) are noted as a *loss*, and a full-sync has to find their records.
//!
//! Deletes need more care, because their tombstones are reaped. The reap records of a delete have to
//! stay as long as a sink may not know of the delete: while its entry waits, or, if no queue holds it,
//! until a full-sync has brought it over (*missed deletes*). They wait at most for the retention. A
//! queue that is behind for longer is *stale*, and an operator has to decide what happens.

mod entry;
mod filter;
#[cfg(any(test, feature = "testing"))]
mod fuzz;
mod journal;
mod loss;
mod manifest;
mod missed_deletes;
mod missed_mark;
mod queue;
mod source_queues;

pub(crate) use entry::{EntryReference, QueueEntry};
pub use entry::{EntrySequence, QueuePriority, Visited, VisitedCluster};
pub use filter::{QUEUE_COUNT_MAX, QueueDefinition, QueueDefinitionError, QueueFilter};
#[cfg(any(test, feature = "testing"))]
pub use fuzz::{fuzz_source_journal, source_journal_samples};
pub(crate) use journal::{Cursor, Journal, JournalEntry};
pub use missed_deletes::FullSyncNumber;
pub use queue::{QueueCounts, QueueLengths};
pub use source_queues::{ChangeQueueError, Lease, QueueStatus, SourceQueueSettings, SourceQueues};

#[cfg(test)]
mod missed_deletes_tests;
#[cfg(test)]
mod tests;
