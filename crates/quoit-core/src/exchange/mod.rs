//! Anti-entropy: finds out in which records complete copies of partitions differ, and repairs exactly
//! those.
//!
//! Two nodes compare the digests of all partitions that they share with one message. Where these differ, they
//! compare those of ever smaller ranges of hashes ([`walk`]), down to single records. Records that differ for
//! longer than a moment are fetched or delivered ([`repair`]). Whose turn it is says [`schedule`]. Beside
//! that each node reads its own data over and over, and fetches what is damaged ([`verify`]).
//!
//! `docs/design/anti-entropy.md` has the reasons.

mod differing;
mod elsewhere;
mod expiry;
mod found;
mod noted;
mod progress;
mod ranges;
mod ranges_told;
mod regions;
mod repair;
mod roots;
mod run;
mod schedule;
mod serve;
mod states;
#[cfg(test)]
mod tests;
mod verify;
mod walk;

pub(crate) use differing::ComparedClasses;
pub(crate) use roots::CommonClasses;
pub(crate) use verify::Unhealed;

pub use elsewhere::{CopyElsewhere, RangesAnswer, RangesQuestion};
pub use progress::{ExchangeStats, PartitionExchanges};

use crate::coordinator::Coordinator;
use crate::delivery::Deliveries;
use crate::delivery::hand::TransferError;
use crate::error::RequestError;
use crate::healing::Healing;
use crate::hints::Hints;
use crate::local_node::LocalNode;
use crate::replica::Replica;
use parking_lot::Mutex;
use progress::ExchangeCounts;
use quoit_cluster::CallError;
use quoit_wire::internode::data::REFUSED_MALFORMED;
use schedule::Schedule;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Anti-entropy of a node: its exchanges with others, and the healing of its damaged records.
pub struct AntiEntropy {
    local: Arc<LocalNode>,
    replica: Arc<Replica>,
    coordinator: Arc<Coordinator>,
    hints: Arc<Hints>,
    healing: Arc<Healing>,
    delivery: Arc<Deliveries>,
    schedule: Mutex<Schedule>,
    progress: ExchangeCounts,
    /// Exchanges begun: each has a salt of its own.
    number: AtomicU64,
    /// A caller waits for an exchange.
    wanted: Notify,
}

impl AntiEntropy {
    pub(crate) fn new(
        coordinator: &Arc<Coordinator>,
        delivery: &Arc<Deliveries>,
        healing: &Arc<Healing>,
    ) -> Self {
        let local = Arc::clone(&coordinator.local);
        let (own, now) = (local.control.read().node_id(), Instant::now());
        let interval = local.settings.exchanges.interval;
        Self {
            schedule: Mutex::new(Schedule::new(own, interval, now)),
            progress: ExchangeCounts::new(now),
            number: AtomicU64::new(0),
            wanted: Notify::new(),
            replica: Arc::clone(&coordinator.replica),
            coordinator: Arc::clone(coordinator),
            hints: Arc::clone(&delivery.hints),
            healing: Arc::clone(healing),
            delivery: Arc::clone(delivery),
            local,
        }
    }

    /// Compares, verifies and heals until the task is dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        tokio::join!(
            biased;
            Arc::clone(&self).run_exchanges(),
            Arc::clone(&self).run_verification(),
            Arc::clone(&self).run_healing(),
            Arc::clone(&self).run_healing_of_found()
        );
    }
}

/// Why an exchange ended early.
#[derive(Debug, Error)]
pub(crate) enum ExchangeError {
    /// The other node did not answer, or refused.
    #[error("comparing copies with {to} failed: {fault}")]
    Call {
        /// Name of the other node.
        to: Arc<str>,
        /// Error of the call.
        fault: CallError,
    },
    /// The other node's answer is none.
    #[error("{to} sent an invalid answer to a comparison of copies")]
    Answer {
        /// Name of the other node.
        to: Arc<str>,
    },
    /// Records could not be sent or fetched.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// This node's own storage failed.
    #[error(transparent)]
    Own(#[from] RequestError),
}

impl From<ExchangeError> for TransferError {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Call { to, fault } => Self::Call { to, fault },
            ExchangeError::Answer { to } => Self::Answer { to },
            ExchangeError::Transfer(error) => error,
            ExchangeError::Own(error) => Self::Own(error),
        }
    }
}

impl ExchangeError {
    /// Whether the same comparison may succeed later: the other node starts, stops, or learns of a layout.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            // That is also how an engine refuses whose copies can't be compared.
            Self::Call { fault: CallError::Refused { code, .. }, .. } => *code != REFUSED_MALFORMED,
            Self::Call { .. } | Self::Transfer(_) | Self::Own(_) => true,
            Self::Answer { .. } => false,
        }
    }
}
