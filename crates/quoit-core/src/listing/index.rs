//! Queries of secondary indexes, and of keys in order.

use super::Listings;
use super::pattern::Pattern;
use super::scan::CHUNK_COUNT;
use super::sources::{Order, Sources, WantedRecords};
use crate::error::RequestError;
use crate::partition_set::PartitionSet;
use crate::stats::{LongRequest, UnderWay};
use bytes::Bytes;
use quoit_model::key_bounds::KeyBounds;
use quoit_model::object::IndexTerm;
use quoit_model::secondary_index::IndexPosition;
use quoit_wire::internode::data::{KeySpan, ScanSpan, TermSpan};
use std::sync::Arc;
use tokio::time::Instant;

/// Terms or keys that an index query looks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IndexSelection {
    /// Keys of the bucket: `$key` and `$bucket`.
    Keys(KeyBounds),
    /// Entries of a field, of terms between two, both inclusive.
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
    /// Whether nothing can match.
    fn is_empty(&self) -> bool {
        match self {
            Self::Keys(bounds) => bounds.is_empty(),
            Self::Terms { min, max, .. } => min > max,
        }
    }
}

/// A query of a bucket.
#[derive(Clone, Debug)]
pub struct IndexQuery {
    /// Bucket type.
    pub bucket_type: Bytes,
    /// Bucket.
    pub bucket: Bytes,
    /// Terms or keys to look for.
    pub selection: IndexSelection,
    /// Pattern that terms must match, or keys where there are no terms.
    pub pattern: Option<Pattern>,
    /// Whether matches come by term, then by key. A page size and a continuation sort as well.
    pub sorted: bool,
    /// Page size: so many matches at most, not 0.
    pub max_results: Option<u32>,
    /// The position after which matches begin; set by [`IndexQuery::go_on_from`].
    pub(super) after: Option<Bytes>,
    /// Which partitions are looked at; `None`: all. Set by [`Listings::restrict`].
    pub(super) partitions: Option<PartitionSet>,
}

impl IndexQuery {
    /// A query for all matches at once, in no order.
    #[must_use]
    pub const fn new(bucket_type: Bytes, bucket: Bytes, selection: IndexSelection) -> Self {
        Self {
            bucket_type,
            bucket,
            selection,
            pattern: None,
            sorted: false,
            max_results: None,
            after: None,
            partitions: None,
        }
    }

    /// The range of keys whose matches are wanted in no order and all at once, if they are that.
    pub(crate) fn whole_range(&self) -> Option<&KeyBounds> {
        let IndexSelection::Keys(bounds) = &self.selection else { return None };
        let is_whole = self.pattern.is_none() && self.partitions.is_none() && !self.is_sorted();
        is_whole.then_some(bounds)
    }

    /// Whether matches come in order.
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
            order: if self.is_sorted() { Order::Sorted } else { Order::Arrival },
        }
    }
}

/// A match of an index query.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct IndexMatch {
    /// The term; `None` where keys were looked for.
    pub term: Option<IndexTerm>,
    /// The object's key.
    pub key: Bytes,
}

/// The answer of an index query, as it comes. Dropping it ends the query.
pub struct IndexResults {
    query: IndexQuery,
    /// `None` for a query that nothing can match.
    sources: Option<Sources>,
    /// Matches that are left of the page.
    left: Option<u32>,
    last: Option<Bytes>,
    result_count: u64,
    /// When it began, until it has come to its end.
    begun: Option<Instant>,
    under_way: UnderWay,
}

impl Listings {
    /// Starts an index query, once this node knows who is up. It sees one replica of each partition: what was
    /// written while that one was down may be missing until it has been repaired. Tombstones match nothing.
    ///
    /// # Errors
    ///
    /// Unknown bucket types, empty names, and partitions that no node has which is up.
    pub async fn query_index(
        self: &Arc<Self>,
        query: IndexQuery,
    ) -> Result<IndexResults, RequestError> {
        self.begin_query(query, LongRequest::IndexQuery).await
    }

    /// Starts to list keys in order, as a query of all keys or of a range of them. Statistics count a
    /// listing: that is what those have asked for who come here.
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
        let under_way = UnderWay::begin(&self.local.stats, kind);
        let sources = under_way.begun(self.scan(query.wanted()).await)?;
        let sources = (!query.selection.is_empty()).then_some(sources);
        let (left, last) = (query.max_results, None);
        Ok(IndexResults { query, sources, left, last, result_count: 0, begun, under_way })
    }
}

impl IndexResults {
    /// The next matches; `None` when there are no more, or no more on the page. Chunks are never empty.
    ///
    /// # Errors
    ///
    /// Engine faults, and partitions that no node has any more which is up. An answer is complete or an
    /// error, never cut short in silence.
    pub async fn next(&mut self) -> Result<Option<Vec<IndexMatch>>, RequestError> {
        let matches = self.next_matches().await?;
        if let Some(matches) = &matches {
            self.result_count += matches.len() as u64;
        } else if let Some(begun) = self.begun.take() {
            let time_us = begun.elapsed().as_micros() as u64;
            self.under_way.stats().record_index_query(time_us, self.result_count);
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
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(positions.len() as u32);
            self.last = positions.last().cloned();
        }
        let of_keys = matches!(self.query.selection, IndexSelection::Keys(_));
        positions
            .into_iter()
            .map(|position| matched(position, of_keys))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// The continuation for the next page, once this one is full; `None` while it is not, and for answers
    /// without a page size. There may be nothing on the next page.
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
