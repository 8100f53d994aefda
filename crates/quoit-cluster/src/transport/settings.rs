//! Settings of the transport, by name and default.

use super::security::LinkSecurity;
use crate::NodeId;
use crate::liveness::LivenessSettings;
use quoit_seam::Clock;
use quoit_wire::internode::VersionRange;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Seed of the jitter between attempts to dial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JitterSeed(pub u64);

/// Identity of the node, and its limits.
#[derive(Debug, Clone)]
pub struct InternodeSettings {
    /// Identity of the node.
    pub node_id: NodeId,
    /// Name of the node, for people.
    pub node_name: String,
    /// Random number for each start of a process. It distinguishes two processes with one identity.
    pub boot_id: u64,
    /// The only randomness of the transport.
    pub seed: JitterSeed,
    /// Versions of the protocol to speak: those of this build, unless a test sets others.
    pub versions: VersionRange,
    /// Bounds.
    pub limits: Limits,
    /// Settings of failure detection.
    pub liveness: LivenessSettings,
    /// Wall clock of the node. Nodes whose clocks are ahead of it are refused. `None`: clocks are not
    /// compared.
    pub clock: Option<NodeClock>,
    /// TLS of the connections; none by default.
    pub security: Arc<LinkSecurity>,
}

impl InternodeSettings {
    /// Returns settings with all defaults.
    #[must_use]
    pub fn new(
        node_id: NodeId,
        node_name: impl Into<String>,
        boot_id: u64,
        seed: JitterSeed,
    ) -> InternodeSettings {
        InternodeSettings {
            node_id,
            node_name: node_name.into(),
            boot_id,
            seed,
            versions: VersionRange::CURRENT,
            limits: Limits::default(),
            liveness: LivenessSettings::default(),
            clock: None,
            security: Arc::default(),
        }
    }
}

/// The clock whose time a node sends to others and compares with theirs.
#[derive(Clone)]
pub struct NodeClock(pub Arc<dyn Clock>);

impl fmt::Debug for NodeClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("NodeClock").field(&self.0.unix_us()).finish()
    }
}

/// Bounds of connections between nodes.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Longest frame that is sent or accepted, in bytes: enough for the largest object with all its siblings,
    /// twice.
    pub frame_bytes_max: u32,
    /// Bytes of requests without a last answer on a connection of the small lane.
    pub small_window_bytes: u64,
    /// Bytes of requests without a last answer on a connection of the large lane. One request is always
    /// accepted, however large.
    pub large_window_bytes: u64,
    /// Number of requests without a last answer on a connection.
    pub window_calls: u32,
    /// Bytes of answers that a peer has not read. Above it, no further request of that peer is read.
    pub unread_answer_bytes_max: usize,
    /// Bytes of a stream's answers that the requester has not taken yet.
    pub stream_window_bytes: u32,
    /// Number of inbound connections without a complete greeting. Further connections are closed at once.
    pub strangers_max: u32,
    /// Number of connections of guests, which are nodes that want to join. Further ones are refused.
    pub guests_max: u32,
    /// Maximum time for a greeting.
    pub greeting_timeout: Duration,
    /// Maximum time until a dialed node accepts.
    pub connect_timeout: Duration,
    /// First pause before dialing again. It doubles, with a jitter of a quarter.
    pub redial_pause_min: Duration,
    /// Longest pause before dialing again.
    pub redial_pause_max: Duration,
    /// Silence of a peer, without even a ping, after which a connection is closed. Other times are
    /// multiples of it: the time for which requests send to further replicas, and the interval at which
    /// members are asked before a reap record is dropped (`docs/design/reaping.md`).
    pub idle_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        const MIB: u32 = 1024 * 1024;
        Limits {
            frame_bytes_max: 128 * MIB,
            small_window_bytes: 16 * u64::from(MIB),
            large_window_bytes: 64 * u64::from(MIB),
            window_calls: 16 * 1024,
            unread_answer_bytes_max: 64 * MIB as usize,
            stream_window_bytes: MIB,
            strangers_max: 128,
            guests_max: 16,
            greeting_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(2),
            redial_pause_min: Duration::from_millis(50),
            redial_pause_max: Duration::from_secs(2),
            idle_timeout: Duration::from_secs(30),
        }
    }
}
