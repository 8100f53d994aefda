//! Scans: listings, index queries and folds over many records.

use super::{
    Compare, IndexPage, KeyPage, KeyRange, PointAccess, RecordPage, RecordVisitor, RecordWalk,
    visit_listed,
};
use crate::error::StoreError;
use bytes::Bytes;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::BucketRef;
use quoit_model::secondary_index::{IndexPosition, IndexRange};

/// Listings, index queries and folds, page by page.
pub trait ScanAccess: PointAccess {
    /// The next `limit` or fewer live keys of a range. Tombstones are included (see `RecordMeta`), expired
    /// records are not. `after` is a former page's `next`. May wait for the disk; never reads values.
    fn list_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<KeyPage, StoreError>;

    /// Shows a visitor those of the next live records of a walk that it wants, within the walk's bounds. As
    /// [`ScanAccess::list_keys`] and a look at each record, where an engine has no cheaper way. Answers what
    /// the next call is to be given as `after`; `None` when the walk is complete. May wait for the disk.
    fn visit_records(
        &self,
        walk: RecordWalk<'_>,
        visitor: &mut dyn RecordVisitor,
    ) -> Result<Option<Bytes>, StoreError> {
        visit_listed(self, walk, visitor)
    }

    /// The next `limit` or fewer entries of a secondary index, of the records of some partitions, in order of
    /// term and key. `after` is a former page's `next`, or any other position: entries at it and before are
    /// left out. A page may have few entries or none though more follow: `next` tells.
    ///
    /// The entries of a record are those of its object (see [`RecordMeta::indexed`]); tombstones, expired
    /// and removed records have none. Every acknowledged write counts, and while records change, those that
    /// keep an entry keep it for all queries. May wait for the disk; reads no values.
    ///
    /// # Errors
    ///
    /// [`StoreError::IndexesUnavailable`] while the entries of all records are not known: an answer is
    /// complete or an error.
    fn query_index(
        &self,
        range: &IndexRange<'_>,
        partitions: &dyn Fn(Partition) -> bool,
        after: Option<&IndexPosition>,
        limit: usize,
    ) -> Result<IndexPage, StoreError>;

    /// The next `limit` or fewer buckets of a bucket type that hold a live key, tombstones included, as
    /// (bucket type, bucket) in order. `after` is the last one of the former call. After a write of a
    /// live key its bucket is listed. May wait for the disk.
    fn list_buckets(
        &self,
        bucket_type: &[u8],
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError>;

    /// Records of a partition from identity `from` on, about `limit` of them (all records of one identity
    /// stay together). May wait for the disk.
    fn fold(
        &self,
        partition: Partition,
        from: Identity,
        limit: usize,
        tombstones_only: bool,
    ) -> Result<RecordPage, StoreError>;

    /// Comparison of this engine's copies; `None` where it drops records to keep its bounds, so that no copy
    /// is complete.
    fn compared(&self) -> Option<&dyn Compare>;
}
