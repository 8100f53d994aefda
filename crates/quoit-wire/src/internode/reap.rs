//! Messages by which tombstones are reaped, and by which reap records reach new primaries and are
//! deleted.
//!
//! 1. A node that wants tombstones reaped makes each primary hold them on its disk ([`HoldTombstones`]).
//! 2. It makes each primary remove the tombstones that all of them hold ([`Reap`]). A primary keeps
//!    a reap record of each.
//! 3. Reap records of a partition go to its new primaries ([`TakeReaped`]). They are deleted once
//!    no member can hold older copies of the records ([`AskUnsettled`]).
//!
//! One message carries many tombstones.

use bytes::Bytes;

/// Makes a primary hold tombstones on its disk: [`HoldTombstones`] -> [`HeldTombstones`].
pub const METHOD_HOLD: u16 = 0x0121;

/// Makes a primary reap tombstones: [`Reap`] -> [`HeldTombstones`].
pub const METHOD_REAP: u16 = 0x0122;

/// Brings reap records to a new primary: [`TakeReaped`] -> [`ReapedTaken`].
pub const METHOD_TAKE_REAPED: u16 = 0x0123;

/// Asks for partitions of which the receiver may have records outside the primaries:
/// [`AskUnsettled`] -> [`UnsettledPartitions`].
pub const METHOD_ASK_UNSETTLED: u16 = 0x0124;

/// A tombstone that its primaries should hold.
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
    /// Stored form of the tombstone; only in [`HoldTombstones`].
    #[prost(bytes = "bytes", tag = "4")]
    pub object: Bytes,
}

/// Tombstones that the receiver is to hold as a primary. If it has no record of that name, it keeps
/// a reap record instead.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HoldTombstones {
    /// Version of the oldest live layout that the sender knows.
    #[prost(uint64, tag = "1")]
    pub layout_version: u64,
    /// The tombstones.
    #[prost(message, repeated, tag = "2")]
    pub tombstones: Vec<Tombstone>,
}

/// Tombstones that the receiver is to reap as a primary, since all primaries hold them.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Reap {
    /// Version of the oldest live layout that the sender knows.
    #[prost(uint64, tag = "1")]
    pub layout_version: u64,
    /// The tombstones.
    #[prost(message, repeated, tag = "2")]
    pub tombstones: Vec<Tombstone>,
}

/// Tombstones that the receiver holds, or has removed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HeldTombstones {
    /// Bit set over the tombstones of the request, lowest bit first: set if it is on the disk or,
    /// after [`Reap`], removed.
    #[prost(bytes = "bytes", tag = "1")]
    pub agreed: Bytes,
}

/// Reap records of a partition of which the receiver becomes a primary.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TakeReaped {
    /// Version of the oldest live layout that the sender knows.
    #[prost(uint64, tag = "1")]
    pub layout_version: u64,
    /// The reap records, with their tombstones.
    #[prost(message, repeated, tag = "2")]
    pub records: Vec<Tombstone>,
}

/// The reap records are on the receiver's disk, and the records that they cover were removed.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ReapedTaken {}

/// Asks for partitions of which the receiver may have records outside the primaries.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AskUnsettled {
    /// Number of the earlier answer since which the sender asks; 0 to ask about this moment alone.
    #[prost(uint64, tag = "1")]
    pub since: u64,
}

/// Partitions of which the receiver may have records outside the primaries.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UnsettledPartitions {
    /// Random id of the receiver's process.
    #[prost(fixed64, tag = "1")]
    pub process: u64,
    /// Number of this answer, from 1.
    #[prost(uint64, tag = "2")]
    pub number: u64,
    /// Version of the control plane's state by which the receiver identifies strays.
    #[prost(uint64, tag = "3")]
    pub state_version: u64,
    /// Partitions in which the receiver may have strays, hints or records in transfer, or may have
    /// had them since the named answer.
    #[prost(uint32, repeated, tag = "4")]
    pub partitions: Vec<u32>,
    /// The receiver's clock in microseconds since 1970.
    #[prost(fixed64, tag = "5")]
    pub now_us: u64,
    /// Time by that clock since which other clusters possibly miss deletes, according to the
    /// receiver's source queues; absent if they know all.
    #[prost(fixed64, optional, tag = "6")]
    pub links_behind_us: Option<u64>,
}
