//! Queries of secondary indexes, and listings of keys in order.

use super::pattern::Pattern;
use super::scan::CHUNK_COUNT;
use super::sources::{ListingOrder, Sources, WantedRecords};
use super::{Listings, owned_type};
use crate::error::RequestError;
use crate::partition_set::PartitionSet;
use crate::stats::{LongRequest, LongRequestGuard};
use bytes::Bytes;
use quoit_model::key::BucketRef;
use quoit_model::key_bounds::KeyBounds;
use quoit_model::object::IndexTerm;
use quoit_model::secondary_index::IndexPosition;
use quoit_number::length_u32;
use quoit_wire::internode::data::{KeySpan, ScanSpan, TermSpan};
use std::sync::Arc;
use tokio::time::Instant;

/// Terms or keys that an index query looks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IndexSelection {
    /// Keys of the bucket: Riak's special indexes `$key` and `$bucket`.
    Keys(KeyBounds),
    /// Index entries of a field with terms from `min` to `max`, both included.
    Terms {
        /// The field, in lower case.
        field: Bytes,
        /// The lowest term.
        min: IndexTerm,
        /// The highest term.
        max: IndexTerm,
    },
}

impl IndexSelection {
    /// True if nothing can match.
    fn is_empty(&self) -> bool {
        match self {
            Self::Keys(bounds) => bounds.is_empty(),
            Self::Terms { min, max, .. } => min > max,
        }
    }
}

/// An index query of a bucket.
#[derive(Clone, Debug)]
pub struct IndexQuery {
    /// Bucket type.
    pub bucket_type: Bytes,
    /// Bucket.
    pub bucket: Bytes,
    /// Terms or keys to look for.
    pub selection: IndexSelection,
    /// Pattern that terms must match; in queries of keys, that keys must match.
    pub pattern: Option<Pattern>,
    /// True if matches come in order of term and key. Queries with a page size or a continuation are
    /// sorted in any case.
    pub sorted: bool,
    /// Page size: maximum number of matches, at least 1; `None` for all matches.
    pub max_results: Option<u32>,
    /// The position after which matches begin; set by [`IndexQuery::continue_after`].
    pub(super) after: Option<Bytes>,
    /// Partitions that are searched; `None` for all. Set by [`Listings::restrict`].
    pub(super) partitions: Option<PartitionSet>,
}

impl IndexQuery {
    /// A query for all matches at once, in no order.
    #[must_use]
    pub fn new(bucket: BucketRef<'_>, selection: IndexSelection) -> Self {
        Self {
            bucket_type: owned_type(bucket),
            bucket: Bytes::copy_from_slice(bucket.bucket),
            selection,
            pattern: None,
            sorted: false,
            max_results: None,
            after: None,
            partitions: None,
        }
    }

    /// The range of keys, if the query asks for all keys of a range at once, unsorted and without a
    /// pattern or a context; otherwise `None`.
    pub(crate) fn whole_range(&self) -> Option<&KeyBounds> {
        let IndexSelection::Keys(bounds) = &self.selection else { return None };
        let is_whole = self.pattern.is_none() && self.partitions.is_none() && !self.is_sorted();
        is_whole.then_some(bounds)
    }

    /// True if matches come in order.
    const fn is_sorted(&self) -> bool {
        self.sorted || self.max_results.is_some() || self.after.is_some()
    }

    fn wanted(&self) -> WantedRecords {
        let bounds = |term| IndexPosition::of(term, b"").as_bytes().clone();
        let span = match &self.selection {
            IndexSelection::Keys(KeyBounds { from, end }) => ScanSpan::Keys(KeySpan {
                from: from.clone(),
                end: end.clone(),
                with_tombstones: false,
            }),
            IndexSelection::Terms { field, min, max } => ScanSpan::Terms(TermSpan {
                field: field.clone(),
                min: bounds(min),
                max: bounds(max),
            }),
        };
        WantedRecords {
            bucket_type: self.bucket_type.clone(),
            bucket: self.bucket.clone(),
            span,
            pattern: self.pattern.as_ref().map(|pattern| pattern.text().clone()),
            after: self.after.clone(),
            partitions: self.partitions.clone(),
            order: if self.is_sorted() { ListingOrder::Sorted } else { ListingOrder::Arrival },
        }
    }
}

/// A match of an index query.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct IndexMatch {
    /// The term; `None` in queries of keys.
    pub term: Option<IndexTerm>,
    /// Key of the object.
    pub key: Bytes,
}

/// Matches of an index query, in chunks. Dropping it ends the query.
pub struct IndexResults {
    query: IndexQuery,
    /// `None` if the query can have no match.
    sources: Option<Sources>,
    /// Matches that are still missing from the page.
    left: Option<u32>,
    last: Option<Bytes>,
    result_count: u64,
    /// Start of the query, for the statistics; `None` in listings and after the end.
    begun: Option<Instant>,
    under_way: LongRequestGuard,
}

impl Listings {
    /// Starts an index query, once this node knows which nodes are up. The query reads one replica of
    /// each partition: matches that were written while that replica was down may be missing until it
    /// has been repaired. Tombstones never match.
    ///
    /// # Errors
    ///
    /// Unknown bucket types, empty names, and a partition of which no live node has a copy.
    pub async fn query_index(
        self: &Arc<Self>,
        query: IndexQuery,
    ) -> Result<IndexResults, RequestError> {
        self.begin_query(query, LongRequest::IndexQuery).await
    }

    /// Starts a listing of all keys, or of a range of keys, in order. Statistics count it as a listing,
    /// not as an index query.
    ///
    /// # Errors
    ///
    /// As [`Listings::query_index`].
    pub async fn list_keys_in_order(
        self: &Arc<Self>,
        query: IndexQuery,
    ) -> Result<IndexResults, RequestError> {
        self.begin_query(query, LongRequest::Listing).await
    }

    async fn begin_query(
        self: &Arc<Self>,
        query: IndexQuery,
        kind: LongRequest,
    ) -> Result<IndexResults, RequestError> {
        let begun = (kind == LongRequest::IndexQuery).then(Instant::now);
        let under_way = LongRequestGuard::begin(&self.local.stats, kind);
        let sources = under_way.begun(self.scan(query.wanted()).await)?;
        let sources = (!query.selection.is_empty()).then_some(sources);
        let (left, last) = (query.max_results, None);
        Ok(IndexResults { query, sources, left, last, result_count: 0, begun, under_way })
    }
}

impl IndexResults {
    /// The next matches; `None` when there are no more, or the page is full. Chunks are never empty.
    ///
    /// # Errors
    ///
    /// Engine faults, and a partition of which no live node has a copy any more. An answer is complete
    /// or ends with an error; it is never cut short in silence.
    pub async fn next(&mut self) -> Result<Option<Vec<IndexMatch>>, RequestError> {
        let matches = self.next_matches().await?;
        if let Some(matches) = &matches {
            self.result_count += matches.len() as u64;
        } else if let Some(begun) = self.begun.take() {
            self.under_way.stats().record_index_query(begun.elapsed(), self.result_count);
        }
        Ok(matches)
    }

    async fn next_matches(&mut self) -> Result<Option<Vec<IndexMatch>>, RequestError> {
        let Some(sources) = &mut self.sources else { return Ok(None) };
        let count_max = self.left.map_or(CHUNK_COUNT, |left| left as usize);
        if count_max == 0 {
            return Ok(None);
        }
        let Some(positions) = sources.next(count_max).await? else { return Ok(None) };
        debug_assert!(
            !positions.is_empty() && positions.len() <= count_max,
            "a chunk is not empty, and fits into the page"
        );
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(length_u32(positions.len()));
            self.last = positions.last().cloned();
        }
        let of_keys = matches!(self.query.selection, IndexSelection::Keys(_));
        positions
            .into_iter()
            .map(|position| matched(position, of_keys))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// The continuation for the next page, once this page is full; `None` before that, and for queries
    /// without a page size. The next page may turn out to be empty.
    #[must_use]
    pub fn continuation(&self) -> Option<Bytes> {
        let last = self.last.as_ref().filter(|_| self.left == Some(0))?;
        Some(self.query.continuation(last))
    }
}

fn matched(position: Bytes, is_key: bool) -> Result<IndexMatch, RequestError> {
    if is_key {
        return Ok(IndexMatch { term: None, key: position });
    }
    let position = IndexPosition::from_bytes(position)
        .map_err(|fault| RequestError::Damaged(fault.to_string()))?;
    let (term, key) = position.parts();
    Ok(IndexMatch { term: Some(term), key })
}
