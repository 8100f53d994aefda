//! Metrics of the running part of the group, for those who ask and for the messages that it sends.

use super::group::{ELECTION_MS_MAX, Metrics};
use arc_swap::ArcSwapOption;
use std::sync::Arc;
use tokio::sync::watch;

/// Metrics of the running part. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct PartMetrics(Arc<ArcSwapOption<watch::Receiver<Metrics>>>);

impl PartMetrics {
    /// The part runs from now on, and tells this of itself; `None` = it does not run any more.
    pub(crate) fn set(&self, metrics: Option<watch::Receiver<Metrics>>) {
        self.0.store(metrics.map(Arc::new));
    }

    /// The metrics now; `None` when the part does not run.
    pub(crate) fn now(&self) -> Option<Metrics> {
        self.0.load().as_ref().map(|metrics| metrics.borrow().clone())
    }

    /// Whether the node leads, and a majority has answered it lately. A leader that has lost its majority
    /// goes on until it hears of another one, which may be never.
    pub(crate) fn leads_majority(&self) -> bool {
        self.0.load().as_ref().is_some_and(|metrics| {
            let metrics = metrics.borrow();
            let silent_ms = metrics.millis_since_quorum_ack;
            metrics.state.is_leader() && silent_ms.is_some_and(|ms| ms <= ELECTION_MS_MAX)
        })
    }
}
