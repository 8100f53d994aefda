//! Missed deletes of the queues, and the time since which reap records have to wait for sinks.

use super::SourceQueues;
use crate::queues::entry::VisitedCluster;
use crate::queues::missed_deletes::FullSyncNumber;
use crate::queues::queue::Queue;
use quoit_planted::planted;
use std::time::Duration;

impl SourceQueues {
    /// True if a full-sync is configured, which brings deletes that no queue takes.
    pub(crate) const fn has_full_sync(&self) -> bool {
        self.settings.full_sync_queue.is_some()
    }

    /// True if the queue is the one of the configured full-sync.
    pub(super) fn is_of_full_sync(&self, queue: &Queue) -> bool {
        self.settings.full_sync_queue.as_deref() == Some(&queue.name)
    }

    /// Notes a delete that no queue takes, so that full-sync has to bring it to other clusters.
    pub(crate) fn note_delete_for_full_sync(&self, now_us: u64) {
        let mut state = self.state.lock();
        let mut is_missed = false;
        for queue in state.queues.iter_mut().filter(|queue| self.is_of_full_sync(queue)) {
            is_missed |= queue.missed.span_us().is_none();
            queue.missed.note(now_us..=now_us);
        }
        if is_missed {
            state.miss(now_us);
        }
    }

    /// Notes that a full-sync of all records begins, on this node or another node of the cluster.
    pub fn begin_full_sync(&self, number: FullSyncNumber, now_us: u64) {
        // With a short retention a queue would otherwise become stale before its deletes are settled.
        let settling_max = Duration::from_micros(self.settings.retention_us() / 4);
        let mut state = self.state.lock();
        for queue in &mut state.queues {
            queue.missed.begin_full_sync(number, now_us, settling_max);
        }
    }

    /// Notes that a full-sync of all records with the queue of this name has found that the other
    /// cluster lacks nothing. `cluster` is the id of that cluster; `None` for a Riak. The next
    /// [`SourceQueues::flush`] stores that.
    pub fn end_full_sync(
        &self,
        number: FullSyncNumber,
        name: &str,
        cluster: Option<VisitedCluster>,
    ) {
        let mut state = self.state.lock();
        let is_for = |queue: &Queue| match queue.sink {
            Some(sink) => cluster == Some(sink),
            None => queue.name == name,
        };
        for queue in state.queues.iter_mut().filter(|queue| is_for(queue)) {
            queue.missed.end_full_sync(number);
        }
    }

    /// Time of the oldest delete that sinks may not know of, microseconds since 1970, among queues that
    /// have been behind for less than the retention; `None` if there is none. Reap records of later
    /// deletes have to stay. While a full-sync has to find lost entries the answer is 0, because
    /// deletes of any age may be among them.
    pub(crate) fn behind_since_us(&self, now_us: u64) -> Option<u64> {
        let retention_us = self.settings.retention_us();
        let is_waited_for = |since_us: &u64| {
            now_us.saturating_sub(*since_us) < retention_us && !planted!(OverlooksQueues)
        };
        let mut state = self.state.lock();
        let loss_us = state.losses.seen_us(now_us).filter(|_| self.has_full_sync());
        if loss_us.as_ref().is_some_and(is_waited_for) {
            return Some(0);
        }
        let since_us = state.queues.iter().filter_map(Queue::behind_since_us);
        since_us.filter(is_waited_for).min()
    }
}
