//! Messages by which two copies of a large set or map become equal without being sent whole.
//!
//! Two nodes compare digests of ranges of the hashes of items. The one reads, as of one moment, what the
//! other has in the ranges that differ, and the sum of its other digests; and it tells the other what it has
//! in them itself by then. Items travel as an object (the payload) whose state is without the others.
//!
//! Ranges are numbered as the nodes of a binary tree are: all hashes are 1, the halves of range `n` are `2 n`
//! and `2 n + 1`. They are in the order of their hashes, and none overlaps another.

use bytes::Bytes;

/// Compares ranges of two copies: [`CompareRanges`] -> [`RangesCompared`].
pub const METHOD_COMPARE_RANGES: u16 = 0x0140;
/// Reads the items of some ranges: [`ReadRanges`] -> [`RangesRead`].
pub const METHOD_READ_RANGES: u16 = 0x0141;
/// Merges the items of some ranges: [`TakeRanges`] -> [`RangesTaken`].
pub const METHOD_TAKE_RANGES: u16 = 0x0142;

/// A record, and ranges of its items.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RangesOf {
    /// Name of the record, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Partition of the record.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// The oldest live layout that the sender knows.
    #[prost(uint64, tag = "3")]
    pub layout_version: u64,
    /// The ranges.
    #[prost(uint64, repeated, tag = "4")]
    pub ranges: Vec<u64>,
    /// Fields of which not all is meant, but only ranges of their items, those of fields around first. Where
    /// ranges are compared, they are those of the record or of one field.
    #[prost(message, repeated, tag = "5")]
    pub fields: Vec<RangesInField>,
}

/// Ranges of the items of a field.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RangesInField {
    /// The field and those around it, the outermost first.
    #[prost(message, repeated, tag = "1")]
    pub path: Vec<FieldStep>,
    /// The ranges.
    #[prost(uint64, repeated, tag = "2")]
    pub ranges: Vec<u64>,
}

/// A field of a map.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FieldStep {
    /// Its name.
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    /// Its kind: 0 counter, 1 set, 2 register, 3 flag, 4 map.
    #[prost(uint32, tag = "2")]
    pub kind: u32,
}

/// Compares ranges with those of the sender's copy.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CompareRanges {
    /// Which.
    #[prost(message, required, tag = "1")]
    pub of: RangesOf,
    /// Their digests in the sender's copy.
    #[prost(fixed64, repeated, tag = "2")]
    pub digests: Vec<u64>,
}

/// Which ranges differ.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RangesCompared {
    /// Places of those that differ, among those that were asked for.
    #[prost(uint32, repeated, tag = "1")]
    pub differing: Vec<u32>,
    /// For each of them, the number of items that the receiver has there.
    #[prost(uint64, repeated, tag = "2")]
    pub item_counts: Vec<u64>,
}

/// Reads the items of some ranges.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadRanges {
    /// Which.
    #[prost(message, required, tag = "1")]
    pub of: RangesOf,
}

/// The items of some ranges, which are the payload.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RangesRead {
    /// Sum of the digests of all other items.
    #[prost(fixed64, tag = "1")]
    pub rest: u64,
}

/// Merges the items of some ranges, which are the payload.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TakeRanges {
    /// Which.
    #[prost(message, required, tag = "1")]
    pub of: RangesOf,
    /// Sum of the digests of all other items.
    #[prost(fixed64, tag = "2")]
    pub rest: u64,
}

/// Result of taking items of ranges.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RangesTaken {
    /// Whether the two copies differ elsewhere by now, so that nothing was merged: compare again.
    #[prost(bool, tag = "1")]
    pub is_stale: bool,
}
