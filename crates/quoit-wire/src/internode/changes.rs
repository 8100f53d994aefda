//! Messages by which a node reads the change feed of a bucket from the others.

use bytes::Bytes;

/// Asks for the next writes that the receiver has coordinated: [`AskChanges`] -> [`ToldChanges`].
pub const METHOD_ASK_CHANGES: u16 = 0x0180;

/// Where a reader of a node's log goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ChangesFrom {
    /// With the oldest write that is kept.
    Oldest = 0,
    /// With the writes from a time on.
    Time = 1,
    /// At a place.
    Place = 2,
}

/// A place in the log of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
pub struct ChangesPlace {
    /// The log; another one when the node has lost what it had.
    #[prost(fixed64, tag = "1")]
    pub log: u64,
    /// Number of the file.
    #[prost(uint32, tag = "2")]
    pub file: u32,
    /// Offset in the file.
    #[prost(uint64, tag = "3")]
    pub offset: u64,
}

/// Asks a node for writes of a bucket.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AskChanges {
    /// Bucket type.
    #[prost(bytes = "bytes", tag = "1")]
    pub bucket_type: Bytes,
    /// Bucket.
    #[prost(bytes = "bytes", tag = "2")]
    pub bucket: Bytes,
    /// Only keys that begin so.
    #[prost(bytes = "bytes", tag = "3")]
    pub prefix: Bytes,
    /// Where to go on.
    #[prost(enumeration = "ChangesFrom", tag = "4")]
    pub from: i32,
    /// The place, if that is where.
    #[prost(message, optional, tag = "5")]
    pub place: Option<ChangesPlace>,
    /// The time, if that is where, microseconds since 1970.
    #[prost(uint64, tag = "6")]
    pub since_us: u64,
}

/// The writes of a node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ToldChanges {
    /// Why there are none, in words: the place is gone, or the node keeps no writes. Empty otherwise.
    #[prost(string, tag = "1")]
    pub gap: String,
    /// Where the reader goes on; behind a gap, if there is one.
    #[prost(message, optional, tag = "2")]
    pub next: Option<ChangesPlace>,
    /// Writes, in the order in which the node has made them.
    #[prost(message, repeated, tag = "3")]
    pub changes: Vec<ToldChange>,
    /// Whether these are all.
    #[prost(bool, tag = "4")]
    pub at_end: bool,
    /// No later write has this time or an earlier one, microseconds since 1970.
    #[prost(uint64, tag = "5")]
    pub complete_us: u64,
    /// Where the node has begun to read.
    #[prost(message, optional, tag = "6")]
    pub begin: Option<ChangesPlace>,
}

/// A write.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ToldChange {
    /// Key.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Whether the record was deleted.
    #[prost(bool, tag = "2")]
    pub is_delete: bool,
    /// The clock of the record afterwards, as clients get it; empty where they get none.
    #[prost(bytes = "bytes", tag = "3")]
    pub context: Bytes,
    /// When, microseconds since 1970. No two writes of a node have the same time.
    #[prost(uint64, tag = "4")]
    pub time_us: u64,
    /// The file of the place behind it.
    #[prost(uint32, tag = "5")]
    pub file: u32,
    /// The offset of the place behind it.
    #[prost(uint64, tag = "6")]
    pub offset: u64,
}
