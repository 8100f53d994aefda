//! Counts of long requests while they are under way.

use super::{Counter, Stats};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Kinds of requests that are counted while they are under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LongRequest {
    /// Queries of secondary indexes, including `$key` and `$bucket`.
    IndexQuery,
    /// Listings of keys, sorted or not, and of the buckets of a bucket type.
    Listing,
    /// Folds over records, and over the buckets of all bucket types.
    Fold,
}

impl LongRequest {
    const fn begun(self) -> Counter {
        match self {
            Self::IndexQuery => Counter::IndexQueries,
            Self::Listing => Counter::Listings,
            Self::Fold => Counter::Folds,
        }
    }

    const fn failed(self) -> Counter {
        match self {
            Self::IndexQuery => Counter::IndexQueryErrors,
            Self::Listing => Counter::ListingErrors,
            Self::Fold => Counter::FoldErrors,
        }
    }
}

/// Number of requests of each kind under way.
#[derive(Default)]
pub(super) struct LongRequestCounts {
    index_queries: AtomicUsize,
    listings: AtomicUsize,
    folds: AtomicUsize,
}

impl LongRequestCounts {
    const fn of(&self, kind: LongRequest) -> &AtomicUsize {
        match kind {
            LongRequest::IndexQuery => &self.index_queries,
            LongRequest::Listing => &self.listings,
            LongRequest::Fold => &self.folds,
        }
    }
}

/// Counts a request as under way until this is dropped.
pub(crate) struct LongRequestGuard {
    stats: Arc<Stats>,
    kind: LongRequest,
}

impl LongRequestGuard {
    /// Counts a request that begins.
    pub(crate) fn begin(stats: &Arc<Stats>, kind: LongRequest) -> Self {
        stats.count(kind.begun());
        stats.active.of(kind).fetch_add(1, Ordering::Relaxed);
        Self { stats: Arc::clone(stats), kind }
    }

    /// Statistics that count the request.
    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Counts a failure if the request could not be begun.
    pub(crate) fn begun<T, E>(&self, begun: Result<T, E>) -> Result<T, E> {
        begun.inspect_err(|_| self.stats.count(self.kind.failed()))
    }
}

impl Drop for LongRequestGuard {
    fn drop(&mut self) {
        let before = self.stats.active.of(self.kind).fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a request that ends has begun");
    }
}

impl Stats {
    /// Number of requests of a kind under way.
    #[must_use]
    pub fn active(&self, kind: LongRequest) -> usize {
        self.active.of(kind).load(Ordering::Relaxed)
    }
}
