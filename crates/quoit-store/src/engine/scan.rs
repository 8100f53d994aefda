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
    /// Returns the next keys of a range, at most `limit`. Tombstones are included (see `RecordMeta`),
    /// expired records are not. `after` is the `next` of the previous page. May wait for the disk; never
    /// reads values.
    fn list_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<KeyPage, StoreError>;

    /// Shows a visitor the records that it wants among the next records of a walk, within the walk's
    /// bounds. The default implementation lists keys and reads each wanted record. Returns the `after` of
    /// the next call; `None` when the walk is complete. May wait for the disk.
    fn visit_records(
        &self,
        walk: RecordWalk<'_>,
        visitor: &mut dyn RecordVisitor,
    ) -> Result<Option<Bytes>, StoreError> {
        visit_listed(self, walk, visitor)
    }

    /// Returns the next entries of a secondary index, at most `limit`, of records in the wanted partitions,
    /// in order of term and key. `after` is the `next` of the previous page, or any other position; the query
    /// returns only entries above it. A page may be short or empty although more entries follow: only `next`
    /// reports the end.
    ///
    /// Only live objects have entries (see [`RecordMeta::indexed`]): tombstones, expired records and
    /// removed records have no entries. A query sees the entries of every acknowledged write. While a
    /// record changes, a query always sees the entries that both its old and its new version have. May wait
    /// for the disk; reads no values.
    ///
    /// # Errors
    ///
    /// [`StoreError::IndexesUnavailable`] while the engine does not have the entries of all records, so
    /// that an answer would be incomplete.
    fn query_index(
        &self,
        range: &IndexRange<'_>,
        partitions: &dyn Fn(Partition) -> bool,
        after: Option<&IndexPosition>,
        limit: usize,
    ) -> Result<IndexPage, StoreError>;

    /// Returns the next buckets of a bucket type that have a live key or a tombstone, at most `limit`, as
    /// (bucket type, bucket) in order. `after` is the last bucket of the previous call. After a write of a
    /// live key the listing has its bucket. May wait for the disk.
    fn list_buckets(
        &self,
        bucket_type: &[u8],
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError>;

    /// Returns about `limit` records of a partition from identity `from` on; it returns more only to keep
    /// all records of one identity together. May wait for the disk.
    fn fold(
        &self,
        partition: Partition,
        from: Identity,
        limit: usize,
        tombstones_only: bool,
    ) -> Result<RecordPage, StoreError>;

    /// Comparison of this engine's copies of partitions. `None` for an engine that evicts records to keep
    /// its bounds, because its copies are never complete.
    fn compared(&self) -> Option<&dyn Compare>;
}
