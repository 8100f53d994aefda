//! Messages of the control plane: entries of its log, snapshots, and what its nodes ask of each
//! other. What is kept on disk and what travels is the same.
//!
//! Identities of nodes are 16 bytes. Fields that a reader does not know are skipped; a change that
//! it does not know at all is an error, because skipping it would make nodes differ.

use bytes::Bytes;

/// First method number of the control plane.
pub const METHOD_FIRST: u16 = 0x0001;
/// Last method number of the control plane.
pub const METHOD_LAST: u16 = 0x00ff;

/// Appends entries of the log: [`Append`], entries in it -> [`Appended`].
pub const METHOD_APPEND: u16 = 0x0001;
/// Asks for a vote: [`VoteAsked`] -> [`VoteAnswer`].
pub const METHOD_VOTE: u16 = 0x0002;
/// Sends a part of a snapshot as payload: [`SnapshotPart`] -> [`Ballot`], the receiver's.
pub const METHOD_SNAPSHOT: u16 = 0x0003;
/// Proposes a decision to the leader: [`Decision`] -> [`Proposed`].
pub const METHOD_PROPOSE: u16 = 0x0004;
/// Asks the leader how far the log is committed: [`Empty`] -> [`Position`].
pub const METHOD_READ_INDEX: u16 = 0x0005;

/// A refusal: the receiver is not the leader.
pub const REFUSED_NOT_LEADER: u32 = 1;
/// A refusal: the receiver does not understand the request.
pub const REFUSED_MALFORMED: u32 = 2;
/// A refusal: the receiver's control plane has stopped or cannot do this now.
pub const REFUSED_STOPPED: u32 = 3;

/// Nothing to say.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Empty {}

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

/// Who leads, or wants to.
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

/// Who votes and who learns.
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

/// One change: exactly one field is set.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ChangeMessage {
    /// A bucket type is this from now on.
    #[prost(message, optional, tag = "1")]
    pub put_type: Option<Named>,
    /// A bucket has these properties of its own from now on.
    #[prost(message, optional, tag = "2")]
    pub put_bucket: Option<Named>,
    /// A bucket has no properties of its own any more.
    #[prost(message, optional, tag = "3")]
    pub remove_bucket: Option<Named>,
    /// A member is this from now on.
    #[prost(message, optional, tag = "4")]
    pub put_member: Option<MemberMessage>,
}

/// A bucket type or a bucket, and what it is.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Named {
    /// Name of the bucket type.
    #[prost(bytes = "bytes", tag = "1")]
    pub bucket_type: Bytes,
    /// Name of the bucket.
    #[prost(bytes = "bytes", tag = "2")]
    pub bucket: Bytes,
    /// State and properties as JSON.
    #[prost(string, tag = "3")]
    pub json: String,
}

/// A member of the cluster.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MemberMessage {
    /// Its identity.
    #[prost(bytes = "bytes", tag = "1")]
    pub id: Bytes,
    /// Its name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// `host:port` for other nodes.
    #[prost(string, tag = "3")]
    pub node_address: String,
    /// `host:port` for clients of Protocol Buffers.
    #[prost(string, tag = "4")]
    pub pb_address: String,
    /// `host:port` for clients of HTTP.
    #[prost(string, tag = "5")]
    pub http_address: String,
    /// How far its membership has come.
    #[prost(enumeration = "MemberStatusMessage", tag = "6")]
    pub status: i32,
    /// Its location; empty = none.
    #[prost(string, tag = "7")]
    pub location: String,
    /// Its capacity in relation to others.
    #[prost(uint32, tag = "8")]
    pub capacity: u32,
}

/// How far a membership has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum MemberStatusMessage {
    /// No status: nobody writes this.
    None = 0,
    /// Waits for a commit.
    Joining = 1,
    /// A full member.
    Valid = 2,
    /// Hands its data to others.
    Leaving = 3,
    /// Has handed over its data.
    Exiting = 4,
    /// An operator marked it as absent.
    Down = 5,
}

/// Everything that the control plane knows.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StateMessage {
    /// Identity of the cluster.
    #[prost(bytes = "bytes", tag = "1")]
    pub cluster_id: Bytes,
    /// Partitions of the ring.
    #[prost(uint32, tag = "2")]
    pub ring_size: u32,
    /// Number of applied changes.
    #[prost(uint64, tag = "3")]
    pub version: u64,
    /// Number of applied decisions.
    #[prost(uint64, tag = "4")]
    pub revision: u64,
    /// Changes that lead from nothing to this state.
    #[prost(message, repeated, tag = "5")]
    pub changes: Vec<ChangeMessage>,
}

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
}

/// Answer to [`Append`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Appended {
    /// What came of it.
    #[prost(enumeration = "AppendOutcome", tag = "1")]
    pub outcome: i32,
    /// A higher ballot that the receiver knows.
    #[prost(message, optional, tag = "2")]
    pub higher: Option<Ballot>,
    /// How far entries were taken, where not all were.
    #[prost(message, optional, tag = "3")]
    pub partial: Option<Position>,
}

/// What came of an append.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum AppendOutcome {
    /// No outcome: nobody writes this.
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
    /// Who wants to lead.
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
    /// Who votes as of the snapshot.
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
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Proposed {
    /// Whether the changes were made; false = the state was another one.
    #[prost(bool, tag = "1")]
    pub applied: bool,
    /// The place in the log.
    #[prost(message, optional, tag = "2")]
    pub position: Option<Position>,
}
