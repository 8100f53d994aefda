//! Messages by which a node asks others for their parts of the trees that Riak compares clusters by.
//!
//! A tree is of all records whose buckets have a number of replicas. Each partition's part comes from
//! one node.

use bytes::Bytes;

/// Asks for a part of a tree: [`AskTree`] -> [`ToldTree`].
pub const METHOD_ASK_TREE: u16 = 0x0170;
/// Asks for the clocks of the records of segments: [`AskTreeClocks`] -> [`ToldTreeClocks`].
pub const METHOD_ASK_TREE_CLOCKS: u16 = 0x0171;

/// Asks for a part of the tree of the receiver's copies of some partitions.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AskTree {
    /// Number of replicas.
    #[prost(uint32, tag = "1")]
    pub n_val: u32,
    /// A bit for each partition.
    #[prost(bytes = "bytes", tag = "2")]
    pub partitions: Bytes,
    /// The oldest live layout that the sender knows.
    #[prost(uint64, tag = "3")]
    pub layout_version: u64,
    /// The branches that are wanted; none: the root is.
    #[prost(uint32, repeated, tag = "4")]
    pub branches: Vec<u32>,
}

/// A part of a tree.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ToldTree {
    /// The root, if it was asked for: 4 bytes for each branch.
    #[prost(bytes = "bytes", tag = "1")]
    pub root: Bytes,
    /// The branches that were asked for, in that order: 4 bytes for each leaf.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub branches: Vec<Bytes>,
}

/// Asks for the clocks of the records that are in some segments of a tree.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AskTreeClocks {
    /// Number of replicas.
    #[prost(uint32, tag = "1")]
    pub n_val: u32,
    /// A bit for each partition.
    #[prost(bytes = "bytes", tag = "2")]
    pub partitions: Bytes,
    /// The oldest live layout that the sender knows.
    #[prost(uint64, tag = "3")]
    pub layout_version: u64,
    /// Number of segments of the tree.
    #[prost(uint32, tag = "4")]
    pub segment_count: u32,
    /// The segments.
    #[prost(uint32, repeated, tag = "5")]
    pub segments: Vec<u32>,
    /// The first second (since 1970) of the last write.
    #[prost(uint64, tag = "6")]
    pub modified_from: u64,
    /// The last second of it; absent: for ever.
    #[prost(uint64, optional, tag = "7")]
    pub modified_to: Option<u64>,
}

/// Clocks of records.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ToldTreeClocks {
    /// The records.
    #[prost(message, repeated, tag = "1")]
    pub records: Vec<TreeRecord>,
    /// A bit for each partition that was asked for and not looked at, since the answer is large enough.
    #[prost(bytes = "bytes", tag = "2")]
    pub left: Bytes,
}

/// A record of a tree.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TreeRecord {
    /// Name of the record, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Its clock, as a Riak node has it.
    #[prost(bytes = "bytes", tag = "2")]
    pub clock: Bytes,
    /// When it was last written, seconds since 1970.
    #[prost(uint64, tag = "3")]
    pub modified_secs: u64,
}
