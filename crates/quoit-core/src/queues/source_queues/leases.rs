//! Leases: entries that consumers have taken and have not confirmed yet.

use super::SourceQueues;
use super::state::QueuesState;
use crate::queues::entry::{EntrySequence, QueueEntry, QueuePriority};
use crate::queues::queue::LeaseNumber;
use std::sync::Arc;

/// The unconfirmed entries of a consumer. They return to their queues when it is dropped.
pub struct Lease {
    queues: Arc<SourceQueues>,
    number: LeaseNumber,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.queues.put_back(self.number);
    }
}

impl SourceQueues {
    /// Creates a lease for a consumer that confirms entries.
    #[must_use]
    pub fn lease(self: &Arc<Self>) -> Lease {
        let mut state = self.state.lock();
        state.next_lease += 1;
        Lease { queues: Arc::clone(self), number: LeaseNumber(state.next_lease) }
    }

    /// Takes the next entry of a queue. Without a lease the entry counts as consumed at once.
    pub(crate) fn take(
        &self,
        name: &str,
        lease: Option<&Lease>,
        now_us: u64,
    ) -> Option<(QueuePriority, QueueEntry)> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let queue = state.queues.iter_mut().find(|queue| queue.name == name)?;
        let has_lost = queue.fill_window(state.journal.as_mut());
        let taken = queue.take(lease.map(|lease| lease.number), now_us);
        if has_lost {
            state.note_lost_entries();
        }
        taken
    }

    /// Notes that the consumer of a lease has stored entries.
    pub fn confirm(&self, name: &str, lease: &Lease, sequences: &[EntrySequence]) {
        let mut state = self.state.lock();
        let Some(queue) = state.queues.iter_mut().find(|queue| queue.name == name) else { return };
        sequences.iter().for_each(|sequence| queue.confirm(*sequence, lease.number));
    }

    /// Notes that the consumer of a lease can't use the deltas of these entries. They are sent again
    /// with their objects.
    pub fn request_whole(&self, name: &str, lease: &Lease, sequences: &[EntrySequence]) {
        let mut state = self.state.lock();
        let Some(queue) = state.queues.iter_mut().find(|queue| queue.name == name) else { return };
        sequences.iter().for_each(|sequence| queue.request_whole(*sequence, lease.number));
    }

    /// Counts bytes of objects that were sent from a queue.
    pub(crate) fn count_sent(&self, name: &str, bytes: u64) {
        let mut state = self.state.lock();
        if let Some(queue) = state.queues.iter_mut().find(|queue| queue.name == name) {
            queue.counts.consumed_bytes += bytes;
        }
    }

    /// Returns entries to their queues that were taken before a time (microseconds since 1970) and not
    /// confirmed since.
    pub(crate) fn end_leases(&self, taken_before_us: u64) {
        let mut guard = self.state.lock();
        let QueuesState { queues, filled, .. } = &mut *guard;
        for queue in queues {
            let count = queue.put_back_older(taken_before_us);
            if count > 0 {
                tracing::warn!(queue = queue.name, count, "a sink hangs: its entries go to others");
                filled.get(&queue.number).inspect(|filled| filled.notify_one());
            }
        }
    }

    fn put_back(&self, lease: LeaseNumber) {
        let mut guard = self.state.lock();
        let QueuesState { queues, filled, .. } = &mut *guard;
        for queue in queues {
            if queue.put_back(lease) > 0 {
                filled.get(&queue.number).inspect(|filled| filled.notify_one());
            }
        }
    }
}
