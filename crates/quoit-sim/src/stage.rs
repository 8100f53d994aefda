//! How far a run is, and how a task of it that broke is told.

use crate::violation::{Fault, Violation};
use tokio::task::JoinError;

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The cluster comes together.
    Form,
    /// Clients work and things go wrong.
    Work,
    /// Clients are done; everything has to be mended.
    Mend,
    /// Nothing is wrong any more.
    Calm,
}

/// A task that panicked or was given up.
pub(crate) fn broken(error: JoinError) -> Violation {
    Violation::new(Fault::Broken, error.to_string())
}
