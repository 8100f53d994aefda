//! Reasons why an attempt at an operation did not succeed.

use crate::driver::pb_link::CallError;
use crate::keygen::Exhausted;
use crate::term::Term;

/// Reasons why an attempt at an operation did not succeed.
pub(super) enum PbAttemptError {
    /// The operation failed, and is not retried.
    Failed(Term),
    /// The connection is lost, and the operation starts over.
    Disconnected,
    /// A finite generator has ended.
    Exhausted,
}

impl From<Exhausted> for PbAttemptError {
    fn from(_: Exhausted) -> Self {
        Self::Exhausted
    }
}

impl From<CallError> for PbAttemptError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Failed(reason) => Self::Failed(reason),
            CallError::Disconnected => Self::Disconnected,
        }
    }
}
