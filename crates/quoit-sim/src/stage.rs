//! Stages of a run, and the violation for a task that has panicked.

use crate::violation::{Violation, ViolationKind};
use tokio::task::JoinError;

/// Stage of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The cluster is formed.
    Form,
    /// Clients work and faults happen.
    Work,
    /// Clients are done, and all faults have to be repaired.
    Repair,
    /// All faults are repaired.
    Repaired,
}

/// Returns the violation for a task that panicked or was aborted.
pub(crate) fn broken(error: JoinError) -> Violation {
    Violation::new(ViolationKind::Broken, error.to_string())
}
