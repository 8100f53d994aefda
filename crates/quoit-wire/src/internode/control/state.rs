//! Changes of the control plane's state, and their parts.

use super::{Empty, NodeSet, TrustMessage};
use bytes::Bytes;

/// One change: exactly one field is set.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ChangeMessage {
    /// Creates or replaces a bucket type.
    #[prost(message, optional, tag = "1")]
    pub put_type: Option<PropsMessage>,
    /// Sets the properties that a bucket has of its own.
    #[prost(message, optional, tag = "2")]
    pub put_bucket: Option<PropsMessage>,
    /// Removes the properties that a bucket has of its own.
    #[prost(message, optional, tag = "3")]
    pub remove_bucket: Option<PropsMessage>,
    /// Adds or replaces a member.
    #[prost(message, optional, tag = "4")]
    pub put_member: Option<MemberMessage>,
    /// Removes a member.
    #[prost(message, optional, tag = "5")]
    pub remove_member: Option<MemberRemoval>,
    /// Replaces all staged changes of membership.
    #[prost(message, optional, tag = "6")]
    pub stage: Option<StagedMessages>,
    /// Makes a layout live.
    #[prost(message, optional, tag = "7")]
    pub put_layout: Option<LayoutMessage>,
    /// Marks copies of a node as complete.
    #[prost(message, optional, tag = "8")]
    pub copied: Option<Copies>,
    /// Records the layouts that a node serves with.
    #[prost(message, optional, tag = "9")]
    pub serves: Option<ServedLayouts>,
    /// Records that a node has lost records.
    #[prost(message, optional, tag = "10")]
    pub lost: Option<NodeLoss>,
    /// Records that an operator has accepted the possible loss of records in some partitions.
    #[prost(message, optional, tag = "11")]
    pub accept_losses: Option<Empty>,
    /// Sets or removes a security rule.
    #[prost(message, optional, tag = "12")]
    pub put_rule: Option<Rule>,
    /// Replaces the authorities by which members check each other's certificates.
    #[prost(message, optional, tag = "40")]
    pub put_trust: Option<TrustMessage>,
}

/// A security rule: a user, group, source or grant.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Rule {
    /// The rule's key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The rule as JSON; absent if the rule is removed.
    #[prost(string, optional, tag = "2")]
    pub json: Option<String>,
}

/// A node that has lost records of any partition.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeLoss {
    /// The node.
    #[prost(bytes = "bytes", tag = "1")]
    pub node: Bytes,
    /// The values of `n_val` of all buckets, ascending.
    #[prost(uint32, repeated, tag = "2")]
    pub n_vals: Vec<u32>,
}

/// A node that is no longer a member.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MemberRemoval {
    /// The node.
    #[prost(bytes = "bytes", tag = "1")]
    pub id: Bytes,
    /// True if the node can never become a member again.
    #[prost(bool, tag = "2")]
    pub for_ever: bool,
}

/// Staged changes of membership.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StagedMessages {
    /// The changes, in the order in which they were staged.
    #[prost(message, repeated, tag = "1")]
    pub staged: Vec<StagedMessage>,
}

/// A staged change of membership.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StagedMessage {
    /// Kind of the change: a [`StagedKind`].
    #[prost(enumeration = "StagedKind", tag = "1")]
    pub kind: i32,
    /// The node; for a replacement, the node that is replaced.
    #[prost(bytes = "bytes", tag = "2")]
    pub node: Bytes,
    /// The replacing node, for a replacement.
    #[prost(bytes = "bytes", tag = "3")]
    pub newcomer: Bytes,
    /// The new location; empty for none.
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
    /// No change; never sent.
    None = 0,
    /// The node becomes a full member.
    Join = 1,
    /// The node hands over its data and leaves.
    Leave = 2,
    /// The node is removed without handing over its data.
    ForceRemove = 3,
    /// The node is replaced and hands over its data.
    Replace = 4,
    /// The node is replaced; its copies are lost.
    ForceReplace = 5,
    /// The node gets another location.
    Location = 6,
    /// The node gets another capacity.
    Capacity = 7,
}

/// A layout that becomes live.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LayoutMessage {
    /// The encoded layout.
    #[prost(bytes = "bytes", tag = "1")]
    pub layout: Bytes,
    /// Number of copies of each partition that have to be complete.
    #[prost(uint32, tag = "2")]
    pub n_val: u32,
    /// The smaller values of `n_val` that buckets have, ascending.
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
pub struct ServedLayouts {
    /// The node.
    #[prost(bytes = "bytes", tag = "1")]
    pub node: Bytes,
    /// Version of the newest layout that its writes satisfy.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
    /// Version of the oldest layout that its reads use; 0 until all members report it.
    #[prost(uint64, tag = "3")]
    pub reads_version: u64,
    /// Version of the state up to which the node knows the buckets whose `n_val` was raised. Older
    /// nodes do not report it.
    #[prost(uint64, tag = "4")]
    pub raises_known: u64,
    /// Version of the state up to which the node has handed over its records of such buckets.
    #[prost(uint64, tag = "5")]
    pub raises_filled: u64,
}

/// Parts of the state other than members, layouts and buckets.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ClusterMessage {
    /// Nodes that were removed for ever.
    #[prost(message, optional, tag = "1")]
    pub removed: Option<NodeSet>,
    /// Staged changes of membership.
    #[prost(message, optional, tag = "2")]
    pub staged: Option<StagedMessages>,
    /// Number of copies of each partition that have to be complete.
    #[prost(uint32, tag = "3")]
    pub n_val: u32,
    /// Copies that are not complete yet.
    #[prost(message, repeated, tag = "4")]
    pub incomplete: Vec<Copies>,
    /// Layouts that the members serve with.
    #[prost(message, repeated, tag = "5")]
    pub acknowledged: Vec<ServedLayouts>,
    /// Copies that have lost records; absent if no node has ever reported a loss.
    #[prost(message, optional, tag = "6")]
    pub lost: Option<LostMessage>,
    /// Buckets whose `n_val` was raised and whose new replicas are not filled yet.
    #[prost(message, repeated, tag = "7")]
    pub raised: Vec<RaisedMessage>,
    /// Name of each node of `removed`; empty if unknown. Older nodes do not send it.
    #[prost(string, repeated, tag = "8")]
    pub removed_names: Vec<String>,
    /// Authorities by which members check each other's certificates; absent if there is no
    /// authority.
    #[prost(message, optional, tag = "40")]
    pub trust: Option<TrustMessage>,
}

/// A bucket, or the buckets of a type, whose `n_val` was raised and whose new replicas are not
/// filled yet.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RaisedMessage {
    /// The bucket's type.
    #[prost(bytes = "bytes", tag = "1")]
    pub bucket_type: Bytes,
    /// The bucket; absent for all buckets of the type that have no entry of their own.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub bucket: Option<Bytes>,
    /// Number of first primaries that have all of the bucket's records.
    #[prost(uint32, tag = "3")]
    pub filled_n_val: u32,
    /// Version of the state in which `n_val` was last raised.
    #[prost(uint64, tag = "4")]
    pub since: u64,
}

/// Copies that have lost records.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LostMessage {
    /// The copies.
    #[prost(message, repeated, tag = "1")]
    pub copies: Vec<Copies>,
    /// Number of the loss, for each of `copies`.
    #[prost(uint64, repeated, tag = "2")]
    pub numbers: Vec<u64>,
    /// Number of losses reported so far.
    #[prost(uint64, tag = "3")]
    pub loss_count: u64,
    /// Partitions that may have lost records for ever.
    #[prost(uint32, repeated, tag = "4")]
    pub unsure: Vec<u32>,
}

/// A bucket type or a bucket, with its properties.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PropsMessage {
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
    /// Identity of the member.
    #[prost(bytes = "bytes", tag = "1")]
    pub id: Bytes,
    /// Name of the member.
    #[prost(string, tag = "2")]
    pub name: String,
    /// `host:port` of its listener for other nodes.
    #[prost(string, tag = "3")]
    pub node_address: String,
    /// `host:port` of its listener for Protocol Buffers clients.
    #[prost(string, tag = "4")]
    pub pb_address: String,
    /// `host:port` of its listener for HTTP clients.
    #[prost(string, tag = "5")]
    pub http_address: String,
    /// State of its membership: a [`MemberStatusMessage`].
    #[prost(enumeration = "MemberStatusMessage", tag = "6")]
    pub status: i32,
    /// Location; empty for none.
    #[prost(string, tag = "7")]
    pub location: String,
    /// Capacity relative to other members.
    #[prost(uint32, tag = "8")]
    pub capacity: u32,
    /// Oldest version of the internode protocol that it speaks; 0 stands for 1.
    #[prost(uint32, tag = "9")]
    pub version_min: u32,
    /// Newest version of the internode protocol that it speaks; 0 stands for 1.
    #[prost(uint32, tag = "10")]
    pub version_max: u32,
    /// True if an operator marked it as down. For a full member the status
    /// [`MemberStatusMessage::Down`] says this instead, because older nodes know only that form.
    #[prost(bool, tag = "11")]
    pub is_down: bool,
}

/// State of a membership.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum MemberStatusMessage {
    /// No status; never sent.
    None = 0,
    /// The join is staged and not committed yet.
    Joining = 1,
    /// A full member.
    Valid = 2,
    /// The member hands its data over to others.
    Leaving = 3,
    /// The member has handed over its data.
    Exiting = 4,
    /// A full member that an operator marked as down.
    Down = 5,
}

/// The whole state of the control plane.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StateMessage {
    /// Identity of the cluster.
    #[prost(bytes = "bytes", tag = "1")]
    pub cluster_id: Bytes,
    /// Number of partitions.
    #[prost(uint32, tag = "2")]
    pub ring_size: u32,
    /// Number of applied changes.
    #[prost(uint64, tag = "3")]
    pub version: u64,
    /// Number of applied decisions.
    #[prost(uint64, tag = "4")]
    pub revision: u64,
    /// Members, bucket types and buckets, as the changes that create them.
    #[prost(message, repeated, tag = "5")]
    pub changes: Vec<ChangeMessage>,
    /// The encoded live layouts, oldest first.
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub layouts: Vec<Bytes>,
    /// Everything else.
    #[prost(message, optional, tag = "7")]
    pub cluster: Option<ClusterMessage>,
}
