//! Measurements as messages hold them.

use serde::{Deserialize, Serialize};

/// Counts and latencies of one distribution.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StatsForm {
    /// Values of the histogram in nanoseconds, each with how often it was counted.
    pub counts: Vec<(u64, u64)>,
    /// The exact sum in nanoseconds: its upper and its lower 64 bits.
    pub sum_ns: (u64, u64),
    /// The exact least value; 0 without values.
    pub min_ns: u64,
    /// The exact greatest value.
    pub max_ns: u64,
    /// Failed operations.
    pub error_count: u64,
}

/// Failures of one operation for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorForm {
    /// Index of the operation among those of the mix.
    pub operation: usize,
    /// The reason, as a term.
    pub reason: String,
    /// How many.
    pub count: u64,
}

/// Everything that was measured in one second.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WindowForm {
    /// Latencies of each operation of the mix.
    pub operations: Vec<StatsForm>,
    /// The canary.
    pub canary: StatsForm,
    /// Waiting of arrivals.
    pub queueing: StatsForm,
    /// Delay of the load generator.
    pub client_delay: StatsForm,
    /// From request to answer, of each operation.
    pub service: Vec<StatsForm>,
    /// Times after which operations failed, of each operation.
    pub failed: Vec<StatsForm>,
    /// Failures by reason.
    pub errors: Vec<ErrorForm>,
}

/// How a thread of the load generator spent its time, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LoadForm {
    /// Time that was watched.
    pub watched_s: f64,
    /// Time on a processor.
    pub busy_s: f64,
    /// Time ready to run without a processor.
    pub waiting_s: f64,
    /// Time near saturation.
    pub saturated_s: f64,
}

/// Times without a success of any worker of the share, in nanoseconds from the start of the measurement.
pub type GapsForm = Vec<(u64, u64)>;
