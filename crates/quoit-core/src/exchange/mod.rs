//! Anti-entropy: finds out in which records complete copies of partitions differ, and repairs exactly
//! those.
//!
//! Two nodes compare the digests of all partitions that they share with one message. Where these differ,
//! they compare those of ever smaller ranges of hashes ([`walk`]), down to single records. What differs for
//! longer than a moment is fetched or delivered ([`repair`]). Whose turn it is says [`schedule`]. Beside
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

use crate::error::RequestError;
use crate::settings::ExchangeSettings;
use crate::transfer::hand::TransferError;
use parking_lot::Mutex;
use progress::ExchangeCounts;
use quoit_cluster::{CallError, NodeId};
use quoit_wire::internode::data::REFUSED_MALFORMED;
use schedule::Schedule;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Exchanges of a node.
pub(crate) struct Exchanges {
    settings: ExchangeSettings,
    schedule: Mutex<Schedule>,
    progress: ExchangeCounts,
    /// Exchanges begun: each has a salt of its own.
    number: AtomicU64,
    /// A caller waits for an exchange.
    wanted: Notify,
}

impl Exchanges {
    pub(crate) fn new(own: NodeId, settings: ExchangeSettings) -> Self {
        let now = Instant::now();
        Self {
            settings,
            schedule: Mutex::new(Schedule::new(own, settings.interval, now)),
            progress: ExchangeCounts::new(now),
            number: AtomicU64::new(0),
            wanted: Notify::new(),
        }
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
