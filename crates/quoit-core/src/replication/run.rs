//! The background task of the source queues.

use super::Replication;
use quoit_number::saturating_u64;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Interval at which the journal is synced and the progress of the queues is stored. After a restart,
/// confirmed entries of at most this time are sent again.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// Time that a sink may take to confirm entries before they are given to other sinks.
const LEASE_LIMIT: Duration = Duration::from_secs(60);

impl Replication {
    /// Syncs the source queues and checks their leases, until the task is dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut ticks = interval(FLUSH_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_refused = false;
        loop {
            ticks.tick().await;
            let limit_us = saturating_u64(LEASE_LIMIT.as_micros());
            self.source_queues.end_leases(self.local.clock.unix_us().saturating_sub(limit_us));
            for name in self.source_queues.note_stale(self.local.clock.unix_us()) {
                tracing::error!(
                    queue = name,
                    "the sinks of a source queue have not learnt of all deletes for longer than \
                     repl.retention: it is stale, and not consumed until an operator says how to go on \
                     (quoit repl rebase)"
                );
            }
            let queues = Arc::clone(&self.source_queues);
            let flushed = self.local.settings.blocking.on_pool(move || Ok(queues.flush()?)).await;
            match flushed {
                Ok(()) => is_refused = false,
                Err(fault) if !std::mem::replace(&mut is_refused, true) => {
                    tracing::error!(%fault, "the source queues could not be synced");
                }
                Err(_) => {}
            }
        }
    }
}
