//! Messages by which a node collects digests of its cluster, to compare it with another cluster.

use bytes::Bytes;

/// Requests digests of ranges, or the records in them: [`ReadDigests`] -> [`DigestsRead`].
pub const METHOD_ASK_DIGESTS: u16 = 0x0160;

/// Passes an operator's command to the receiver: [`ReplicationMessage`] -> [`ReplicationMessage`].
pub const METHOD_COMMAND: u16 = 0x0161;

/// A command about replication, or its answer.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReplicationMessage {
    /// The command or answer as JSON.
    #[prost(bytes = "bytes", tag = "1")]
    pub content: Bytes,
}

/// Requests digests or records of partitions of which the receiver has a complete copy.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadDigests {
    /// Version of the newest layout that the sender knows.
    #[prost(uint64, tag = "1")]
    pub layout_version: u64,
    /// First hour since 1970 that is compared: records that expire before it are left out.
    #[prost(uint32, tag = "2")]
    pub hour_min: u32,
    /// Partitions, one for each range.
    #[prost(uint32, repeated, tag = "3")]
    pub partitions: Vec<u32>,
    /// Numbers of ranges of hashes; 1 is all of a partition.
    #[prost(uint64, repeated, tag = "4")]
    pub ranges: Vec<u64>,
    /// True to request the records instead of digests.
    #[prost(bool, tag = "5")]
    pub records: bool,
    /// Id of the other cluster, 16 bytes.
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub other: Option<Bytes>,
    /// True to ignore stale queues for that cluster.
    #[prost(bool, tag = "7")]
    pub is_rebase: bool,
}

/// Digests of the node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DigestsRead {
    /// A digest of each range, over all n_val classes.
    #[prost(fixed64, repeated, tag = "1")]
    pub digests: Vec<u64>,
    /// Records of all ranges.
    #[prost(message, repeated, tag = "2")]
    pub records: Vec<RecordDigest>,
    /// Name of a stale queue for the other cluster; the answer then has neither digests nor
    /// records.
    #[prost(string, optional, tag = "3")]
    pub stale_queue: Option<String>,
}

/// A record.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RecordDigest {
    /// Name, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Digest of the record.
    #[prost(fixed64, tag = "2")]
    pub digest: u64,
    /// True for a tombstone.
    #[prost(bool, tag = "3")]
    pub tombstone: bool,
    /// Clock of the record, as a context for clients.
    #[prost(bytes = "bytes", tag = "4")]
    pub clock: Bytes,
    /// Time of the last write in microseconds since 1970.
    #[prost(uint64, tag = "5")]
    pub modified_us: u64,
}
