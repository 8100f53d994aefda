//! Reasons why a node must stop.

use std::sync::Arc;
use thiserror::Error;

/// Reason why a node can no longer belong to its cluster. The node must stop serving. Displayed for
/// operators.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Departure {
    /// It has handed over its data, as an operator requested.
    #[error(
        "this node has left the cluster and handed over its data; its data directory can be deleted"
    )]
    Left,
    /// An operator has removed it.
    #[error(
        "this node was removed from the cluster and can't come back: other nodes have taken over its data. \
         Start it with an empty data directory, and let it join as a new node"
    )]
    Removed,
    /// Another process with its identity is alive.
    #[error("{words}. This process stops: two processes with one identity would lose data")]
    DuplicateIdentity {
        /// Message of another node, with the address of the other process.
        words: Arc<str>,
    },
    /// Its clock differs from that of most other nodes.
    #[error(
        "{words}. Most other members report this, so this one stops: start it again when its clock is right"
    )]
    Clock {
        /// Message of one of those nodes.
        words: Arc<str>,
    },
    /// It speaks too old a version of the internode protocol.
    #[error("{words}")]
    Outdated {
        /// Reason why the version is too old.
        words: Arc<str>,
    },
    /// Its data directory is older than the cluster's record of it.
    #[error(
        "the data directory is an old copy: it counts {starts} starts of this node, and the cluster has seen \
         start {known_starts}. Writes and promises of the node since then are missing, so it does not take \
         part. If another process runs with the right directory, stop this one; if the right directory is \
         lost, start with an empty one under another name, join, and `cluster force-replace` this node by \
         the new one"
    )]
    Stale {
        /// Number of starts that the directory has counted.
        starts: u64,
        /// Number of starts that the cluster has recorded.
        known_starts: u64,
    },
}
