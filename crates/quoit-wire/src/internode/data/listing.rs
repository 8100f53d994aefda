//! Messages of listings: keys, index entries, records and buckets.

use crate::internode::maps::MapSpan;
use bytes::Bytes;

/// Lists keys of a bucket, or entries of one of its secondary indexes, in some partitions of the
/// receiver.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Scan {
    /// Bucket type.
    #[prost(bytes = "bytes", tag = "1")]
    pub bucket_type: Bytes,
    /// Bucket.
    #[prost(bytes = "bytes", tag = "2")]
    pub bucket: Bytes,
    /// The partitions as a bit set, lowest bit first.
    #[prost(bytes = "bytes", tag = "3")]
    pub partitions: Bytes,
    /// Version of the oldest live layout that the coordinator knows.
    #[prost(uint64, tag = "4")]
    pub layout_version: u64,
    /// Position after which to continue: `next` of the previous answer, or any other position.
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub after: Option<Bytes>,
    /// Maximum number of positions in the answer; 0 counts as 1.
    #[prost(uint32, tag = "6")]
    pub count_max: u32,
    /// Regular expression that the terms must match, or the keys if there are no terms.
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub pattern: Option<Bytes>,
    /// The range to list.
    #[prost(oneof = "ScanSpan", tags = "8, 9, 10, 11, 12")]
    pub span: Option<ScanSpan>,
    /// Version of the control plane's state that the coordinator uses. If the `n_val` of a bucket
    /// was lowered since then, the receiver may have removed records that the request expects.
    #[prost(uint64, tag = "13")]
    pub state_version: u64,
}

/// Range of a [`Scan`].
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum ScanSpan {
    /// Keys. A position is the key itself.
    #[prost(message, tag = "8")]
    Keys(KeySpan),
    /// Entries of a secondary index. A position is a term with a key (`IndexPosition`).
    #[prost(message, tag = "9")]
    Terms(TermSpan),
    /// Records. Instead of positions the answer has a [`RecordSummary`] of each.
    #[prost(message, tag = "10")]
    Records(RecordSpan),
    /// Records in some segments of a hash tree, with summaries as well. A node that does not know
    /// this range refuses the scan; otherwise it would list, or reap, too many records.
    #[prost(message, tag = "11")]
    Segments(SegmentSpan),
    /// Records on which a MapReduce phase runs. Instead of positions the answer has the phase's
    /// outputs.
    #[prost(message, tag = "12")]
    Maps(MapSpan),
}

/// A range of a bucket's keys.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KeySpan {
    /// Inclusive lower bound; empty for none.
    #[prost(bytes = "bytes", tag = "1")]
    pub from: Bytes,
    /// Exclusive upper bound; absent for none.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub end: Option<Bytes>,
    /// True to include the keys of tombstones.
    #[prost(bool, tag = "3")]
    pub with_tombstones: bool,
}

/// A range of the index entries of a field.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TermSpan {
    /// The field, in lower case.
    #[prost(bytes = "bytes", tag = "1")]
    pub field: Bytes,
    /// The lowest term, as the position of its entry with an empty key.
    #[prost(bytes = "bytes", tag = "2")]
    pub min: Bytes,
    /// The highest term, as the position of its entry with an empty key.
    #[prost(bytes = "bytes", tag = "3")]
    pub max: Bytes,
}

/// Records of a bucket, selected by key and by the time of the last write.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RecordSpan {
    /// The range of keys, and whether to include tombstones.
    #[prost(message, optional, tag = "1")]
    pub keys: Option<KeySpan>,
    /// Earliest time of the last write, in seconds since 1970.
    #[prost(uint64, tag = "2")]
    pub modified_from: u64,
    /// Latest time of the last write, in seconds since 1970; absent for no limit.
    #[prost(uint64, optional, tag = "3")]
    pub modified_to: Option<u64>,
    /// True to list only tombstones.
    #[prost(bool, tag = "4")]
    pub tombstones_only: bool,
    /// True if the receiver is to reap the tombstones once all primaries agree.
    #[prost(bool, tag = "5")]
    pub reap: bool,
    /// True if clocks and sizes are wanted in Riak's form.
    #[prost(bool, tag = "6")]
    pub riak_form: bool,
}

/// Records of a bucket in some segments of a hash tree.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SegmentSpan {
    /// Selection within the segments.
    #[prost(message, optional, tag = "1")]
    pub records: Option<RecordSpan>,
    /// Number of segments of the whole tree.
    #[prost(uint32, tag = "2")]
    pub segment_count: u32,
    /// Numbers of the segments.
    #[prost(uint32, repeated, tag = "3")]
    pub segments: Vec<u32>,
}

/// Facts about a record without its values.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RecordSummary {
    /// Key.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Clock of the record, as a context for clients.
    #[prost(bytes = "bytes", tag = "2")]
    pub clock: Bytes,
    /// Number of siblings.
    #[prost(uint32, tag = "3")]
    pub sibling_count: u32,
    /// Size of the stored form in bytes.
    #[prost(uint64, tag = "4")]
    pub size_bytes: u64,
    /// Time of the last write in seconds since 1970.
    #[prost(uint64, tag = "5")]
    pub modified_secs: u64,
    /// True for a tombstone.
    #[prost(bool, tag = "6")]
    pub tombstone: bool,
    /// Clock with its times in Riak's form, if it was requested.
    #[prost(bytes = "bytes", tag = "7")]
    pub riak_clock: Bytes,
}

/// A chunk of a listing.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Scanned {
    /// The positions, in order. There may be none although the listing is not complete.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub positions: Vec<Bytes>,
    /// Position after which to continue; absent at the end.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub next: Option<Bytes>,
}

/// Lists buckets of a bucket type that have a key on the receiver.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListBuckets {
    /// Bucket type.
    #[prost(bytes = "bytes", tag = "1")]
    pub bucket_type: Bytes,
    /// Last bucket of the previous answer.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub after: Option<Bytes>,
    /// Version of the oldest live layout that the coordinator knows.
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
    /// True at the end.
    #[prost(bool, tag = "2")]
    pub complete: bool,
}
