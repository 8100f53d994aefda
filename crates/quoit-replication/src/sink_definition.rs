//! Definitions of sinks by operators.

use crate::address::PeerAddress;
use serde::{Deserialize, Serialize};

/// Definition of a sink: a queue of another cluster that is consumed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SinkDefinition {
    /// Name of the queue.
    pub queue: String,
    /// Nodes that have the queue.
    pub peers: Vec<PeerAddress>,
    /// Number of entries that are stored at the same time.
    pub worker_count: usize,
    /// Number of connections to each peer.
    pub peer_limit: usize,
    /// True if consumption is suspended.
    #[serde(default)]
    pub is_suspended: bool,
}
