//! The exit status of a command.

use crate::run_end::RunEnd;
use std::fmt::Display;
use std::io;

/// The outcome of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// The run ended as planned, or was interrupted and kept its results.
    Success,
    /// The run could not start, its results could not be kept, an error stopped it, or no operation
    /// succeeded.
    Failure,
    /// Crashes of workers stopped the run.
    Crash,
    /// Verification found something wrong, or could not account for every operation.
    Faults,
    /// The run missed an expectation.
    Missed,
}

impl ExitStatus {
    /// The exit code of the process: 0, 1 or 2 as in basho_bench, 3 for faults of verification, 4 for a
    /// missed expectation.
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

/// Writes to standard error why a command failed.
pub(crate) fn failed(error: &dyn Display) -> ExitStatus {
    use std::io::Write as _;
    let _ = writeln!(io::stderr(), "quoit bench: {error}");
    ExitStatus::Failure
}
