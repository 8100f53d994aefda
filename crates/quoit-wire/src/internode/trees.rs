//! Messages by which a node collects parts of the hash trees with which Riak compares clusters.
//!
//! A tree covers all records whose buckets have the same number of replicas. The part of each
//! partition comes from one node.

use bytes::Bytes;

/// Requests a part of a tree: [`ReadTree`] -> [`TreePart`].
pub const METHOD_ASK_TREE: u16 = 0x0170;
/// Requests the clocks of the records in some segments: [`ReadTreeClocks`] -> [`TreeClocks`].
pub const METHOD_ASK_TREE_CLOCKS: u16 = 0x0171;

/// Requests a part of the tree over the receiver's copies of some partitions.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadTree {
    /// Number of replicas.
    #[prost(uint32, tag = "1")]
    pub n_val: u32,
    /// The partitions as a bit set.
    #[prost(bytes = "bytes", tag = "2")]
    pub partitions: Bytes,
    /// Version of the oldest live layout that the sender knows.
    #[prost(uint64, tag = "3")]
    pub layout_version: u64,
    /// Numbers of the requested branches; empty to request the root.
    #[prost(uint32, repeated, tag = "4")]
    pub branches: Vec<u32>,
}

/// A part of a tree.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TreePart {
    /// The root, if it was requested: 4 bytes for each branch.
    #[prost(bytes = "bytes", tag = "1")]
    pub root: Bytes,
    /// The requested branches, in that order: 4 bytes for each leaf.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub branches: Vec<Bytes>,
}

/// Requests the clocks of the records in some segments of a tree.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadTreeClocks {
    /// Number of replicas.
    #[prost(uint32, tag = "1")]
    pub n_val: u32,
    /// The partitions as a bit set.
    #[prost(bytes = "bytes", tag = "2")]
    pub partitions: Bytes,
    /// Version of the oldest live layout that the sender knows.
    #[prost(uint64, tag = "3")]
    pub layout_version: u64,
    /// Number of segments of the tree.
    #[prost(uint32, tag = "4")]
    pub segment_count: u32,
    /// Numbers of the segments.
    #[prost(uint32, repeated, tag = "5")]
    pub segments: Vec<u32>,
    /// Earliest time of the last write, in seconds since 1970.
    #[prost(uint64, tag = "6")]
    pub modified_from: u64,
    /// Latest time of the last write, in seconds since 1970; absent for no limit.
    #[prost(uint64, optional, tag = "7")]
    pub modified_to: Option<u64>,
}

/// Clocks of records.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TreeClocks {
    /// The records.
    #[prost(message, repeated, tag = "1")]
    pub records: Vec<TreeRecord>,
    /// Bit set of the requested partitions that were not read, because the answer was large enough.
    #[prost(bytes = "bytes", tag = "2")]
    pub left: Bytes,
}

/// A record of a tree.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TreeRecord {
    /// Name of the record, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Clock of the record in Riak's form.
    #[prost(bytes = "bytes", tag = "2")]
    pub clock: Bytes,
    /// Time of the last write in seconds since 1970.
    #[prost(uint64, tag = "3")]
    pub modified_secs: u64,
}
