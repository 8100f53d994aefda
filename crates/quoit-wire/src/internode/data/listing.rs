//! Messages of listings: of keys, of entries of secondary indexes, of records, and of buckets.

use crate::internode::maps::MapSpan;
use bytes::Bytes;

/// Lists, of some partitions of the receiver, keys of a bucket or entries of one of its secondary indexes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Scan {
    /// Bucket type.
    #[prost(bytes = "bytes", tag = "1")]
    pub bucket_type: Bytes,
    /// Bucket.
    #[prost(bytes = "bytes", tag = "2")]
    pub bucket: Bytes,
    /// The partitions, one bit each, lowest bit first.
    #[prost(bytes = "bytes", tag = "3")]
    pub partitions: Bytes,
    /// The oldest live layout that the coordinator knows.
    #[prost(uint64, tag = "4")]
    pub layout_version: u64,
    /// Where to go on: the former answer's `next`, or any other position.
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub after: Option<Bytes>,
    /// Positions that the answer has at most; 0 is as good as 1.
    #[prost(uint32, tag = "6")]
    pub count_max: u32,
    /// A regular expression that the terms must match, the keys where there are no terms.
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub pattern: Option<Bytes>,
    /// Range that is wanted.
    #[prost(oneof = "ScanSpan", tags = "8, 9, 10, 11, 12")]
    pub span: Option<ScanSpan>,
    /// Version of the control plane's state that the coordinator goes by. Where a bucket has got fewer
    /// replicas since then, the receiver may have removed what it is asked for.
    #[prost(uint64, tag = "13")]
    pub state_version: u64,
}

/// Range that a [`Scan`] goes through.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum ScanSpan {
    /// Keys; their positions are the keys themselves.
    #[prost(message, tag = "8")]
    Keys(KeySpan),
    /// Entries of a secondary index; their positions are terms and keys (`IndexPosition`).
    #[prost(message, tag = "9")]
    Terms(TermSpan),
    /// Records; in the place of positions the answer has a [`RecordSummary`] of each.
    #[prost(message, tag = "10")]
    Records(RecordSpan),
    /// Records of some segments, likewise. A node that does not know what that is refuses the scan: it would
    /// tell of, or reap, more than is wanted.
    #[prost(message, tag = "11")]
    Segments(SegmentSpan),
    /// Records that a phase of a MapReduce job maps; in the place of positions the answer has its outputs.
    #[prost(message, tag = "12")]
    Maps(MapSpan),
}

/// A range of a bucket's keys.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KeySpan {
    /// The first key; empty: from the beginning.
    #[prost(bytes = "bytes", tag = "1")]
    pub from: Bytes,
    /// The first key that is not wanted any more; absent: to the end.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub end: Option<Bytes>,
    /// Whether keys of tombstones are wanted.
    #[prost(bool, tag = "3")]
    pub with_tombstones: bool,
}

/// A range of the entries of a field.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TermSpan {
    /// The field, in lower case.
    #[prost(bytes = "bytes", tag = "1")]
    pub field: Bytes,
    /// The lowest term, as the position of its entry for the empty key.
    #[prost(bytes = "bytes", tag = "2")]
    pub min: Bytes,
    /// The highest term, likewise.
    #[prost(bytes = "bytes", tag = "3")]
    pub max: Bytes,
}

/// Records of a bucket by their keys and by when they were written.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RecordSpan {
    /// The keys; whether tombstones are wanted beside the others.
    #[prost(message, optional, tag = "1")]
    pub keys: Option<KeySpan>,
    /// The first second (since 1970) of the last write.
    #[prost(uint64, tag = "2")]
    pub modified_from: u64,
    /// The last second of it; absent: for ever.
    #[prost(uint64, optional, tag = "3")]
    pub modified_to: Option<u64>,
    /// Nothing but tombstones is wanted.
    #[prost(bool, tag = "4")]
    pub tombstones_only: bool,
    /// The receiver is to reap the tombstones, as soon as all primaries agree.
    #[prost(bool, tag = "5")]
    pub reap: bool,
    /// Clocks and sizes are wanted as a Riak node has them.
    #[prost(bool, tag = "6")]
    pub riak_form: bool,
}

/// Records of a bucket, of some segments of a hash tree.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SegmentSpan {
    /// Of all segments.
    #[prost(message, optional, tag = "1")]
    pub records: Option<RecordSpan>,
    /// Of how many segments these are some.
    #[prost(uint32, tag = "2")]
    pub segment_count: u32,
    /// The segments.
    #[prost(uint32, repeated, tag = "3")]
    pub segments: Vec<u32>,
}

/// Facts about a record without its values.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RecordSummary {
    /// Key.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Vector clock, as clients get it.
    #[prost(bytes = "bytes", tag = "2")]
    pub clock: Bytes,
    /// Number of siblings.
    #[prost(uint32, tag = "3")]
    pub sibling_count: u32,
    /// Bytes of its stored form.
    #[prost(uint64, tag = "4")]
    pub size_bytes: u64,
    /// When it was last written, seconds since 1970.
    #[prost(uint64, tag = "5")]
    pub modified_secs: u64,
    /// Whether it is a tombstone.
    #[prost(bool, tag = "6")]
    pub tombstone: bool,
    /// Vector clock with its times, as a Riak node has it, where it was asked for.
    #[prost(bytes = "bytes", tag = "7")]
    pub riak_clock: Bytes,
}

/// A chunk of keys or entries.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Scanned {
    /// Their positions, in order. There may be none though there are more.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub positions: Vec<Bytes>,
    /// Where to go on; absent when there are no more.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub next: Option<Bytes>,
}

/// Lists buckets of a bucket type that hold a key in the receiver.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListBuckets {
    /// Bucket type.
    #[prost(bytes = "bytes", tag = "1")]
    pub bucket_type: Bytes,
    /// The last bucket of the former answer.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub after: Option<Bytes>,
    /// The oldest live layout that the coordinator knows.
    #[prost(uint64, tag = "3")]
    pub layout_version: u64,
    /// As [`Scan::state_version`].
    #[prost(uint64, tag = "4")]
    pub state_version: u64,
}

/// A chunk of buckets, in order.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct BucketsListed {
    /// Names of the buckets.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub buckets: Vec<Bytes>,
    /// Whether there are no more.
    #[prost(bool, tag = "2")]
    pub complete: bool,
}
