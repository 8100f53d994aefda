//! Requests of the control plane.

use super::{Ballot, ChangeMessage, LogEntry, MemberMessage, Position, StoredElectorate};
use bytes::Bytes;

/// A message without fields.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Empty {}

/// Appends entries to the receiver's log.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Append {
    /// Term and identity of the leader.
    #[prost(message, optional, tag = "1")]
    pub ballot: Option<Ballot>,
    /// Position of the entry before the first one.
    #[prost(message, optional, tag = "2")]
    pub previous: Option<Position>,
    /// Position up to which the log is committed.
    #[prost(message, optional, tag = "3")]
    pub committed: Option<Position>,
    /// The entries; empty for a heartbeat.
    #[prost(message, repeated, tag = "4")]
    pub entries: Vec<LogEntry>,
    /// True if no majority of the voters has answered the leader recently. Older nodes do not set
    /// it.
    #[prost(bool, tag = "5")]
    pub lacks_majority: bool,
}

/// Answer to [`Append`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Appended {
    /// Outcome of the append: an [`AppendOutcome`].
    #[prost(enumeration = "AppendOutcome", tag = "1")]
    pub outcome: i32,
    /// A higher ballot that the receiver knows.
    #[prost(message, optional, tag = "2")]
    pub higher: Option<Ballot>,
    /// Position up to which entries were stored, if not all were.
    #[prost(message, optional, tag = "3")]
    pub partial: Option<Position>,
}

/// Outcome of an append.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum AppendOutcome {
    /// No outcome; never sent.
    None = 0,
    /// All entries are stored.
    Success = 1,
    /// The first entries are stored.
    Partial = 2,
    /// The receiver's log differs at the position before the first entry.
    Conflict = 3,
    /// The receiver knows a higher ballot.
    Higher = 4,
}

/// Asks for a vote in an election.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct VoteAsked {
    /// Ballot of the candidate.
    #[prost(message, optional, tag = "1")]
    pub ballot: Option<Ballot>,
    /// Last position of the candidate's log.
    #[prost(message, optional, tag = "2")]
    pub last: Option<Position>,
}

/// Answer to [`VoteAsked`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct VoteAnswer {
    /// The receiver's current ballot.
    #[prost(message, optional, tag = "1")]
    pub ballot: Option<Ballot>,
    /// True if the receiver votes for the candidate.
    #[prost(bool, tag = "2")]
    pub granted: bool,
    /// Last position of the receiver's log.
    #[prost(message, optional, tag = "3")]
    pub last: Option<Position>,
}

/// A part of a snapshot; its bytes are the payload.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SnapshotPart {
    /// Term and identity of the leader.
    #[prost(message, optional, tag = "1")]
    pub ballot: Option<Ballot>,
    /// Position of the last entry that the snapshot contains.
    #[prost(message, optional, tag = "2")]
    pub last: Option<Position>,
    /// Voters and learners as of the snapshot.
    #[prost(message, optional, tag = "3")]
    pub electorate: Option<StoredElectorate>,
    /// Name of the snapshot.
    #[prost(string, tag = "4")]
    pub snapshot_id: String,
    /// Offset of the part in the snapshot, in bytes.
    #[prost(uint64, tag = "5")]
    pub offset_bytes: u64,
    /// True for the last part.
    #[prost(bool, tag = "6")]
    pub is_last: bool,
}

/// Answer to a proposal.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Proposed {
    /// True if the changes were applied; false if the state had another revision.
    #[prost(bool, tag = "1")]
    pub applied: bool,
    /// Index of the entry in the log.
    #[prost(uint64, tag = "2")]
    pub index: u64,
}

/// Position up to which the log is committed.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ReadIndex {
    /// Index of the last committed entry.
    #[prost(uint64, tag = "1")]
    pub index: u64,
}

/// Announces that a node has started.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Started {
    /// Number of times that the node was started with its data directory.
    #[prost(uint64, tag = "1")]
    pub starts: u64,
    /// Random id of the start.
    #[prost(fixed64, tag = "2")]
    pub boot_id: u64,
}

/// Answer to [`Started`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct StartNoted {
    /// True if the receiver knows of no later start of the node.
    #[prost(bool, tag = "1")]
    pub is_latest: bool,
    /// The latest start of the node that the receiver knows.
    #[prost(uint64, tag = "2")]
    pub known_starts: u64,
    /// Voters and learners, as the receiver knows them.
    #[prost(message, optional, tag = "3")]
    pub electorate: Option<StoredElectorate>,
    /// The voters as members, for a node that does not know them yet.
    #[prost(message, repeated, tag = "4")]
    pub voters: Vec<MemberMessage>,
}

/// A single node asks to join the cluster.
#[derive(Clone, PartialEq, prost::Message)]
pub struct JoinRequest {
    /// The node.
    #[prost(message, optional, tag = "1")]
    pub member: Option<MemberMessage>,
    /// Number of partitions of the node's layouts.
    #[prost(uint32, tag = "2")]
    pub ring_size: u32,
    /// The node's bucket types and buckets.
    #[prost(message, repeated, tag = "3")]
    pub brought: Vec<ChangeMessage>,
}

/// The node is a member now.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Joined {
    /// Identity of the cluster.
    #[prost(bytes = "bytes", tag = "1")]
    pub cluster_id: Bytes,
}

/// Asks for the membership of the sender in the receiver's cluster.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MembershipQuery {
    /// Name of the sender; empty if the sender does not give it.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Membership of the sender, as the receiver knows it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MembershipAnswer {
    /// True if the sender was removed for ever.
    #[prost(bool, tag = "1")]
    pub is_removed: bool,
    /// True if the sender is a member.
    #[prost(bool, tag = "2")]
    pub is_member: bool,
    /// Number of members of the receiver's cluster; 0 if the receiver does not send it.
    #[prost(uint32, tag = "3")]
    pub member_count: u32,
    /// Identity of another member that has the sender's name; empty if there is none.
    #[prost(bytes = "bytes", tag = "4")]
    pub namesake: Bytes,
}
