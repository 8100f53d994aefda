//! The reason why a run ended.

/// The reason why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// The duration was over, or every worker had stopped.
    Completed,
    /// A signal ended the run. The results up to that moment are complete.
    Interrupted,
    /// An operation failed, and `shutdown_on_error` stops a run at its first failure.
    Failed,
    /// Workers crashed.
    Crashed,
    /// The first part of the run missed an expectation.
    Missed,
    /// An agent was lost, so a share of the load is missing.
    AgentLost,
}
