//! Whether another node is alive, and how fast it answers: opinions of this node alone.
//!
//! They choose which replica is asked and nothing else; who is a member is the control plane's to say.

mod health;
mod latency;
mod phi;

pub(crate) use health::Health;
pub use latency::Latency;
pub(crate) use latency::LatencyEstimate;
pub use phi::PhiDetector;

use std::time::Duration;

/// When a silent node is suspected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LivenessSettings {
    /// After so much silence on a connection, a ping is sent.
    pub heartbeat_interval: Duration,
    /// The value of phi from which a node counts as down. 8 means: wrong once in 10^8 if what is heard of
    /// the node goes on as it was.
    pub phi_threshold: f64,
    /// The least standard deviation assumed of the times between two signs of life. A node that answers
    /// like a clock would be suspected at its first hiccup otherwise.
    pub deviation_min: Duration,
    /// Silence beyond the mean that is taken for normal: a busy machine.
    pub acceptable_pause: Duration,
    /// How many times between two signs of life are remembered.
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
