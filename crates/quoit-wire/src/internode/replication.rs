//! Messages by which a node learns what its cluster has, to compare it with another cluster.

use bytes::Bytes;

/// Asks for digests of ranges, or for the records in them: [`AskDigests`] -> [`ToldDigests`].
pub const METHOD_ASK_DIGESTS: u16 = 0x0160;

/// Gives the receiver a command of an operator: [`ReplicationMessage`] -> [`ReplicationMessage`].
pub const METHOD_COMMAND: u16 = 0x0161;

/// A command about replication, or its answer.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReplicationMessage {
    /// JSON.
    #[prost(bytes = "bytes", tag = "1")]
    pub content: Bytes,
}

/// Asks a node for what it has of some partitions, as their complete copy.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AskDigests {
    /// The newest layout that the asking node knows.
    #[prost(uint64, tag = "1")]
    pub layout_version: u64,
    /// First hour that counts, from 1970: records that expire before it are left out.
    #[prost(uint32, tag = "2")]
    pub hour_min: u32,
    /// Partitions, one for each range.
    #[prost(uint32, repeated, tag = "3")]
    pub partitions: Vec<u32>,
    /// Numbers of ranges of hashes; 1 is all of a partition.
    #[prost(uint64, repeated, tag = "4")]
    pub ranges: Vec<u64>,
    /// Whether the records are wanted instead of digests.
    #[prost(bool, tag = "5")]
    pub records: bool,
    /// Id of the cluster that is compared with, 16 bytes.
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub other: Option<Bytes>,
    /// Whether stale queues for that cluster are no obstacle.
    #[prost(bool, tag = "7")]
    pub is_rebase: bool,
}

/// Digests of the node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ToldDigests {
    /// A digest for each range, of all classes of n_val together.
    #[prost(fixed64, repeated, tag = "1")]
    pub digests: Vec<u64>,
    /// Records of all ranges.
    #[prost(message, repeated, tag = "2")]
    pub records: Vec<ToldRecord>,
    /// A stale queue for the other cluster: there are neither digests nor records then.
    #[prost(string, optional, tag = "3")]
    pub stale_queue: Option<String>,
}

/// A record.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ToldRecord {
    /// Name, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Digest of its state.
    #[prost(fixed64, tag = "2")]
    pub digest: u64,
    /// Whether it is a tombstone.
    #[prost(bool, tag = "3")]
    pub tombstone: bool,
    /// Its clock, as clients get it.
    #[prost(bytes = "bytes", tag = "4")]
    pub clock: Bytes,
    /// When it was last modified, microseconds since 1970.
    #[prost(uint64, tag = "5")]
    pub modified_us: u64,
}
