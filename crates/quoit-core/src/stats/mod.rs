//! Counters and histograms, written without contention and summed when they are read.
//!
//! Each thread writes to its own shard, and a reader sums the shards. Once a second [`Stats::sample`]
//! stores the sums; figures of the last minute are the difference of two samples.

mod data_types;
mod long_requests;
#[expect(
    clippy::indexing_slicing,
    reason = "counters, distributions and buckets have numbers of its own tables"
)]
mod recorder;
mod times;

use crate::error::RequestError;
use parking_lot::Mutex;
use quoit_model::object::Object;
use quoit_model::plain::PlainObject;
use quoit_model::props::Datatype;
use quoit_number::saturating_u64;
use quoit_store::IndexActivity;
use recorder::{Recorder, Samples, Snapshot, Sums};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(crate) use data_types::DataTypeStats;
pub use data_types::{DataTypeCounter, DataTypeDistribution, DataTypeSnapshot};
pub use long_requests::LongRequest;
pub(crate) use long_requests::LongRequestGuard;
pub use recorder::{Cumulative, LatencySummary};
pub(crate) use times::HistogramSnapshot;

/// Number of shards. Threads beyond this number share shards.
const SHARD_COUNT: usize = 16;
/// Events that are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Counter {
    /// Reads coordinated here.
    Gets,
    /// Writes coordinated here.
    Puts,
    /// Reads that failed.
    GetErrors,
    /// Writes that failed.
    PutErrors,
    /// Replicas that were repaired after a read found that they were stale.
    ReadRepairs,
    /// Repairs that were left to anti-entropy, because the replica could not be reached.
    ReadRepairsSkipped,
    /// Writes that this node forwarded to another coordinator.
    CoordinatorRedirects,
    /// Objects that other nodes have sent to this node's copies.
    ReplicaPuts,
    /// Copies and digests that other nodes have requested from this node.
    ReplicaGets,
    /// Reads refused because too many were under way.
    GetsRejected,
    /// Writes refused because too many were under way.
    PutsRejected,
    /// Exchanges of anti-entropy begun here.
    Exchanges,
    /// Exchanges that ended because the copies were equal.
    ExchangesInSync,
    /// Exchanges that ended because the differences had vanished when they were checked again.
    ExchangesSettled,
    /// Exchanges that ended with repairs.
    ExchangesRepaired,
    /// Exchanges that ended because one of the two nodes could not continue.
    ExchangeErrors,
    /// Exchanges that ended because the other node did not answer in time.
    ExchangeTimeouts,
    /// Records that exchanges begun here repaired, on either side.
    ExchangeKeysRepaired,
    /// Bytes of objects that were sent and fetched for these repairs.
    ExchangeBytesRepaired,
    /// Bytes on disk that background verification read.
    VerifiedBytes,
    /// Damaged records that it found.
    DamagedRecords,
    /// Damaged records that were replaced by copies of other replicas.
    HealedRecords,
    /// Copies of partitions that were made here to replace copies of nodes that are gone.
    CopiesRestored,
    /// Writes among [`Counter::CoordinatorRedirects`] that were forwarded again, because another node
    /// had refused them as overloaded.
    CoordinatorRedirectsLoaded,
    /// Merges of two different copies of a record.
    Merges,
    /// Index queries begun here.
    IndexQueries,
    /// Index queries that could not be begun, for example because no live node had some partition.
    IndexQueryErrors,
    /// Index queries that were answered to the end.
    IndexQueriesComplete,
    /// Chunks of indexes that were read here: one for each node that a query asks, and another one for
    /// each thousand results.
    IndexReads,
    /// Records stored here that have index entries.
    IndexWrites,
    /// Index entries that were added here.
    IndexEntriesWritten,
    /// Records here that lost all of their index entries.
    IndexDeletes,
    /// Index entries that were removed here.
    IndexEntriesDeleted,
    /// Listings of keys and of buckets begun here.
    Listings,
    /// Listings that could not be begun.
    ListingErrors,
    /// Folds over records, and listings of the buckets of all bucket types, begun here.
    Folds,
    /// Folds that could not be begun.
    FoldErrors,
    /// Entries of source queues that were sent with an object held in memory.
    QueueFetchesHeld,
    /// Entries of source queues whose objects were read when they were sent.
    QueueFetchesRead,
    /// Requests of sinks that found the queue empty.
    QueueFetchesEmpty,
    /// Entries that source queues discarded because they were full or suspended.
    QueueDiscards,
    /// Objects of other clusters that were stored here.
    SinkObjects,
    /// Requests to other clusters that found the queue empty.
    SinkEmpty,
    /// Requests to other clusters that failed, and objects of theirs that could not be stored.
    SinkErrors,
    /// Objects of other clusters that were concurrent with the stored ones.
    SinkConflicts,
    /// Writes that a pre-commit hook of their bucket has refused.
    PrecommitFailures,
}
const COUNTER_COUNT: usize = Counter::PrecommitFailures as usize + 1;

/// Quantities whose distributions are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Distribution {
    /// Microseconds from request to answer of a read.
    GetTimeUs,
    /// Microseconds from request to answer of a write.
    PutTimeUs,
    /// Number of siblings of objects read.
    GetSiblings,
    /// Bytes of the values of objects read.
    GetObjectBytes,
    /// Microseconds that a merge took.
    MergeTimeUs,
    /// Number of results of index queries that were answered to the end.
    IndexResults,
    /// Microseconds from request to end of such a query, including the time in which the client read
    /// the answer.
    IndexTimeUs,
}
const DISTRIBUTION_COUNT: usize = Distribution::IndexTimeUs as usize + 1;

/// Sizes of an object that was read, for the statistics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) sibling_count: u64,
    pub(crate) value_bytes: u64,
}

impl Sizes {
    pub(crate) fn of_plain(plain: &PlainObject<'_>) -> Self {
        Self { sibling_count: 1, value_bytes: plain.value.len() as u64 }
    }

    pub(crate) fn of_object(object: &Object) -> Self {
        let value_bytes: usize = object.siblings.iter().map(|each| each.value.len()).sum();
        Self { sibling_count: object.siblings.len() as u64, value_bytes: value_bytes as u64 }
    }
}

type Shard = Recorder<COUNTER_COUNT, DISTRIBUTION_COUNT>;

/// Counters and histograms of a store.
pub struct Stats {
    shards: Box<[Shard]>,
    samples: Samples<COUNTER_COUNT, DISTRIBUTION_COUNT>,
    data_types: DataTypeStats,
    /// Counts of index changes that the engine reported at the last call.
    index_activity: Mutex<IndexActivity>,
    active: long_requests::LongRequestCounts,
}

/// Figures at one moment.
pub struct StatsSnapshot(Snapshot<COUNTER_COUNT, DISTRIBUTION_COUNT>);

impl Default for Stats {
    fn default() -> Self {
        Self {
            shards: (0..SHARD_COUNT).map(|_| Shard::default()).collect(),
            samples: Samples::default(),
            data_types: DataTypeStats::default(),
            index_activity: Mutex::default(),
            active: long_requests::LongRequestCounts::default(),
        }
    }
}

impl Stats {
    /// Counts a read and its result. Costs a few uncontended additions.
    pub(crate) fn record_get(&self, time_us: u64, result: &Result<Option<Sizes>, &RequestError>) {
        let shard = self.shard();
        shard.add(Counter::Gets as usize, 1);
        match result {
            Ok(found) => {
                shard.record(Distribution::GetTimeUs as usize, time_us);
                if let Some(sizes) = found {
                    shard.record(Distribution::GetSiblings as usize, sizes.sibling_count);
                    shard.record(Distribution::GetObjectBytes as usize, sizes.value_bytes);
                }
            }
            Err(_) => shard.add(Counter::GetErrors as usize, 1),
        }
    }

    /// Counts a write. Costs a few uncontended additions.
    pub(crate) fn record_put<T>(&self, time_us: u64, result: &Result<T, RequestError>) {
        let shard = self.shard();
        shard.add(Counter::Puts as usize, 1);
        match result {
            Ok(_) => shard.record(Distribution::PutTimeUs as usize, time_us),
            Err(_) => shard.add(Counter::PutErrors as usize, 1),
        }
    }

    /// Counts an event. Costs one uncontended addition.
    pub fn count(&self, counter: Counter) {
        self.shard().add(counter as usize, 1);
    }

    /// Counts several events at once.
    pub(crate) fn add(&self, counter: Counter, count: u64) {
        self.shard().add(counter as usize, count);
    }

    /// Counts a merge of two copies of a record, also for their data type.
    pub(crate) fn record_merge(&self, time_us: u64, datatype: Option<Datatype>) {
        let shard = self.shard();
        shard.add(Counter::Merges as usize, 1);
        shard.record(Distribution::MergeTimeUs as usize, time_us);
        if let Some(datatype) = datatype {
            self.data_types.record_merge(datatype, time_us);
        }
    }

    /// Counts an index query that was answered to the end, with its time and its number of results.
    pub(crate) fn record_index_query(&self, time: Duration, result_count: u64) {
        let time_us = saturating_u64(time.as_micros());
        let shard = self.shard();
        shard.add(Counter::IndexQueriesComplete as usize, 1);
        shard.record(Distribution::IndexTimeUs as usize, time_us);
        shard.record(Distribution::IndexResults as usize, result_count);
    }

    /// Counts the index changes that the engine made since the last call. Calls `ask` under a lock, so
    /// that no change is counted twice.
    pub(crate) fn follow_indexes(&self, ask: impl FnOnce() -> IndexActivity) {
        let mut known = self.index_activity.lock();
        let before = std::mem::replace(&mut *known, ask());
        let shard = self.shard();
        for (counter, before, now) in [
            (Counter::IndexWrites, before.writes, known.writes),
            (Counter::IndexEntriesWritten, before.entries_written, known.entries_written),
            (Counter::IndexDeletes, before.deletes, known.deletes),
            (Counter::IndexEntriesDeleted, before.entries_deleted, known.entries_deleted),
        ] {
            shard.add(counter as usize, now.saturating_sub(before));
        }
    }

    /// Figures by data type.
    pub(crate) const fn data_types(&self) -> &DataTypeStats {
        &self.data_types
    }

    /// Stores the present sums as a sample.
    pub(crate) fn sample(&self) {
        self.samples.keep(Sums::of(&self.shards));
        self.data_types.sample();
    }

    /// Figures since the start and of the last minute.
    #[must_use]
    pub fn snapshot(&self) -> StatsSnapshot {
        StatsSnapshot(self.samples.snapshot(|| Sums::of(&self.shards)))
    }

    /// Figures of a data type since the start and of the last minute; `None` if it was never used.
    /// Grow-only sets count as sets.
    #[must_use]
    pub fn data_type_snapshot(&self, datatype: Datatype) -> Option<DataTypeSnapshot> {
        self.data_types.snapshot(datatype)
    }

    #[expect(clippy::indexing_slicing, reason = "`mine` is the remainder by the number of shards")]
    fn shard(&self) -> &Shard {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
        }
        let mine = MINE.with(|mine| {
            if mine.get() == usize::MAX {
                mine.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARD_COUNT);
            }
            mine.get()
        });
        &self.shards[mine]
    }
}

impl StatsSnapshot {
    /// Number of events since the start.
    #[must_use]
    pub fn total(&self, counter: Counter) -> u64 {
        self.0.total(counter as usize)
    }

    /// Number of events in the last minute.
    #[must_use]
    pub fn last_minute(&self, counter: Counter) -> u64 {
        self.0.last_minute(counter as usize)
    }

    /// Average sum of a quantity per second, over the last minute. For times in microseconds, a result
    /// of 1,000,000 means one request under way at every moment (Little's law).
    #[must_use]
    pub fn sum_per_sec(&self, distribution: Distribution) -> u64 {
        self.0.sum_per_sec(distribution as usize)
    }

    /// Distribution over the last minute. Percentiles are exact to within 1/16 of the value.
    #[must_use]
    pub fn summary(&self, distribution: Distribution) -> LatencySummary {
        self.0.summary(distribution as usize)
    }

    /// Distribution since the start: the number of values below each of `limits`. Exact for limits up
    /// to 16 and for powers of two, because these are borders of buckets.
    #[must_use]
    pub fn cumulative(&self, distribution: Distribution, limits: &[u64]) -> Cumulative {
        self.0.cumulative(distribution as usize, limits)
    }
}

#[cfg(test)]
mod tests {
    use super::recorder::WINDOW_SECS;
    use super::*;

    #[test]
    fn figures_of_the_last_minute_forget_what_is_older() {
        let stats = Stats::default();
        stats.record_put::<()>(1_000, &Ok(()));
        for _ in 0..=WINDOW_SECS {
            stats.sample();
        }
        stats.record_put::<()>(8, &Ok(()));
        let figures = stats.snapshot();
        assert_eq!(figures.total(Counter::Puts), 2);
        assert_eq!(figures.last_minute(Counter::Puts), 1);
        let summary = figures.summary(Distribution::PutTimeUs);
        assert_eq!((summary.count, summary.median, summary.mean), (1, 8, 8));
    }

    #[test]
    fn a_histogram_counts_what_is_below_each_limit() {
        let stats = Stats::default();
        for time_us in [1, 15, 16, 1_023, 1_024, 5_000] {
            stats.record_put::<()>(time_us, &Ok(()));
        }
        let histogram =
            stats.snapshot().cumulative(Distribution::PutTimeUs, &[2, 16, 1_024, 1 << 20]);
        assert_eq!(histogram.at_most, [(1, 1), (15, 2), (1_023, 4), ((1 << 20) - 1, 6)]);
        assert_eq!((histogram.count, histogram.sum), (6, 7_079));
    }

    #[test]
    fn a_failed_request_counts_as_an_error_and_has_no_time() {
        let stats = Stats::default();
        stats.record_put::<()>(5, &Err(RequestError::Timeout));
        let figures = stats.snapshot();
        assert_eq!(figures.total(Counter::PutErrors), 1);
        assert_eq!(figures.summary(Distribution::PutTimeUs), LatencySummary::default());
    }
}
