//! Changes, and what they are about.

use super::{Empty, NodeSet, TrustMessage};
use bytes::Bytes;

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
    /// A node has lost records.
    #[prost(message, optional, tag = "10")]
    pub lost: Option<Loss>,
    /// An operator has taken note of partitions that may have lost records for good.
    #[prost(message, optional, tag = "11")]
    pub accept_losses: Option<Empty>,
    /// A rule of security is this from now on, or is gone.
    #[prost(message, optional, tag = "12")]
    pub put_rule: Option<Rule>,
    /// Trust that members hold each other's certificates against, from now on.
    #[prost(message, optional, tag = "40")]
    pub put_trust: Option<TrustMessage>,
}

/// A rule of security: who may log in, or who may do what.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Rule {
    /// The rule's key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The rule as JSON; none = it is gone.
    #[prost(string, optional, tag = "2")]
    pub json: Option<String>,
}

/// A node that has lost records of any partition.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Loss {
    /// The node.
    #[prost(bytes = "bytes", tag = "1")]
    pub node: Bytes,
    /// The numbers of copies of all buckets, ascending.
    #[prost(uint32, repeated, tag = "2")]
    pub n_vals: Vec<u32>,
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
    /// Kind of the change: a [`StagedKind`].
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

/// Kind of a staged change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum StagedKind {
    /// Nothing: no node writes this.
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
    /// The smaller numbers of replicas that buckets have, ascending.
    #[prost(uint32, repeated, tag = "3")]
    pub smaller_n_vals: Vec<u32>,
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

/// Layouts that a node serves with.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Serves {
    /// The node.
    #[prost(bytes = "bytes", tag = "1")]
    pub node: Bytes,
    /// Version of the newest layout that its writes satisfy.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
    /// Version of the oldest layout that its reads go by; 0 while not all members tell it.
    #[prost(uint64, tag = "3")]
    pub reads_version: u64,
    /// Version of the state up to which it knows which buckets got more replicas. Older members do not tell.
    #[prost(uint64, tag = "4")]
    pub raises_known: u64,
    /// Version of the state up to which it has handed over what it had of such buckets.
    #[prost(uint64, tag = "5")]
    pub raises_filled: u64,
}

/// Parts of the state beside members, layouts and buckets.
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
    /// Layouts that the members serve with.
    #[prost(message, repeated, tag = "5")]
    pub acknowledged: Vec<Serves>,
    /// Copies that have lost records; none where no node ever told of a loss.
    #[prost(message, optional, tag = "6")]
    pub lost: Option<LostMessage>,
    /// Buckets with more replicas than have been filled.
    #[prost(message, repeated, tag = "7")]
    pub raised: Vec<RaisedMessage>,
    /// For each of `removed` the name that it had, empty where it is not known. Older members do not tell.
    #[prost(string, repeated, tag = "8")]
    pub removed_names: Vec<String>,
    /// Trust that members hold each other's certificates against; none while there is no authority.
    #[prost(message, optional, tag = "40")]
    pub trust: Option<TrustMessage>,
}

/// A bucket, or the buckets of a type, with more replicas than have been filled.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RaisedMessage {
    /// The bucket's type.
    #[prost(bytes = "bytes", tag = "1")]
    pub bucket_type: Bytes,
    /// The bucket; none: all of the type that are not named themselves.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub bucket: Option<Bytes>,
    /// So many first primaries have all of the records.
    #[prost(uint32, tag = "3")]
    pub filled_n_val: u32,
    /// Version of the state in which the number was raised last.
    #[prost(uint64, tag = "4")]
    pub since: u64,
}

/// Copies that have lost records.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LostMessage {
    /// The copies.
    #[prost(message, repeated, tag = "1")]
    pub copies: Vec<Copies>,
    /// For each of `copies` the number of the loss.
    #[prost(uint64, repeated, tag = "2")]
    pub numbers: Vec<u64>,
    /// How many losses were told.
    #[prost(uint64, tag = "3")]
    pub loss_count: u64,
    /// Partitions that may have lost records for good.
    #[prost(uint32, repeated, tag = "4")]
    pub unsure: Vec<u32>,
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
    /// The oldest version of the protocol between nodes that it speaks; 0 = 1.
    #[prost(uint32, tag = "9")]
    pub version_min: u32,
    /// The newest one; 0 = 1.
    #[prost(uint32, tag = "10")]
    pub version_max: u32,
    /// Whether an operator marked it as absent. Of a full member the status says it, as nodes before version
    /// 9 know it.
    #[prost(bool, tag = "11")]
    pub is_down: bool,
}

/// How far a membership has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum MemberStatusMessage {
    /// No status: no node writes this.
    None = 0,
    /// Waits for a commit.
    Joining = 1,
    /// A full member.
    Valid = 2,
    /// Hands its data to others.
    Leaving = 3,
    /// Has handed over its data.
    Exiting = 4,
    /// A full member that an operator marked as absent.
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
