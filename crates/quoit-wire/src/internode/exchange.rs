//! Messages by which two nodes find out what their copies of partitions differ in.
//!
//! First the digests of whole partitions are compared, then those of ever smaller ranges of hashes of the
//! partitions that differ, then tags and states of single records. Records that differ are pulled, or
//! delivered as in transfers. Everything here is smaller than what it saves: states and digests of ranges are
//! cut to 32 bits and salted, so that what one exchange overlooks is found by the next.
//!
//! The n_val class of a record is the number of replicas of its bucket, capped at 15. Tags are the highest
//! 40 bits of a record's identity. Ranges of hashes are numbered as the nodes of a binary tree are: all
//! hashes are 1, the halves of range `n` are `2 n` and `2 n + 1`.

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
    /// The newest layout that the sender knows.
    #[prost(uint64, tag = "1")]
    pub layout_version: u64,
    /// The hour, counted from 1970, from which on what expires is compared.
    #[prost(uint32, tag = "2")]
    pub hour_min: u32,
    /// The partitions.
    #[prost(uint32, repeated, tag = "3")]
    pub partitions: Vec<u32>,
    /// For each partition, which n_val classes have a digest here, as bits. The others have none: zero.
    #[prost(uint32, repeated, tag = "4")]
    pub classes: Vec<u32>,
    /// The digests, of each partition in the order of its classes.
    #[prost(fixed64, repeated, tag = "5")]
    pub digests: Vec<u64>,
}

/// Which partitions differ.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Compared {
    /// For each partition that was asked for, the n_val classes that differ, as bits.
    #[prost(uint32, repeated, tag = "1")]
    pub differing: Vec<u32>,
    /// Places, among the partitions that were asked for, of those that the receiver can't compare: by its
    /// layout it has no complete copy.
    #[prost(uint32, repeated, tag = "2")]
    pub passed_over: Vec<u32>,
}

/// Ranges and records of one class of a partition.
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
    /// Digests of their parts, 16 for each, salted.
    #[prost(fixed32, repeated, tag = "4")]
    pub parts: Vec<u32>,
    /// Ranges whose records are compared.
    #[prost(uint64, repeated, tag = "5")]
    pub listed: Vec<u64>,
    /// Number of tags in each of them.
    #[prost(uint32, repeated, tag = "6")]
    pub counts: Vec<u32>,
    /// Their tags in ascending order, each as twice its distance from the one before, and one more if any of
    /// its records is no tombstone. Distances begin anew, at 0, with each range.
    #[prost(uint64, repeated, tag = "7")]
    pub tags: Vec<u64>,
    /// State of the records of each tag: the sum of their salted digests.
    #[prost(fixed32, repeated, tag = "8")]
    pub states: Vec<u32>,
}

/// Compares ranges and records.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Descend {
    /// The newest layout that the sender knows.
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
    /// For each range whose parts were compared, the parts that differ, lowest bit first.
    #[prost(uint32, repeated, tag = "1")]
    pub parts: Vec<u32>,
    /// Places, among the listed ranges, of those that have too many records here: they have to be split.
    #[prost(uint32, repeated, tag = "2")]
    pub crowded: Vec<u32>,
    /// Number of tags that differ in each of the listed ranges.
    #[prost(uint32, repeated, tag = "3")]
    pub counts: Vec<u32>,
    /// These tags, as in [`Ranges::tags`].
    #[prost(uint64, repeated, tag = "4")]
    pub tags: Vec<u64>,
    /// State of the receiver's records of each tag; 0 where it has none.
    #[prost(fixed32, repeated, tag = "5")]
    pub states: Vec<u32>,
}

/// Answer to [`Descend`]: the ranges that differ.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Descended {
    /// For each element of [`Descend::ranges`].
    #[prost(message, repeated, tag = "1")]
    pub differences: Vec<Differences>,
}

/// A record that the sender has, and the receiver may have otherwise.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Known {
    /// Name of the record, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Digest of the object.
    #[prost(fixed64, tag = "2")]
    pub digest: u64,
    /// The object's clock, in the form of a context.
    #[prost(bytes = "bytes", tag = "3")]
    pub clock: Bytes,
}

/// Fetches records of a partition that the sender lacks, or has otherwise.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Pull {
    /// The partition.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// The newest layout that the sender knows.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
    /// Tags whose records are fetched, as in [`Ranges::tags`] without the bit.
    #[prost(uint64, repeated, tag = "3")]
    pub tags: Vec<u64>,
    /// Records that the sender has of these tags.
    #[prost(message, repeated, tag = "4")]
    pub known: Vec<Known>,
    /// Whether tombstones are fetched of which the sender knows nothing: it has lost what it had.
    #[prost(bool, tag = "5")]
    pub with_tombstones: bool,
}

/// The records that were fetched; their objects follow each other in the payload.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Pulled {
    /// Records that the sender of the request lacks, or has an older or a concurrent version of.
    #[prost(message, repeated, tag = "1")]
    pub records: Vec<DeliveredRecord>,
    /// Places, among what the sender knows, of what is newer there than here, or is not here.
    #[prost(uint32, repeated, tag = "2")]
    pub wanted: Vec<u32>,
    /// Number of the tags that this answers; the others have to be asked for again.
    #[prost(uint32, tag = "3")]
    pub tag_count: u32,
}
