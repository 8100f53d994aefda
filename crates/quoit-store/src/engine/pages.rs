//! Ranges that are gone through, and what comes of it piece by piece.

use crate::error::StoreError;
use crate::record::{Record, RecordMeta};
use crate::tag::Tag;
use bytes::Bytes;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::secondary_index::IndexPosition;

/// Which keys a listing wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyRange<'a> {
    /// All keys of one bucket.
    Bucket(BucketRef<'a>),
    /// The keys of one bucket that start with a prefix.
    Prefix(BucketRef<'a>, &'a [u8]),
    /// The keys of one bucket between two, both inclusive; `None` = no upper bound. There are none when the
    /// first is above the second.
    Between(BucketRef<'a>, &'a [u8], Option<&'a [u8]>),
    /// All keys of all buckets of a bucket type.
    BucketType(&'a [u8]),
    /// Everything but pieces of records.
    All,
}

/// A chunk of a listing, in (bucket type, bucket, key) order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyPage {
    /// Encoded record keys with what is known of each.
    pub entries: Vec<(Bytes, RecordMeta)>,
    /// Pass it to get the next chunk; `None` when the listing is complete.
    pub next: Option<Bytes>,
}

/// A chunk of the entries of a secondary index, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IndexPage {
    /// Terms and keys, each pair once.
    pub entries: Vec<IndexPosition>,
    /// Pass it to get the next chunk; `None` when there are no more entries.
    pub next: Option<IndexPosition>,
}

/// The key that a [`KeyPage::next`] stands for.
pub(crate) fn listing_place(next: Option<&[u8]>) -> Result<Option<KeyRef<'_>>, StoreError> {
    next.map(KeyRef::decode).transpose().map_err(|error| StoreError::Corrupt {
        path: "the place to go on a listing from".to_owned(),
        offset: 0,
        reason: error.to_string(),
    })
}

/// A chunk of a fold in hash order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecordPage {
    /// Encoded record keys and records, by ascending identity.
    pub entries: Vec<(Bytes, Record)>,
    /// Records of this stretch that are damaged, by the highest bits of their identities: they are not among
    /// the entries. A caller that calls a copy complete by a fold has to have them from elsewhere.
    pub damaged: Vec<Tag>,
    /// Where to go on; `None` when the fold is complete.
    pub next: Option<Identity>,
}

/// A place in an engine's data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct DataPlace {
    /// Which of several engines behind one.
    pub(crate) engine: u8,
    pub(crate) segment: u32,
    pub(crate) offset: u64,
}

/// Result of reading a piece of the data.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verified {
    /// Bytes that were read.
    pub byte_count: u64,
    /// Records that are damaged, by the highest bits of their identities; their names may be lost.
    pub damaged: Vec<(Partition, Tag)>,
    /// Where to go on; `None` at the end.
    pub next: Option<DataPlace>,
}
