//! Messages of an exchange, by which two nodes find the differences between their copies of
//! partitions.
//!
//! 1. [`Compare`] compares the digests of whole partitions.
//! 2. [`Descend`] compares digests of ever smaller ranges of hashes within the partitions that
//!    differ, and finally tags and states of single records.
//! 3. The node that began the exchange fetches records that differ with [`Pull`], or delivers its
//!    own as in transfers.
//!
//! Digests of ranges and states of records are salted and cut to 32 bits, to keep the messages
//! small. A difference that one exchange overlooks is found by a later one, which uses another
//! salt.
//!
//! The n_val class of a record is the number of replicas of its bucket, capped at 15. A tag is the
//! highest 40 bits of a record's identity hash. Ranges of hashes are numbered as the nodes of a
//! binary tree: number 1 has all hashes, and the halves of range `n` are `2 n` and `2 n + 1`.

use super::transfer::DeliveredRecord;
use bytes::Bytes;

/// Compares digests of partitions: [`Compare`] -> [`Compared`].
pub const METHOD_COMPARE: u16 = 0x0130;
/// Compares ranges and records of partitions: [`Descend`] -> [`Descended`].
pub const METHOD_DESCEND: u16 = 0x0131;
/// Fetches records that differ: [`Pull`] -> [`Pulled`].
pub const METHOD_PULL: u16 = 0x0132;

/// Compares digests of partitions.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Compare {
    /// Version of the newest layout that the sender knows.
    #[prost(uint64, tag = "1")]
    pub layout_version: u64,
    /// First hour since 1970 that is compared: records that expire before it are left out.
    #[prost(uint32, tag = "2")]
    pub hour_min: u32,
    /// The partitions.
    #[prost(uint32, repeated, tag = "3")]
    pub partitions: Vec<u32>,
    /// For each partition, a bit set of the n_val classes that have a digest here. The digest of
    /// any other class is zero.
    #[prost(uint32, repeated, tag = "4")]
    pub classes: Vec<u32>,
    /// The digests: for each partition, in the order of its classes.
    #[prost(fixed64, repeated, tag = "5")]
    pub digests: Vec<u64>,
}

/// Partitions that differ.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Compared {
    /// For each requested partition, a bit set of the n_val classes that differ.
    #[prost(uint32, repeated, tag = "1")]
    pub differing: Vec<u32>,
    /// Indexes of the requested partitions that the receiver can't compare, because it has no
    /// complete copy by its layout.
    #[prost(uint32, repeated, tag = "2")]
    pub not_comparable: Vec<u32>,
}

/// Ranges and records of one n_val class of a partition.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Ranges {
    /// The partition.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// The n_val class.
    #[prost(uint32, tag = "2")]
    pub n_val_class: u32,
    /// Ranges whose parts are compared.
    #[prost(uint64, repeated, tag = "3")]
    pub split: Vec<u64>,
    /// Salted digests of the parts, 16 for each range.
    #[prost(fixed32, repeated, tag = "4")]
    pub parts: Vec<u32>,
    /// Ranges whose records are compared.
    #[prost(uint64, repeated, tag = "5")]
    pub listed: Vec<u64>,
    /// Number of tags in each of these ranges.
    #[prost(uint32, repeated, tag = "6")]
    pub counts: Vec<u32>,
    /// The tags in ascending order. Each is encoded as twice its distance from the previous tag,
    /// plus one if any record with the tag is not a tombstone. Distances begin at 0 in each range.
    #[prost(uint64, repeated, tag = "7")]
    pub tags: Vec<u64>,
    /// State of the records of each tag: the sum of their salted digests.
    #[prost(fixed32, repeated, tag = "8")]
    pub states: Vec<u32>,
}

/// Compares ranges and records.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Descend {
    /// Version of the newest layout that the sender knows.
    #[prost(uint64, tag = "1")]
    pub layout_version: u64,
    /// As in [`Compare`].
    #[prost(uint32, tag = "2")]
    pub hour_min: u32,
    /// Salt of the digests.
    #[prost(fixed64, tag = "3")]
    pub salt: u64,
    /// Ranges to compare.
    #[prost(message, repeated, tag = "4")]
    pub ranges: Vec<Ranges>,
}

/// Differences among [`Ranges`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Differences {
    /// For each range whose parts were compared, a bit set of the parts that differ, lowest bit
    /// first.
    #[prost(uint32, repeated, tag = "1")]
    pub parts: Vec<u32>,
    /// Indexes of the listed ranges with too many records on the receiver; the sender has to split
    /// them.
    #[prost(uint32, repeated, tag = "2")]
    pub overfull: Vec<u32>,
    /// Number of tags that differ in each of the listed ranges.
    #[prost(uint32, repeated, tag = "3")]
    pub counts: Vec<u32>,
    /// The tags that differ, encoded as in [`Ranges::tags`].
    #[prost(uint64, repeated, tag = "4")]
    pub tags: Vec<u64>,
    /// State of the receiver's records of each tag; 0 if it has none.
    #[prost(fixed32, repeated, tag = "5")]
    pub states: Vec<u32>,
}

/// Answer to [`Descend`]: the ranges that differ.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Descended {
    /// The differences of each element of [`Descend::ranges`].
    #[prost(message, repeated, tag = "1")]
    pub differences: Vec<Differences>,
}

/// A record of the sender, of which the receiver may have another version.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KnownRecord {
    /// Name of the record, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Digest of the object.
    #[prost(fixed64, tag = "2")]
    pub digest: u64,
    /// The object's clock, as a context.
    #[prost(bytes = "bytes", tag = "3")]
    pub clock: Bytes,
}

/// Fetches records of a partition that the sender lacks, or of which it has another version.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Pull {
    /// The partition.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// Version of the newest layout that the sender knows.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
    /// Tags of the records to fetch, as in [`Ranges::tags`] but without the lowest bit.
    #[prost(uint64, repeated, tag = "3")]
    pub tags: Vec<u64>,
    /// Records of these tags that the sender has.
    #[prost(message, repeated, tag = "4")]
    pub known: Vec<KnownRecord>,
    /// True to fetch tombstones of which the sender has no record either, because it has lost
    /// records.
    #[prost(bool, tag = "5")]
    pub with_tombstones: bool,
}

/// The fetched records; their objects follow each other in the payload.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Pulled {
    /// Records that the requester lacks, or of which it has an older or concurrent version.
    #[prost(message, repeated, tag = "1")]
    pub records: Vec<DeliveredRecord>,
    /// Indexes of the records in [`Pull::known`] that the receiver lacks, or of which it has an
    /// older version.
    #[prost(uint32, repeated, tag = "2")]
    pub wanted: Vec<u32>,
    /// Number of tags that this answers; the requester has to ask again for the others.
    #[prost(uint32, tag = "3")]
    pub tag_count: u32,
}
