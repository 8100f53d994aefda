//! Ranges of keys, and the pages that scans return.

use crate::error::StoreError;
use crate::record::{Record, RecordMeta};
use crate::tag::Tag;
use bytes::Bytes;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::secondary_index::IndexPosition;

/// The keys that a listing returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyRange<'a> {
    /// All keys of one bucket.
    Bucket(BucketRef<'a>),
    /// The keys of one bucket that start with a prefix.
    Prefix(BucketRef<'a>, &'a [u8]),
    /// The keys of one bucket from the first bound to the second, both inclusive; `None` = no upper bound.
    /// Empty if the first bound is above the second.
    Between(BucketRef<'a>, &'a [u8], Option<&'a [u8]>),
    /// All keys of all buckets of a bucket type.
    BucketType(&'a [u8]),
    /// All keys. Pieces of records are left out.
    All,
}

/// A page of a listing, in (bucket type, bucket, key) order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyPage {
    /// Encoded record keys, each with its metadata.
    pub entries: Vec<(Bytes, RecordMeta)>,
    /// Position from which the next call continues; `None` when the listing is complete.
    pub next: Option<Bytes>,
}

/// A page of the entries of a secondary index, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IndexPage {
    /// Terms and keys, each pair once.
    pub entries: Vec<IndexPosition>,
    /// Position from which the next call continues; `None` when there are no more entries.
    pub next: Option<IndexPosition>,
}

/// Decodes the key in a [`KeyPage::next`].
pub(crate) fn listing_place(next: Option<&[u8]>) -> Result<Option<KeyRef<'_>>, StoreError> {
    next.map(KeyRef::decode).transpose().map_err(|error| StoreError::Corrupt {
        path: "the place to go on a listing from".to_owned(),
        offset: 0,
        reason: error.to_string(),
    })
}

/// A page of a fold in hash order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecordPage {
    /// Encoded record keys and records, by ascending identity.
    pub entries: Vec<(Bytes, Record)>,
    /// Tags of damaged records of this part of the fold; the entries do not include them. A caller that
    /// builds a complete copy from a fold has to fetch these records from another replica.
    pub damaged: Vec<Tag>,
    /// Identity from which the next call continues; `None` when the fold is complete.
    pub next: Option<Identity>,
}

/// A position in an engine's data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct DataLocation {
    /// Index of the engine in a store of several engines.
    pub(crate) engine: u8,
    pub(crate) segment: u32,
    pub(crate) offset: u64,
}

/// Result of verifying a part of the data.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verified {
    /// Bytes that were read.
    pub byte_count: u64,
    /// Partitions and tags of damaged records; the names of the records may be lost.
    pub damaged: Vec<(Partition, Tag)>,
    /// Position from which the next call continues; `None` at the end.
    pub next: Option<DataLocation>,
}
