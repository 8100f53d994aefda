//! Messages by which partitions change their nodes.
//!
//! The sender first offers records by name and digest, then delivers those that the receiver lacks. Both
//! answers mean that the receiver has the records on disk, so that the sender may remove its own.

use bytes::Bytes;

/// Offers records of a partition: [`Offer`] -> [`Offered`].
pub const METHOD_OFFER: u16 = 0x0110;
/// Delivers records of a partition: [`Deliver`] -> [`Delivered`].
pub const METHOD_DELIVER: u16 = 0x0111;
/// Says that the receiver has got all records of a partition that the sender had: [`Complete`] ->
/// [`Completed`].
pub const METHOD_COMPLETE: u16 = 0x0112;

/// Offers records of a partition.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Offer {
    /// The partition.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// The oldest live layout that the sender knows.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
    /// Names of the records, encoded.
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub keys: Vec<Bytes>,
    /// Digests of their objects, in the same order.
    #[prost(fixed64, repeated, tag = "4")]
    pub digests: Vec<u64>,
    /// Whether the sender's transfers do the least that they may.
    #[prost(bool, tag = "5")]
    pub is_least: bool,
    /// Clocks of their objects, in the same order, each as an object without values; empty where what is
    /// there may not be judged by it. None at all where the receiver is likely to have nothing newer.
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub clocks: Vec<Bytes>,
}

/// Which of the offered records are wanted. The others, or what replaces them, are on the receiver's disk.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Offered {
    /// A bit for each record, lowest bit first: whether it is wanted.
    #[prost(bytes = "bytes", tag = "1")]
    pub wanted: Bytes,
    /// How long clients' requests take at the receiver, in percent of what is tolerable; 0 = not known.
    #[prost(uint32, tag = "2")]
    pub pressure_percent: u32,
}

/// A record that is delivered; its object is a piece of the payload.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DeliveredRecord {
    /// Name of the record, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Digest of the object.
    #[prost(fixed64, tag = "2")]
    pub digest: u64,
    /// Whether the object is a tombstone.
    #[prost(bool, tag = "3")]
    pub tombstone: bool,
    /// Number of replicas of the record's bucket, capped at 15.
    #[prost(uint32, tag = "4")]
    pub n_val_class: u32,
    /// When the object expires, seconds since 1970; 0 = never.
    #[prost(uint32, tag = "5")]
    pub expires_at_secs: u32,
    /// How the object becomes one with what is there: a `MergeRule`.
    #[prost(enumeration = "super::data::MergeRule", tag = "6")]
    pub rule: i32,
    /// Size of the object in the payload.
    #[prost(uint32, tag = "7")]
    pub size_bytes: u32,
    /// Whether the object has index entries.
    #[prost(bool, tag = "8")]
    pub indexed: bool,
}

/// Delivers records of a partition. The payload holds their objects one after another.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Deliver {
    /// The partition.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// The oldest live layout that the sender knows.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
    /// The records.
    #[prost(message, repeated, tag = "3")]
    pub records: Vec<DeliveredRecord>,
    /// Whether the sender's transfers do the least that they may.
    #[prost(bool, tag = "4")]
    pub is_least: bool,
}

/// The delivered records are on the receiver's disk, merged with what was there.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Delivered {
    /// How long clients' requests take at the receiver, in percent of what is tolerable; 0 = not known.
    #[prost(uint32, tag = "1")]
    pub pressure_percent: u32,
}

/// The sender has handed over all records of a partition.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Complete {
    /// The partition.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// The layout for which the receiver gets the partition.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
    /// Number of the loss after which it gets it; 0 = it has lost nothing.
    #[prost(uint64, tag = "3")]
    pub loss: u64,
}

/// The receiver has taken note.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Completed {
    /// Whether it serves with that layout already; if not, it has to be told again.
    #[prost(bool, tag = "1")]
    pub noted: bool,
}
