//! Messages by which two copies of a large set or map become equal without sending all items.
//!
//! Two nodes compare digests of ranges of item hashes. One of them then reads the other's items in
//! the ranges that differ, as of one moment, with the sum of the digests of all its other items;
//! and it sends its own items of these ranges in the same way. Items travel as an object (the
//! payload) whose state has only these items.
//!
//! Ranges are numbered as the nodes of a binary tree: number 1 has all hashes, and the halves of
//! range `n` are `2 n` and `2 n + 1`. They are in the order of their hashes and do not overlap.

use bytes::Bytes;

/// Compares ranges of two copies: [`CompareRanges`] -> [`RangesCompared`].
pub const METHOD_COMPARE_RANGES: u16 = 0x0140;
/// Reads the items of some ranges: [`ReadRanges`] -> [`RangesRead`].
pub const METHOD_READ_RANGES: u16 = 0x0141;
/// Merges the items of some ranges: [`TakeRanges`] -> [`RangesTaken`].
pub const METHOD_TAKE_RANGES: u16 = 0x0142;

/// Ranges of a record's items.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RecordRanges {
    /// Name of the record, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Partition of the record.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// Version of the oldest live layout that the sender knows.
    #[prost(uint64, tag = "3")]
    pub layout_version: u64,
    /// The ranges.
    #[prost(uint64, repeated, tag = "4")]
    pub ranges: Vec<u64>,
    /// Fields that are narrowed to ranges of their items, enclosing fields first. In a comparison,
    /// all ranges belong to the record or to one field.
    #[prost(message, repeated, tag = "5")]
    pub fields: Vec<FieldRanges>,
}

/// Ranges of the items of a field.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FieldRanges {
    /// Path of the field, the outermost first.
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
    /// The ranges.
    #[prost(message, required, tag = "1")]
    pub of: RecordRanges,
    /// Their digests in the sender's copy.
    #[prost(fixed64, repeated, tag = "2")]
    pub digests: Vec<u64>,
}

/// Ranges that differ.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RangesCompared {
    /// Indexes of the ranges that differ, among those of the request.
    #[prost(uint32, repeated, tag = "1")]
    pub differing: Vec<u32>,
    /// Number of the receiver's items in each of them.
    #[prost(uint64, repeated, tag = "2")]
    pub item_counts: Vec<u64>,
}

/// Reads the items of some ranges.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadRanges {
    /// The ranges.
    #[prost(message, required, tag = "1")]
    pub of: RecordRanges,
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
    /// The ranges.
    #[prost(message, required, tag = "1")]
    pub of: RecordRanges,
    /// Sum of the digests of all other items.
    #[prost(fixed64, tag = "2")]
    pub rest: u64,
}

/// Result of merging items of ranges.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RangesTaken {
    /// True if the copies may now differ elsewhere, so that nothing was merged. The comparison has
    /// to begin again.
    #[prost(bool, tag = "1")]
    pub is_stale: bool,
}
