//! How a run ended.

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// After its duration, or when every worker had stopped.
    Completed,
    /// By a signal; the results are whole up to there.
    Interrupted,
    /// By its first failed operation, as `shutdown_on_error` asks.
    Failed,
    /// By crashes of workers.
    Crashed,
    /// By an expectation that its first part missed.
    Missed,
    /// By the loss of an agent: a share of the load is missing.
    AgentLost,
}
