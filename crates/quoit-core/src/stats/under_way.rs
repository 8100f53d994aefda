//! Requests that go through much, counted while they are under way.

use super::{Counter, Stats};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Kind of request that is counted while it is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum LongRequest {
    /// Queries of secondary indexes, `$key` and `$bucket` among them.
    IndexQuery,
    /// Listings of keys, in order or not, and of the buckets of a bucket type.
    Listing,
    /// Folds over records, and over the buckets of all bucket types.
    Fold,
}
const LONG_REQUEST_COUNT: usize = 3;

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

/// Requests of each kind that are under way.
#[derive(Default)]
pub(super) struct RequestsUnderWay([AtomicUsize; LONG_REQUEST_COUNT]);

/// A request that is under way until this is dropped.
pub(crate) struct UnderWay {
    stats: Arc<Stats>,
    kind: LongRequest,
}

impl UnderWay {
    /// Counts a request that begins.
    pub(crate) fn begin(stats: &Arc<Stats>, kind: LongRequest) -> Self {
        stats.count(kind.begun());
        stats.active.0[kind as usize].fetch_add(1, Ordering::Relaxed);
        Self { stats: Arc::clone(stats), kind }
    }

    /// The statistics that it is counted in.
    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Counts the request as one that could not be begun, if so.
    pub(crate) fn begun<T, E>(&self, begun: Result<T, E>) -> Result<T, E> {
        begun.inspect_err(|_| self.stats.count(self.kind.failed()))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.stats.active.0[self.kind as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

impl Stats {
    /// Requests of a kind that are under way.
    #[must_use]
    pub fn active(&self, kind: LongRequest) -> usize {
        self.active.0[kind as usize].load(Ordering::Relaxed)
    }
}
