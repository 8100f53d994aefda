//! How a command ends.

use crate::run_end::RunEnd;
use std::fmt::Display;
use std::io;

/// How the command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// The run ended as planned, or was interrupted and kept its results.
    Success,
    /// It could not start, its results could not be kept, it was stopped by an error, or no operation
    /// succeeded.
    Failure,
    /// It was stopped by crashes of workers.
    Crash,
    /// Verification has found something wrong, or could not account for everything.
    Faults,
    /// The run missed an expectation.
    Missed,
}

impl ExitStatus {
    /// The code that the process exits with: 0, 1 or 2, as basho_bench does, 3 for faults, or 4 for an
    /// expectation that was missed.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Crash => 2,
            Self::Faults => 3,
            Self::Missed => 4,
        }
    }
}

impl From<RunEnd> for ExitStatus {
    fn from(end: RunEnd) -> Self {
        match end {
            RunEnd::Completed | RunEnd::Interrupted => Self::Success,
            RunEnd::Failed | RunEnd::AgentLost => Self::Failure,
            RunEnd::Crashed => Self::Crash,
            RunEnd::Missed => Self::Missed,
        }
    }
}

/// Tells why a command failed.
pub(crate) fn failed(error: &dyn Display) -> ExitStatus {
    use std::io::Write as _;
    let _ = writeln!(io::stderr(), "quoit bench: {error}");
    ExitStatus::Failure
}
