//! Messages by which tombstones that all primaries hold are removed, and reap records get to new primaries
//! and are forgotten.
//!
//! One message carries many tombstones: the node that has them reaped first has each primary hold them, then
//! has those removed that all of them hold.

use bytes::Bytes;

/// Has a primary hold tombstones, on its disk: [`Hold`] -> [`Agreed`].
pub const METHOD_HOLD: u16 = 0x0121;

/// Has a primary reap tombstones: [`Reap`] -> [`Agreed`].
pub const METHOD_REAP: u16 = 0x0122;

/// Brings reap records to a new primary: [`TakeReaped`] -> [`ReapedTaken`].
pub const METHOD_TAKE_REAPED: u16 = 0x0123;

/// Asks what a member may hold outside the primaries: [`AskUnsettled`] -> [`Unsettled`].
pub const METHOD_ASK_UNSETTLED: u16 = 0x0124;

/// A tombstone as its primaries should hold it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Tombstone {
    /// Name of the record, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Partition of the record.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// Digest of the tombstone.
    #[prost(fixed64, tag = "3")]
    pub digest: u64,
    /// The tombstone in its stored form; only to be held.
    #[prost(bytes = "bytes", tag = "4")]
    pub object: Bytes,
}

/// Tombstones that the receiver is to hold as a primary: those that it has nothing instead of as reap
/// records.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Hold {
    /// The oldest live layout that the sender knows.
    #[prost(uint64, tag = "1")]
    pub layout_version: u64,
    /// The tombstones.
    #[prost(message, repeated, tag = "2")]
    pub tombstones: Vec<Tombstone>,
}

/// Tombstones that the receiver is to reap as a primary: all primaries hold them.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Reap {
    /// The oldest live layout that the sender knows.
    #[prost(uint64, tag = "1")]
    pub layout_version: u64,
    /// The tombstones.
    #[prost(message, repeated, tag = "2")]
    pub tombstones: Vec<Tombstone>,
}

/// Which tombstones are as they were asked to be.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Agreed {
    /// A bit for each, lowest bit first: it is on the disk, or after a removal it is gone.
    #[prost(bytes = "bytes", tag = "1")]
    pub agreed: Bytes,
}

/// Reap records of a partition of which the receiver becomes a primary.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TakeReaped {
    /// The oldest live layout that the sender knows.
    #[prost(uint64, tag = "1")]
    pub layout_version: u64,
    /// The records, with their tombstones.
    #[prost(message, repeated, tag = "2")]
    pub records: Vec<Tombstone>,
}

/// The reap records are on the receiver's disk, and what they cover is gone from it.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ReapedTaken {}

/// Asks what the receiver may hold outside the primaries.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AskUnsettled {
    /// The number of the answer since which the sender wants to know it; 0: of this moment alone.
    #[prost(uint64, tag = "1")]
    pub since: u64,
}

/// Where the receiver may hold something outside the primaries.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Unsettled {
    /// Random number of the receiver's process.
    #[prost(fixed64, tag = "1")]
    pub process: u64,
    /// Number of this answer, from 1 on.
    #[prost(uint64, tag = "2")]
    pub number: u64,
    /// Version of the control plane's state by which the receiver tells strays from other records.
    #[prost(uint64, tag = "3")]
    pub state_version: u64,
    /// Partitions in which it may hold strays, hints or records on their way to others, or may have since the
    /// answer that was named.
    #[prost(uint32, repeated, tag = "4")]
    pub partitions: Vec<u32>,
    /// The receiver's clock, microseconds since 1970.
    #[prost(fixed64, tag = "5")]
    pub now_us: u64,
    /// Since when other clusters may not know of deletes, by its source queues and that clock.
    #[prost(fixed64, optional, tag = "6")]
    pub links_behind_us: Option<u64>,
}
