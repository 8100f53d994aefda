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
/// Asks the leader how far the log is committed: [`Empty`] -> [`ReadIndex`].
pub const METHOD_READ_INDEX: u16 = 0x0005;

/// Tells that the sender has started: [`Started`] -> [`StartNoted`].
pub const METHOD_STARTED: u16 = 0x0006;
/// Asks to be let in, as a guest: [`JoinAsked`] -> [`Joined`].
pub const METHOD_JOIN: u16 = 0x0007;
/// Asks whether the sender is still a member, as a guest: [`Empty`] -> [`Standing`].
pub const METHOD_STANDING: u16 = 0x0008;

/// A refusal: the receiver is not the leader.
pub const REFUSED_NOT_LEADER: u32 = 1024;
/// A refusal: the receiver's control plane has stopped or cannot do this now.
pub const REFUSED_STOPPED: u32 = 1025;
/// A refusal: the cluster does not let the node in.
pub const REFUSED_JOIN: u32 = 1026;

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
    /// A node is no member any more.
    #[prost(message, optional, tag = "5")]
    pub remove_member: Option<Removal>,
    /// These changes of membership wait for a commit, and no others.
    #[prost(message, optional, tag = "6")]
    pub stage: Option<StagedMessages>,
    /// A layout is live from now on.
    #[prost(message, optional, tag = "7")]
    pub put_layout: Option<LayoutMessage>,
    /// A node has complete copies of partitions.
    #[prost(message, optional, tag = "8")]
    pub copied: Option<Copies>,
    /// A node serves with a layout.
    #[prost(message, optional, tag = "9")]
    pub serves: Option<Serves>,
}

/// A node that is no member any more.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Removal {
    /// The node.
    #[prost(bytes = "bytes", tag = "1")]
    pub id: Bytes,
    /// Whether it may never come back.
    #[prost(bool, tag = "2")]
    pub for_ever: bool,
}

/// Changes of membership that wait for a commit.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StagedMessages {
    /// The changes, as they were staged.
    #[prost(message, repeated, tag = "1")]
    pub staged: Vec<StagedMessage>,
}

/// A change of membership that waits for a commit.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StagedMessage {
    /// What shall be done.
    #[prost(enumeration = "StagedKind", tag = "1")]
    pub kind: i32,
    /// The node; of a replacement the one that goes.
    #[prost(bytes = "bytes", tag = "2")]
    pub node: Bytes,
    /// The node that comes, of a replacement.
    #[prost(bytes = "bytes", tag = "3")]
    pub newcomer: Bytes,
    /// The new location; empty = none.
    #[prost(string, tag = "4")]
    pub location: String,
    /// The new capacity.
    #[prost(uint32, tag = "5")]
    pub capacity: u32,
}

/// What a staged change shall do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum StagedKind {
    /// Nothing: nobody writes this.
    None = 0,
    /// The node becomes a full member.
    Join = 1,
    /// The node hands over its data and goes.
    Leave = 2,
    /// The node is no member any more.
    ForceRemove = 3,
    /// The node is replaced and hands over its data.
    Replace = 4,
    /// The node is replaced, its copies are lost.
    ForceReplace = 5,
    /// The node stands somewhere else.
    Location = 6,
    /// The node takes another share.
    Capacity = 7,
}

/// A layout that becomes live.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LayoutMessage {
    /// The layout in its own format.
    #[prost(bytes = "bytes", tag = "1")]
    pub layout: Bytes,
    /// So many copies of each partition have to be complete.
    #[prost(uint32, tag = "2")]
    pub n_val: u32,
}

/// Copies of partitions on one node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Copies {
    /// The node.
    #[prost(bytes = "bytes", tag = "1")]
    pub node: Bytes,
    /// The partitions.
    #[prost(uint32, repeated, tag = "2")]
    pub partitions: Vec<u32>,
}

/// What a node serves with.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Serves {
    /// The node.
    #[prost(bytes = "bytes", tag = "1")]
    pub node: Bytes,
    /// Version of the layout.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
}

/// What belongs to the state beside members, layouts and buckets.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ClusterMessage {
    /// Nodes that were removed for ever.
    #[prost(message, optional, tag = "1")]
    pub removed: Option<NodeSet>,
    /// Changes of membership that wait for a commit.
    #[prost(message, optional, tag = "2")]
    pub staged: Option<StagedMessages>,
    /// So many copies of each partition have to be complete.
    #[prost(uint32, tag = "3")]
    pub n_val: u32,
    /// Copies that their nodes have not got yet.
    #[prost(message, repeated, tag = "4")]
    pub incomplete: Vec<Copies>,
    /// What the members serve with.
    #[prost(message, repeated, tag = "5")]
    pub acknowledged: Vec<Serves>,
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
    /// Members, bucket types and buckets, as changes that lead to them from nothing.
    #[prost(message, repeated, tag = "5")]
    pub changes: Vec<ChangeMessage>,
    /// The live layouts in their own format, oldest first.
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub layouts: Vec<Bytes>,
    /// Everything else.
    #[prost(message, optional, tag = "7")]
    pub cluster: Option<ClusterMessage>,
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
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StartNoted {
    /// Whether the receiver knows of no later start of the node.
    #[prost(bool, tag = "1")]
    pub is_latest: bool,
    /// The latest start that it knows of.
    #[prost(uint64, tag = "2")]
    pub known_starts: u64,
    /// Who votes, as far as the receiver knows.
    #[prost(message, optional, tag = "3")]
    pub electorate: Option<StoredElectorate>,
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

/// What the receiver thinks of the sender.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Standing {
    /// Whether the sender was removed for ever.
    #[prost(bool, tag = "1")]
    pub is_removed: bool,
    /// Whether the sender is a member.
    #[prost(bool, tag = "2")]
    pub is_member: bool,
}
