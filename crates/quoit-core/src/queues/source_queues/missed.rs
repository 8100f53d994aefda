//! Deletes that full-sync has to bring to the sinks of queues, and the reap records that wait for sinks.

use super::SourceQueues;
use crate::queues::entry::VisitedCluster;
use crate::queues::missed::CheckNumber;
use crate::queues::queue::Queue;
use quoit_planted::planted;

impl SourceQueues {
    /// Whether a configured full-sync brings deletes that no queue takes.
    pub(crate) const fn has_full_sync(&self) -> bool {
        self.settings.full_sync_queue.is_some()
    }

    /// Whether a queue is that of the configured full-sync.
    pub(super) fn is_of_full_sync(&self, queue: &Queue) -> bool {
        self.settings.full_sync_queue.as_deref() == Some(&queue.name)
    }

    /// Takes note of a delete that no queue takes and full-sync brings to other clusters.
    pub(crate) fn leave_to_full_sync(&self, now_us: u64) {
        let mut state = self.state.lock();
        let mut is_missed = false;
        for queue in state.queues.iter_mut().filter(|queue| self.is_of_full_sync(queue)) {
            is_missed |= queue.missed.span_us().is_none();
            queue.missed.note(now_us, now_us);
        }
        if is_missed {
            state.miss(now_us);
        }
    }

    /// A full-sync of all records begins, on this node or another one of the cluster.
    pub fn begin_check(&self, number: CheckNumber, now_us: u64) {
        // With a short retention a queue would be stale before its deletes were settled.
        let settling_us_max = self.settings.retention.as_micros() as u64 / 4;
        let mut state = self.state.lock();
        for queue in &mut state.queues {
            queue.missed.begin_check(number, now_us, settling_us_max);
        }
    }

    /// A full-sync of all records that used the queue of this name has found that the other cluster lacks
    /// nothing. `cluster` is that cluster's id; `None` where it is a Riak. The next [`SourceQueues::flush`]
    /// keeps that.
    pub fn end_check(&self, number: CheckNumber, name: &str, cluster: Option<VisitedCluster>) {
        let mut state = self.state.lock();
        let is_for = |queue: &Queue| match queue.sink {
            Some(sink) => cluster == Some(sink),
            None => queue.name == name,
        };
        for queue in state.queues.iter_mut().filter(|queue| is_for(queue)) {
            queue.missed.end_check(number);
        }
    }

    /// Since when sinks may not know of deletes, microseconds since 1970, by the queues that have been
    /// behind for less than the retention: reap records that were made later are still needed. All are
    /// while a full-sync has to find entries that were lost: deletes of any age may have been among them.
    pub(crate) fn behind_since_us(&self, now_us: u64) -> Option<u64> {
        let retention_us = self.settings.retention.as_micros() as u64;
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
