//! Queues of other clusters that are consumed, as operators define them.

use crate::address::PeerAddress;
use serde::{Deserialize, Serialize};

/// A queue that is consumed, as an operator defines it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SinkDefinition {
    /// Name of the queue.
    pub queue: String,
    /// Nodes that have it.
    pub peers: Vec<PeerAddress>,
    /// Entries that are stored at the same time.
    pub worker_count: usize,
    /// Connections to each peer.
    pub peer_limit: usize,
    /// Whether consumption rests.
    #[serde(default)]
    pub is_suspended: bool,
}
