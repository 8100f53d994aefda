//! Measurement: what was done, how long it took and what failed, second by second.
//!
//! Each thread of the load generator records into a window of its own, without locks. When a
//! second is over the thread adds its window to the shared one of that second and begins anew, so
//! a sample is always counted in the second in which its operation ended.
//!
//! Nothing is kept in memory longer than it takes to write it: [`intervals`] has every second.

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
pub(crate) use collector::{Collector, Delivery};
pub(crate) use moments::Moments;
pub use portable::FormError;
pub(crate) use recorder::Recorder;
pub use stalls::Stall;
pub(crate) use stalls::{Gaps, common_gaps, stalls};
pub(crate) use stats::PERCENTILE_ERROR;
pub use stats::{Attempts, Latencies, OperationStats, Window};
