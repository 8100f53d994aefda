//! Messages of transfers, by which the records of a partition move to other nodes.
//!
//! The sender offers records by name and digest, and then delivers those that the receiver lacks.
//! Either answer means that the receiver has the records on disk, so that the sender may remove its
//! own.

use bytes::Bytes;

/// Offers records of a partition: [`Offer`] -> [`Offered`].
pub const METHOD_OFFER: u16 = 0x0110;
/// Delivers records of a partition: [`Deliver`] -> [`Delivered`].
pub const METHOD_DELIVER: u16 = 0x0111;
/// Announces that the receiver has all records of a partition that the sender had: [`Complete`] ->
/// [`Completed`].
pub const METHOD_COMPLETE: u16 = 0x0112;

/// Offers records of a partition.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Offer {
    /// The partition.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// Version of the oldest live layout that the sender knows.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
    /// Names of the records, encoded.
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub keys: Vec<Bytes>,
    /// Digests of their objects, in the same order.
    #[prost(fixed64, repeated, tag = "4")]
    pub digests: Vec<u64>,
    /// True if the sender's transfers run at their minimum rate.
    #[prost(bool, tag = "5")]
    pub is_minimum_rate: bool,
    /// Clocks of the objects in the same order, each encoded as an object without values. An empty
    /// clock means that the receiver must not decide by it. The list is empty if the receiver
    /// probably has nothing newer.
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub clocks: Vec<Bytes>,
}

/// The offered records that the receiver wants. The others, or newer versions of them, are on its
/// disk.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Offered {
    /// Bit set over the offered records, lowest bit first: set if the record is wanted.
    #[prost(bytes = "bytes", tag = "1")]
    pub wanted: Bytes,
    /// Latency of clients' requests at the receiver, in percent of the tolerable one; 0 if unknown.
    #[prost(uint32, tag = "2")]
    pub pressure_percent: u32,
}

/// A delivered record. Its object is a part of the payload.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DeliveredRecord {
    /// Name of the record, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Digest of the object.
    #[prost(fixed64, tag = "2")]
    pub digest: u64,
    /// True if the object is a tombstone.
    #[prost(bool, tag = "3")]
    pub tombstone: bool,
    /// Number of replicas of the record's bucket, capped at 15.
    #[prost(uint32, tag = "4")]
    pub n_val_class: u32,
    /// Time at which the object expires, in seconds since 1970; 0 for never.
    #[prost(uint32, tag = "5")]
    pub expires_at_secs: u32,
    /// Rule for the merge with the stored object: a `MergeRule`.
    #[prost(enumeration = "super::data::MergeRule", tag = "6")]
    pub rule: i32,
    /// Size of the object in the payload, in bytes.
    #[prost(uint32, tag = "7")]
    pub size_bytes: u32,
    /// True if the object has index entries.
    #[prost(bool, tag = "8")]
    pub indexed: bool,
}

/// Delivers records of a partition. The payload has their objects one after the other.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Deliver {
    /// The partition.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// Version of the oldest live layout that the sender knows.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
    /// The records.
    #[prost(message, repeated, tag = "3")]
    pub records: Vec<DeliveredRecord>,
    /// True if the sender's transfers run at their minimum rate.
    #[prost(bool, tag = "4")]
    pub is_minimum_rate: bool,
}

/// The delivered records are on the receiver's disk, merged with what was there.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Delivered {
    /// Latency of clients' requests at the receiver, in percent of the tolerable one; 0 if unknown.
    #[prost(uint32, tag = "1")]
    pub pressure_percent: u32,
}

/// The sender has handed over all records of a partition.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Complete {
    /// The partition.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// Version of the layout for which the receiver gets the partition.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
    /// Number of the loss after which the receiver gets the partition; 0 if the receiver has lost
    /// nothing.
    #[prost(uint64, tag = "3")]
    pub loss: u64,
}

/// Answer to [`Complete`].
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Completed {
    /// True if the receiver serves with that layout already; otherwise the sender has to announce
    /// it again.
    #[prost(bool, tag = "1")]
    pub noted: bool,
}
