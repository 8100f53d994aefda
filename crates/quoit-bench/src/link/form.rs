//! Measurements in the form that messages contain.

use serde::{Deserialize, Serialize};

/// Counts and latencies of one distribution.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StatsForm {
    /// Values of the histogram in nanoseconds, each with its count.
    pub counts: Vec<(u64, u64)>,
    /// The exact sum in nanoseconds, as its upper and lower 64 bits.
    pub sum_ns: (u64, u64),
    /// The exact minimum in nanoseconds; 0 without values.
    pub min_ns: u64,
    /// The exact maximum in nanoseconds; 0 without values.
    pub max_ns: u64,
    /// Number of failed operations.
    pub error_count: u64,
}

/// Failures of one operation for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorForm {
    /// Index of the operation in the mix.
    pub operation: usize,
    /// The reason, as a term.
    pub reason: String,
    /// Number of failures.
    pub count: u64,
}

/// All measurements of one second.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WindowForm {
    /// Latencies of each operation of the mix.
    pub operations: Vec<StatsForm>,
    /// Latencies of the canary.
    pub canary: StatsForm,
    /// Queueing times of arrivals.
    pub queueing: StatsForm,
    /// Delays of the load generator.
    pub client_delay: StatsForm,
    /// Times from request to answer, for each operation.
    pub service: Vec<StatsForm>,
    /// Times until operations failed, for each operation.
    pub failed: Vec<StatsForm>,
    /// Failures by reason.
    pub errors: Vec<ErrorForm>,
}

/// Use of time of a thread of the load generator, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LoadForm {
    /// Observed time.
    pub watched_s: f64,
    /// Time on a processor.
    pub busy_s: f64,
    /// Time ready to run without a processor.
    pub waiting_s: f64,
    /// Time near saturation.
    pub saturated_s: f64,
}

/// Times without a success of any worker of the share, in nanoseconds since the start of the measurement.
pub type GapsForm = Vec<(u64, u64)>;
