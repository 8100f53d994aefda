//! Stale queues: queues that have been behind for longer than reap records are kept.
//!
//! Records that were deleted here in the meantime may be live in the sink's cluster, and this cluster no
//! longer remembers the deletes. Real-time replication and full-sync between the two clusters therefore stop
//! until an operator has decided which cluster is right.

use super::{ChangeQueueError, SourceQueues};
use crate::queues::entry::VisitedCluster;
use crate::queues::queue::Staleness;

impl SourceQueues {
    /// Marks queues as stale that have been behind for longer than the retention, and returns the names
    /// of newly stale ones. The next [`SourceQueues::flush`] stores that.
    pub(crate) fn note_stale(&self, now_us: u64) -> Vec<String> {
        let retention_us = self.settings.retention_us();
        let mut state = self.state.lock();
        let mut names = Vec::new();
        for queue in &mut state.queues {
            let since_us = queue.behind_since_us();
            let age_us = since_us.map_or(0, |since_us| now_us.saturating_sub(since_us));
            let is_late = age_us > retention_us;
            match queue.staleness {
                Staleness::Fresh if is_late => {
                    queue.staleness = Staleness::Stale;
                    names.push(queue.name.clone());
                }
                Staleness::Accepted if !is_late => queue.staleness = Staleness::Fresh,
                Staleness::Fresh | Staleness::Stale | Staleness::Accepted => {}
            }
        }
        names
    }

    /// True if the queue is stale.
    pub(crate) fn is_stale(&self, name: &str) -> bool {
        let state = self.state.lock();
        state.queues.iter().any(|queue| queue.name == name && queue.staleness == Staleness::Stale)
    }

    /// Name of a stale queue that a cluster consumes, or may consume; for `None`, of any stale queue. A
    /// comparison with that cluster would bring deleted records back.
    #[must_use]
    pub fn stale_for(&self, cluster: Option<VisitedCluster>) -> Option<String> {
        let state = self.state.lock();
        let is_for = |sink: Option<VisitedCluster>| {
            sink.is_none_or(|sink| cluster.is_none_or(|cluster| cluster == sink))
        };
        let mut stale = state.queues.iter().filter(|queue| queue.staleness == Staleness::Stale);
        stale.find(|queue| is_for(queue.sink)).map(|queue| queue.name.clone())
    }

    /// Lets a stale queue be consumed again, although deleted records may come back from its sinks.
    ///
    /// # Errors
    ///
    /// As [`SourceQueues::delist`].
    pub fn accept_resurrection(&self, name: &str) -> Result<(), ChangeQueueError> {
        self.change(|state| {
            let queue = state.named(name)?;
            queue.staleness = Staleness::Accepted;
            queue.missed.forget();
            Ok(())
        })
    }
}
