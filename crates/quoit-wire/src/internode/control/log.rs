//! Entries of the log, and who agrees on them.

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
    /// Number of the entry.
    #[prost(uint64, tag = "3")]
    pub index: u64,
}

/// Leader, or candidate, and its term.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Ballot {
    /// The term.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// The node.
    #[prost(bytes = "bytes", tag = "2")]
    pub node: Bytes,
    /// Whether a majority has voted for it.
    #[prost(bool, tag = "3")]
    pub committed: bool,
}

/// A set of nodes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeSet {
    /// Their identities, ascending.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub nodes: Vec<Bytes>,
}

/// Voters and learners.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Electorate {
    /// Sets of voters; a majority of each is needed. More than one while voters are replaced.
    #[prost(message, repeated, tag = "1")]
    pub voters: Vec<NodeSet>,
    /// All nodes that follow the log, voters and learners.
    #[prost(message, optional, tag = "2")]
    pub nodes: Option<NodeSet>,
}

/// An electorate and where in the log it was decided.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StoredElectorate {
    /// Its place in the log.
    #[prost(message, optional, tag = "1")]
    pub position: Option<Position>,
    /// The electorate.
    #[prost(message, optional, tag = "2")]
    pub electorate: Option<Electorate>,
}

/// An entry of the log. One that has neither a decision nor an electorate marks the start of a
/// leader's term.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LogEntry {
    /// Its place.
    #[prost(message, optional, tag = "1")]
    pub position: Option<Position>,
    /// A change of the state.
    #[prost(message, optional, tag = "2")]
    pub decision: Option<Decision>,
    /// A change of those who vote.
    #[prost(message, optional, tag = "3")]
    pub electorate: Option<Electorate>,
}

/// Changes that are made together or not at all.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Decision {
    /// The revision of the state that the decision was made on; it has no effect on another one. Without
    /// it the changes hold on every state.
    #[prost(uint64, optional, tag = "1")]
    pub base: Option<u64>,
    /// The changes, in order.
    #[prost(message, repeated, tag = "2")]
    pub changes: Vec<ChangeMessage>,
}
