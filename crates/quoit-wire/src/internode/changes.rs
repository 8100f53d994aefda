//! Messages by which a node reads the change feed of a bucket from other nodes.

use bytes::Bytes;

/// Requests the next writes that the receiver has coordinated: [`ReadChanges`] -> [`ChangesRead`].
pub const METHOD_ASK_CHANGES: u16 = 0x0180;

/// Position at which a reader of a node's change log continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ChangesFrom {
    /// The oldest write that is kept.
    Oldest = 0,
    /// The first write at or after a time.
    Time = 1,
    /// A position in the log.
    Place = 2,
}

/// A position in the change log of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
pub struct ChangesPlace {
    /// Id of the log. A node that has lost its log has another one afterwards.
    #[prost(fixed64, tag = "1")]
    pub log: u64,
    /// Number of the file.
    #[prost(uint32, tag = "2")]
    pub file: u32,
    /// Offset in the file, in bytes.
    #[prost(uint64, tag = "3")]
    pub offset: u64,
}

/// Requests writes of a bucket from a node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadChanges {
    /// Bucket type.
    #[prost(bytes = "bytes", tag = "1")]
    pub bucket_type: Bytes,
    /// Bucket.
    #[prost(bytes = "bytes", tag = "2")]
    pub bucket: Bytes,
    /// Prefix of the wanted keys; empty for all.
    #[prost(bytes = "bytes", tag = "3")]
    pub prefix: Bytes,
    /// Place at which to continue: a [`ChangesFrom`].
    #[prost(enumeration = "ChangesFrom", tag = "4")]
    pub from: i32,
    /// The place, for [`ChangesFrom::Place`].
    #[prost(message, optional, tag = "5")]
    pub place: Option<ChangesPlace>,
    /// The time in microseconds since 1970, for [`ChangesFrom::Time`].
    #[prost(uint64, tag = "6")]
    pub since_us: u64,
}

/// Writes that a node has coordinated.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ChangesRead {
    /// Reason for which writes are missing, for people: the place no longer exists, or the node
    /// keeps no change log. Empty otherwise.
    #[prost(string, tag = "1")]
    pub gap: String,
    /// Place at which the reader continues. If there is a gap, it is after the gap.
    #[prost(message, optional, tag = "2")]
    pub next: Option<ChangesPlace>,
    /// Writes, in the order in which the node made them.
    #[prost(message, repeated, tag = "3")]
    pub changes: Vec<FeedChange>,
    /// True if the log has no more writes.
    #[prost(bool, tag = "4")]
    pub at_end: bool,
    /// No later write has this time or an earlier one. Microseconds since 1970.
    #[prost(uint64, tag = "5")]
    pub complete_us: u64,
    /// Place at which the node began to read.
    #[prost(message, optional, tag = "6")]
    pub begin: Option<ChangesPlace>,
}

/// A write.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FeedChange {
    /// Key.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// True if the record was deleted.
    #[prost(bool, tag = "2")]
    pub is_delete: bool,
    /// Clock of the record after the write, as a context for clients; empty if clients get none.
    #[prost(bytes = "bytes", tag = "3")]
    pub context: Bytes,
    /// Time of the write in microseconds since 1970. Two writes of a node have different times.
    #[prost(uint64, tag = "4")]
    pub time_us: u64,
    /// File of the place after this write.
    #[prost(uint32, tag = "5")]
    pub file: u32,
    /// Offset of the place after this write.
    #[prost(uint64, tag = "6")]
    pub offset: u64,
}
