//! How much of the log is kept.

/// How much of the log is kept, from the most to the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Details of the tool itself.
    Debug,
    /// Progress of the run.
    Info,
    /// Unusual events.
    Notice,
    /// Settings and events that are probably not meant.
    Warning,
    /// Failures.
    Error,
    /// Nothing that the tool writes.
    Critical,
}
