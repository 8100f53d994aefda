//! This node's opinions about other nodes: whether they are alive, and how fast they answer.
//!
//! The opinions only choose which replicas are asked. The control plane decides who is a member.

mod health;
mod latency;
mod phi;

pub(crate) use health::Health;
pub use latency::Latency;
pub(crate) use latency::LatencyEstimate;
pub use phi::PhiDetector;

use std::time::Duration;

/// Settings of failure detection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LivenessSettings {
    /// Silence on a connection after which a ping is sent.
    pub heartbeat_interval: Duration,
    /// Value of phi from which a node counts as down. With 8, a live node is wrongly suspected once in
    /// 10^8 intervals, provided that its intervals stay as they were.
    pub phi_threshold: f64,
    /// Minimum standard deviation that is assumed for the intervals between signs of life. Without it, a
    /// node with very regular intervals would be suspected after a small delay.
    pub deviation_min: Duration,
    /// Silence beyond the mean that is considered normal, for example on a busy machine.
    pub acceptable_pause: Duration,
    /// Number of intervals between signs of life that are remembered.
    pub sample_count: usize,
}

impl Default for LivenessSettings {
    fn default() -> LivenessSettings {
        LivenessSettings {
            heartbeat_interval: Duration::from_millis(300),
            phi_threshold: 8.0,
            deviation_min: Duration::from_millis(100),
            acceptable_pause: Duration::from_millis(200),
            sample_count: 100,
        }
    }
}
