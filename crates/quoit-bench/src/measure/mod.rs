//! Measurement: counts, latencies and errors of the operations, second by second.
//!
//! Each thread of the load generator records into a window of its own, without locks. When a second is
//! over, the thread adds its window to the shared window of that second and empties it. So an operation is
//! always counted in the second in which it ended.
//!
//! A second is kept in memory only until it is written; [`intervals`] has every second of a run.

mod breakdown;
mod client;
mod collector;
pub mod intervals;
mod moments;
mod portable;
mod recorder;
mod stalls;
mod stats;
#[cfg(test)]
pub(crate) mod tests;

pub use breakdown::Breakdown;
pub use client::{CLIENT_BOUND_SHARE, ClientLoad, SATURATED_SHARE, ThreadLoad};
pub(crate) use client::{NOISE_FACTOR, process_cpu_time};
pub(crate) use collector::{Collector, CollectorSize, Delivery};
pub(crate) use moments::OperationTimes;
pub use portable::PortableFormError;
pub(crate) use recorder::Recorder;
pub use stalls::Stall;
pub(crate) use stalls::{Gaps, common_gaps, stalls};
pub(crate) use stats::PERCENTILE_ERROR;
pub use stats::{Attempts, Latencies, OperationStats, Window};
