//! Levels of the log.

/// The least severe messages that the log keeps, from the most verbose level to the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Details of the load generator itself.
    Debug,
    /// Progress of the run.
    Info,
    /// Unusual events.
    Notice,
    /// Settings and events that are probably unintended.
    Warning,
    /// Failures.
    Error,
    /// No message of the load generator has this level, so the log stays empty.
    Critical,
}
