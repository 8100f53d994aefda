//! Settings of the transport, by name and default.

use super::security::LinkSecurity;
use crate::NodeId;
use crate::liveness::LivenessSettings;
use quoit_seam::Clock;
use quoit_wire::internode::VersionRange;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Identity of the node for others, and its limits.
#[derive(Debug, Clone)]
pub struct InternodeSettings {
    /// The node's identity.
    pub node_id: NodeId,
    /// The node's name, for people.
    pub node_name: String,
    /// Random for each start of a process: tells two nodes with one identity apart.
    pub boot_id: u64,
    /// Seed of the jitter of repeated dialing, the only randomness in here.
    pub seed: u64,
    /// The versions of the protocol to speak; what this build speaks, unless a test plays another.
    pub versions: VersionRange,
    /// Bounds.
    pub limits: Limits,
    /// When a silent node is suspected.
    pub liveness: LivenessSettings,
    /// The node's wall clock. Nodes whose clocks are ahead of it are refused; none: clocks are not compared.
    pub clock: Option<NodeClock>,
    /// TLS of the connections; none unless it is said.
    pub security: Arc<LinkSecurity>,
}

impl InternodeSettings {
    /// Settings with all defaults.
    #[must_use]
    pub fn new(
        node_id: NodeId,
        node_name: impl Into<String>,
        boot_id: u64,
        seed: u64,
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

/// The clock that a node tells others and compares with theirs.
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
    /// The longest frame sent or accepted: room for the largest object with all its siblings twice over.
    pub frame_bytes_max: u32,
    /// Bytes of requests without an answer on a connection of the small lane.
    pub small_window_bytes: u64,
    /// Bytes of requests without an answer on a connection of the large lane. One request is always
    /// taken, however large.
    pub large_window_bytes: u64,
    /// Requests without an answer on a connection.
    pub window_calls: u32,
    /// Answers that wait for a peer that does not read; above it no further request of that peer is read.
    pub unread_answer_bytes_max: usize,
    /// Bytes of a stream's answers that the requester has not taken yet.
    pub stream_window_bytes: u32,
    /// Connections that have not said yet who they are; more are closed at once.
    pub strangers_max: u32,
    /// Connections of guests, that is of nodes that want to join; more are refused.
    pub guests_max: u32,
    /// How long a connection may take to say who it is.
    pub greeting_timeout: Duration,
    /// How long a dialed node may take to accept.
    pub connect_timeout: Duration,
    /// The first pause before dialing again; it doubles, with a jitter of a quarter.
    pub redial_pause_min: Duration,
    /// The longest pause before dialing again.
    pub redial_pause_max: Duration,
    /// A connection on which a peer sends nothing for so long, not even a ping, is closed. How long requests
    /// send to further replicas, and how far apart members are asked before a reap record goes, are multiples
    /// of it (`docs/design/reaping.md`).
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
