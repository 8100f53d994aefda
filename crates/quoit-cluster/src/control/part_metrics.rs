//! Metrics of the running Raft instance, for callers and for the requests that it sends.

use super::group::{ELECTION_MS_MAX, Metrics};
use arc_swap::ArcSwapOption;
use std::sync::Arc;
use tokio::sync::watch;

/// Metrics of the running instance. Clones share the same value.
#[derive(Clone, Default)]
pub(crate) struct PartMetrics(Arc<ArcSwapOption<watch::Receiver<Metrics>>>);

impl PartMetrics {
    /// Sets the source of the metrics when an instance starts; `None` when it ends.
    pub(crate) fn set(&self, metrics: Option<watch::Receiver<Metrics>>) {
        self.0.store(metrics.map(Arc::new));
    }

    /// Returns the current metrics; `None` if no instance runs.
    pub(crate) fn now(&self) -> Option<Metrics> {
        self.0.load().as_ref().map(|metrics| metrics.borrow().clone())
    }

    /// Returns true if the node leads and a majority has answered it recently. A leader that has lost its
    /// majority remains leader until it hears of another one, which may never happen.
    pub(crate) fn leads_majority(&self) -> bool {
        self.0.load().as_ref().is_some_and(|metrics| {
            let metrics = metrics.borrow();
            let silent_ms = metrics.millis_since_quorum_ack;
            metrics.state.is_leader() && silent_ms.is_some_and(|ms| ms <= ELECTION_MS_MAX)
        })
    }
}
