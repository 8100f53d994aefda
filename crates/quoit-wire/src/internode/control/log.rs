//! Entries of the control plane's log, and the nodes that agree on them.

use super::ChangeMessage;
use bytes::Bytes;

/// A position in the log.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Position {
    /// Term of the leader that wrote the entry.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// The leader that wrote the entry.
    #[prost(bytes = "bytes", tag = "2")]
    pub leader: Bytes,
    /// Index of the entry.
    #[prost(uint64, tag = "3")]
    pub index: u64,
}

/// A leader or candidate with its term. (Raft's libraries call this a vote.)
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Ballot {
    /// The term.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// The node.
    #[prost(bytes = "bytes", tag = "2")]
    pub node: Bytes,
    /// True if a majority has voted for the node.
    #[prost(bool, tag = "3")]
    pub committed: bool,
}

/// A set of nodes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeSet {
    /// Identities of the nodes, ascending.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub nodes: Vec<Bytes>,
}

/// Voters and learners.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Electorate {
    /// Sets of voters. A majority of each set is needed; there are several sets while voters are
    /// replaced.
    #[prost(message, repeated, tag = "1")]
    pub voters: Vec<NodeSet>,
    /// All nodes that follow the log, voters and learners.
    #[prost(message, optional, tag = "2")]
    pub nodes: Option<NodeSet>,
}

/// An electorate, with the position in the log at which it was decided.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StoredElectorate {
    /// Position in the log.
    #[prost(message, optional, tag = "1")]
    pub position: Option<Position>,
    /// The electorate.
    #[prost(message, optional, tag = "2")]
    pub electorate: Option<Electorate>,
}

/// An entry of the log. An entry with neither a decision nor an electorate marks the start of a
/// leader's term.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LogEntry {
    /// Position of the entry.
    #[prost(message, optional, tag = "1")]
    pub position: Option<Position>,
    /// A change of the state.
    #[prost(message, optional, tag = "2")]
    pub decision: Option<Decision>,
    /// A change of the voters and learners.
    #[prost(message, optional, tag = "3")]
    pub electorate: Option<Electorate>,
}

/// Changes that are applied together or not at all.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Decision {
    /// Revision of the state on which the decision was based. The decision has no effect if the
    /// state has another revision. If absent, the changes are valid for every state.
    #[prost(uint64, optional, tag = "1")]
    pub base: Option<u64>,
    /// The changes, in order.
    #[prost(message, repeated, tag = "2")]
    pub changes: Vec<ChangeMessage>,
}
