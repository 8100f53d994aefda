//! Anti-entropy: finds the records in which complete copies of a partition differ, and repairs them.
//!
//! One exchange between two nodes:
//!
//! 1. The node that begins sends the digests of all partitions of which both have complete copies
//!    ([`roots`]). The answer names those that differ. If the copies are in sync, the exchange ends here,
//!    after one message and its answer.
//! 2. It compares digests of ever smaller ranges of hashes, down to the tags and states of single records
//!    ([`walk`], [`states`]).
//! 3. It waits two seconds and compares the differing tags again. Differences that have changed meanwhile
//!    belong to writes that were under way, and are dropped ([`run`]).
//! 4. It pulls the records that are newer on the other node or concurrent, merges them, and delivers
//!    those that are newer here ([`repair`]). Large sets and maps that both nodes have in pages are
//!    compared by ranges of items instead ([`ranges`]).
//!
//! Only complete copies of primaries by the newest layout are compared, and both nodes must have the same
//! newest layout: a copy that is being filled lacks many records, which the transfers send in any case.
//! If a step fails, the exchange ends and is tried again later; what it has repaired stays repaired.
//!
//! [`schedule`] decides with which node to begin an exchange and when. Digests describe the index, not
//! the disk, so each node also reads its own data over and over ([`verify`]), and replaces damaged
//! records by the copies of other replicas. `docs/design/anti-entropy.md` has the reasons.

mod counted_damage;
mod differing;
mod expiry;
mod heal_damaged;
mod heal_for_peers;
mod heal_tags;
mod other_cluster;
mod progress;
mod ranges;
mod regions;
mod repair;
mod roots;
mod run;
mod schedule;
mod serve;
mod serve_ranges;
mod states;
#[cfg(test)]
mod tests;
mod verify;
mod walk;

pub(crate) use differing::ComparedClasses;
pub(crate) use heal_tags::UnhealedRecords;
pub(crate) use roots::CommonClasses;

pub use other_cluster::{OtherClusterCopy, RangesAnswer, RangesQuestion};
pub use progress::{ExchangeStats, PartitionExchanges};

use crate::coordinator::Coordinator;
use crate::delivery::RecordDelivery;
use crate::delivery::hand::TransferError;
use crate::error::RequestError;
use crate::healing::Healing;
use crate::hints::Hints;
use crate::local_node::LocalNode;
use crate::replica::Replica;
use crate::settings::ExchangeSettings;
use counted_damage::CountedDamage;
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

/// Anti-entropy of a node: its exchanges with other nodes, and the healing of its damaged records.
pub struct AntiEntropy {
    local: Arc<LocalNode>,
    replica: Arc<Replica>,
    coordinator: Arc<Coordinator>,
    hints: Arc<Hints>,
    healing: Arc<Healing>,
    delivery: Arc<RecordDelivery>,
    schedule: Mutex<Schedule>,
    counted: CountedDamage,
    progress: ExchangeCounts,
    /// Number of exchanges that were begun, from which each gets a salt of its own.
    number: AtomicU64,
    /// Wakes the scheduler when a caller wants an exchange.
    wanted: Notify,
}

impl AntiEntropy {
    pub(crate) fn new(
        coordinator: &Arc<Coordinator>,
        delivery: &Arc<RecordDelivery>,
        healing: &Arc<Healing>,
    ) -> Self {
        let local = Arc::clone(&coordinator.local);
        let (own, now) = (local.control.read().node_id(), Instant::now());
        let ExchangeSettings { active, interval, .. } = local.settings.exchanges;
        Self {
            schedule: Mutex::new(Schedule::new(own, active.then_some(interval), now)),
            counted: CountedDamage::default(),
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

    /// Runs exchanges, verifies data on disk and heals damaged records until the task is dropped.
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

/// Error that ends an exchange early.
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
    /// The other node's answer could not be read, or does not fit the question.
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
    /// True if the same comparison may succeed later, for example when the other node has started or has
    /// learned of a layout.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            // A node also answers this if copies of its engine can't be compared.
            Self::Call { fault: CallError::Refused { code, .. }, .. } => *code != REFUSED_MALFORMED,
            Self::Call { .. } | Self::Transfer(_) | Self::Own(_) => true,
            Self::Answer { .. } => false,
        }
    }
}
