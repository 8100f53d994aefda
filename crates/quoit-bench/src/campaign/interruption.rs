//! SIGINT and SIGTERM between and during runs.

use super::error::CampaignError;
use crate::run::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Builder;

/// Records that a signal has asked the campaign to end. A run has a listener of its own and ends early by
/// itself; the campaign checks this flag before it starts anything.
#[derive(Debug, Clone)]
pub(super) struct Interruption(Arc<AtomicBool>);

impl Interruption {
    /// Replaces the default action of the signals, for the life of the process.
    pub(super) fn listen() -> Result<Self, CampaignError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(CampaignError::System)?;
        let signals = runtime.block_on(async { Signals::listen() });
        let mut signals = signals.map_err(CampaignError::System)?;
        let is_asked = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&is_asked);
        let wait = move || {
            runtime.block_on(signals.next());
            own.store(true, Ordering::Relaxed);
        };
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
        thread.map_err(CampaignError::System)?;
        Ok(Self(is_asked))
    }

    /// True if a signal has arrived.
    pub(super) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
