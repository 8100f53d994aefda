//! Requests of nodes to each other.

use super::{Ballot, ChangeMessage, LogEntry, MemberMessage, Position, StoredElectorate};
use bytes::Bytes;

/// Nothing to say.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Empty {}

/// Appends entries of the log.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Append {
    /// The leader.
    #[prost(message, optional, tag = "1")]
    pub ballot: Option<Ballot>,
    /// The place before the first entry.
    #[prost(message, optional, tag = "2")]
    pub previous: Option<Position>,
    /// How far the log is committed.
    #[prost(message, optional, tag = "3")]
    pub committed: Option<Position>,
    /// The entries; none = only a sign of life.
    #[prost(message, repeated, tag = "4")]
    pub entries: Vec<LogEntry>,
    /// Whether no majority of the voters has answered the leader lately. Older programs do not say so.
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
    /// How far entries were taken, where not all were.
    #[prost(message, optional, tag = "3")]
    pub partial: Option<Position>,
}

/// Outcome of an append.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum AppendOutcome {
    /// No outcome: no node writes this.
    None = 0,
    /// All entries are stored.
    Success = 1,
    /// The first entries are stored.
    Partial = 2,
    /// The receiver's log differs before the first entry.
    Conflict = 3,
    /// The receiver knows a higher ballot.
    Higher = 4,
}

/// Asks for a vote.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct VoteAsked {
    /// Ballot of the node that wants to lead.
    #[prost(message, optional, tag = "1")]
    pub ballot: Option<Ballot>,
    /// The end of its log.
    #[prost(message, optional, tag = "2")]
    pub last: Option<Position>,
}

/// Answer to [`VoteAsked`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct VoteAnswer {
    /// The receiver's ballot now.
    #[prost(message, optional, tag = "1")]
    pub ballot: Option<Ballot>,
    /// Whether it votes for who asked.
    #[prost(bool, tag = "2")]
    pub granted: bool,
    /// The end of the receiver's log.
    #[prost(message, optional, tag = "3")]
    pub last: Option<Position>,
}

/// A part of a snapshot; its bytes are the payload.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SnapshotPart {
    /// The leader.
    #[prost(message, optional, tag = "1")]
    pub ballot: Option<Ballot>,
    /// The last entry that the snapshot contains.
    #[prost(message, optional, tag = "2")]
    pub last: Option<Position>,
    /// Voters and learners as of the snapshot.
    #[prost(message, optional, tag = "3")]
    pub electorate: Option<StoredElectorate>,
    /// Name of the snapshot.
    #[prost(string, tag = "4")]
    pub snapshot_id: String,
    /// Place of the part in the snapshot, in bytes.
    #[prost(uint64, tag = "5")]
    pub offset_bytes: u64,
    /// Whether this is the last part.
    #[prost(bool, tag = "6")]
    pub is_last: bool,
}

/// Answer to a proposal.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Proposed {
    /// Whether the changes were made; false = the state was another one.
    #[prost(bool, tag = "1")]
    pub applied: bool,
    /// Number of the entry in the log.
    #[prost(uint64, tag = "2")]
    pub index: u64,
}

/// How far the log is committed.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ReadIndex {
    /// Number of the last committed entry.
    #[prost(uint64, tag = "1")]
    pub index: u64,
}

/// A node has started.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Started {
    /// How often the node was started with its data directory.
    #[prost(uint64, tag = "1")]
    pub starts: u64,
    /// Random for each start.
    #[prost(fixed64, tag = "2")]
    pub boot_id: u64,
}

/// Answer to [`Started`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct StartNoted {
    /// Whether the receiver knows of no later start of the node.
    #[prost(bool, tag = "1")]
    pub is_latest: bool,
    /// The latest start that it knows of.
    #[prost(uint64, tag = "2")]
    pub known_starts: u64,
    /// Voters and learners, as far as the receiver knows.
    #[prost(message, optional, tag = "3")]
    pub electorate: Option<StoredElectorate>,
    /// Those voters: the node that has started may never have heard of them.
    #[prost(message, repeated, tag = "4")]
    pub voters: Vec<MemberMessage>,
}

/// A node that ran alone asks to be let in.
#[derive(Clone, PartialEq, prost::Message)]
pub struct JoinAsked {
    /// The node.
    #[prost(message, optional, tag = "1")]
    pub member: Option<MemberMessage>,
    /// Partitions of its ring.
    #[prost(uint32, tag = "2")]
    pub ring_size: u32,
    /// Its bucket types and buckets.
    #[prost(message, repeated, tag = "3")]
    pub brought: Vec<ChangeMessage>,
}

/// The node is in.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Joined {
    /// Identity of the cluster.
    #[prost(bytes = "bytes", tag = "1")]
    pub cluster_id: Bytes,
}

/// Asks what the receiver thinks of the sender.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StandingAsked {
    /// Name of the sender; empty = it does not tell.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Standing of the sender, as the receiver knows it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Standing {
    /// Whether the sender was removed for ever.
    #[prost(bool, tag = "1")]
    pub is_removed: bool,
    /// Whether the sender is a member.
    #[prost(bool, tag = "2")]
    pub is_member: bool,
    /// Members of the receiver's cluster; 0 = the receiver does not tell.
    #[prost(uint32, tag = "3")]
    pub member_count: u32,
    /// Identity of a member that has the sender's name and is not the sender; empty = there is none.
    #[prost(bytes = "bytes", tag = "4")]
    pub namesake: Bytes,
}
