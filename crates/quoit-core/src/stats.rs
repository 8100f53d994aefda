//! Counters and latency histograms, written without contention and summed when read.
//!
//! Each thread writes its own shard; a reader sums the shards. Once a second [`Stats::sample`]
//! keeps the sums, so that figures "of the last minute" are the difference of two samples.

mod times;

use crate::error::RequestError;
use crate::in_place::Found;
use parking_lot::Mutex;
use quoit_model::object::Object;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub(crate) use times::Times;

/// Seconds that "the last minute" has.
const WINDOW_SECS: usize = 60;
/// Shards; threads beyond that share.
const SHARD_COUNT: usize = 16;
/// Linear part of a histogram: values below have buckets of their own.
const LINEAR: u64 = 16;
/// Buckets for each power of two above: a value is known to within 1/8.
const SUB_BUCKETS: usize = 8;
const BUCKET_COUNT: usize = LINEAR as usize + (64 - 4) * SUB_BUCKETS;

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
    /// Replicas that were sent what they lacked, after a read found it out.
    ReadRepairs,
    /// Repairs that were left to anti-entropy because the replica could not be sent anything.
    ReadRepairsSkipped,
    /// Writes that another node coordinated for this one.
    CoordinatorRedirects,
    /// Objects that other nodes have sent to this one's copies.
    ReplicaPuts,
    /// Copies and digests that other nodes have asked this one for.
    ReplicaGets,
    /// Reads refused because too many were under way.
    GetsRejected,
    /// Writes refused because too many were under way.
    PutsRejected,
    /// Comparisons of copies with another node, begun here.
    Exchanges,
    /// Of these, ended because everything was equal.
    ExchangesInSync,
    /// Ended because what differed had vanished after a moment.
    ExchangesSettled,
    /// Ended by repairing what differed.
    ExchangesRepaired,
    /// Ended because the other node could not go on, or this one.
    ExchangeErrors,
    /// Ended because the other node did not answer in time.
    ExchangeTimeouts,
    /// Records repaired on either side by exchanges begun here.
    ExchangeKeysRepaired,
    /// Bytes of objects sent and fetched for that.
    ExchangeBytesRepaired,
    /// Bytes of the data on disk that were read to find damage.
    VerifiedBytes,
    /// Damaged records found by that.
    DamagedRecords,
    /// Of these, replaced by what other replicas have.
    HealedRecords,
    /// Copies of partitions made here in the place of those of nodes that are gone.
    CopiesRestored,
    /// Of [`Counter::CoordinatorRedirects`], those after another node had refused because it had too much to
    /// do.
    CoordinatorRedirectsLoaded,
}
const COUNTER_COUNT: usize = 24;

/// Quantities whose distribution is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Distribution {
    /// Microseconds from request to answer of a read.
    GetTimeUs,
    /// Microseconds from request to answer of a write.
    PutTimeUs,
    /// Siblings of objects read.
    GetSiblings,
    /// Bytes of the values of objects read.
    GetObjectBytes,
}
const DISTRIBUTION_COUNT: usize = 4;

/// What statistics keep of an object that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    sibling_count: u64,
    value_bytes: u64,
}

impl Sizes {
    pub(crate) fn of(found: &Found<'_>) -> Self {
        match found {
            Found::Plain(plain) => Self { sibling_count: 1, value_bytes: plain.value.len() as u64 },
            Found::Whole(object) => Self::of_object(object),
        }
    }

    pub(crate) fn of_object(object: &Object) -> Self {
        let value_bytes: usize = object.siblings.iter().map(|each| each.value.len()).sum();
        Self { sibling_count: object.siblings.len() as u64, value_bytes: value_bytes as u64 }
    }
}

struct Shard {
    counters: [AtomicU64; COUNTER_COUNT],
    buckets: Box<[AtomicU64]>,
    sums: [AtomicU64; DISTRIBUTION_COUNT],
}

impl Default for Shard {
    fn default() -> Self {
        Self {
            counters: Default::default(),
            buckets: (0..DISTRIBUTION_COUNT * BUCKET_COUNT).map(|_| AtomicU64::new(0)).collect(),
            sums: Default::default(),
        }
    }
}

#[derive(Clone)]
struct Sums {
    counters: [u64; COUNTER_COUNT],
    buckets: Vec<u64>,
    sums: [u64; DISTRIBUTION_COUNT],
}

/// Counters and histograms of a store.
pub struct Stats {
    shards: Box<[Shard]>,
    samples: Mutex<VecDeque<Sums>>,
}

/// A distribution over the last minute. All zero when there were no samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LatencySummary {
    /// Number of samples.
    pub count: u64,
    /// Mean.
    pub mean: u64,
    /// 50th percentile.
    pub median: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest.
    pub max: u64,
}

/// A distribution since the start, in the form of histograms.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cumulative {
    /// Upper bounds, inclusive, and how many values are not above each.
    pub at_most: Vec<(u64, u64)>,
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum: u64,
}

/// Figures at one moment.
pub struct StatsSnapshot {
    now: Sums,
    before: Option<Sums>,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            shards: (0..SHARD_COUNT).map(|_| Shard::default()).collect(),
            samples: Mutex::default(),
        }
    }
}

impl Stats {
    /// Counts a read and what it found. Costs a few uncontended additions.
    pub(crate) fn record_get(&self, time_us: u64, result: &Result<Option<Sizes>, &RequestError>) {
        let shard = self.shard();
        shard.count(Counter::Gets);
        match result {
            Ok(found) => {
                shard.record(Distribution::GetTimeUs, time_us);
                if let Some(sizes) = found {
                    shard.record(Distribution::GetSiblings, sizes.sibling_count);
                    shard.record(Distribution::GetObjectBytes, sizes.value_bytes);
                }
            }
            Err(_) => shard.count(Counter::GetErrors),
        }
    }

    /// Counts a write. Costs a few uncontended additions.
    pub(crate) fn record_put<T>(&self, time_us: u64, result: &Result<T, RequestError>) {
        let shard = self.shard();
        shard.count(Counter::Puts);
        match result {
            Ok(_) => shard.record(Distribution::PutTimeUs, time_us),
            Err(_) => shard.count(Counter::PutErrors),
        }
    }

    /// Counts an event. Costs one uncontended addition.
    pub(crate) fn count(&self, counter: Counter) {
        self.shard().count(counter);
    }

    /// Counts several events at once.
    pub(crate) fn add(&self, counter: Counter, count: u64) {
        self.shard().add(counter, count);
    }

    /// Keeps the present sums; call it once a second.
    pub fn sample(&self) {
        let sums = self.sums();
        let mut samples = self.samples.lock();
        if samples.len() > WINDOW_SECS {
            samples.pop_front();
        }
        samples.push_back(sums);
    }

    /// Figures since the start and of the last minute.
    #[must_use]
    pub fn snapshot(&self) -> StatsSnapshot {
        // The earlier figures first: taken after the present ones they could be above them.
        let before = self.samples.lock().front().cloned();
        StatsSnapshot { now: self.sums(), before }
    }

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

    fn sums(&self) -> Sums {
        let mut sums = Sums {
            counters: [0; COUNTER_COUNT],
            buckets: vec![0; DISTRIBUTION_COUNT * BUCKET_COUNT],
            sums: [0; DISTRIBUTION_COUNT],
        };
        for shard in &self.shards {
            add(&mut sums.counters, &shard.counters);
            add(&mut sums.buckets, &shard.buckets);
            add(&mut sums.sums, &shard.sums);
        }
        sums
    }
}

fn add(into: &mut [u64], from: &[AtomicU64]) {
    for (sum, part) in into.iter_mut().zip(from) {
        *sum += part.load(Ordering::Relaxed);
    }
}

impl Shard {
    fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    fn add(&self, counter: Counter, count: u64) {
        self.counters[counter as usize].fetch_add(count, Ordering::Relaxed);
    }

    fn record(&self, distribution: Distribution, value: u64) {
        let bucket = distribution as usize * BUCKET_COUNT + bucket_of(value);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sums[distribution as usize].fetch_add(value, Ordering::Relaxed);
    }
}

fn bucket_of(value: u64) -> usize {
    if value < LINEAR {
        return value as usize;
    }
    let exponent = 63 - value.leading_zeros() as usize;
    let mantissa = (value >> (exponent - 3)) as usize & (SUB_BUCKETS - 1);
    LINEAR as usize + (exponent - 4) * SUB_BUCKETS + mantissa
}

/// The middle of a bucket's values.
fn value_of(bucket: usize) -> u64 {
    if bucket < LINEAR as usize {
        return bucket as u64;
    }
    let exponent = (bucket - LINEAR as usize) / SUB_BUCKETS + 4;
    let mantissa = ((bucket - LINEAR as usize) % SUB_BUCKETS) as u64;
    let width = 1u64 << (exponent - 3);
    (1u64 << exponent) + mantissa * width + width / 2
}

/// A percentile of values that were counted in buckets; 0 if there are none.
fn percentile(counts: &[u64], percent: u64) -> u64 {
    let count: u64 = counts.iter().sum();
    let wanted = (count * percent).div_ceil(100).max(1);
    let mut seen = 0;
    let reaches = |each: &u64| {
        seen += each;
        seen >= wanted
    };
    counts.iter().position(reaches).map_or(0, value_of)
}

impl StatsSnapshot {
    /// Events since the start.
    #[must_use]
    pub fn total(&self, counter: Counter) -> u64 {
        self.now.counters[counter as usize]
    }

    /// Events of the last minute.
    #[must_use]
    pub fn last_minute(&self, counter: Counter) -> u64 {
        let before = self.before.as_ref().map_or(0, |sums| sums.counters[counter as usize]);
        self.now.counters[counter as usize] - before
    }

    /// How much of a distribution's quantity there was in a second of the last minute, on average. Of times
    /// in microseconds a million is one request under way at every moment (Little's law).
    #[must_use]
    pub fn sum_per_sec(&self, distribution: Distribution) -> u64 {
        let index = distribution as usize;
        let before = self.before.as_ref().map_or(0, |sums| sums.sums[index]);
        (self.now.sums[index] - before) / WINDOW_SECS as u64
    }

    /// A distribution over the last minute. Percentiles are exact to within 1/16 of the value.
    #[must_use]
    pub fn summary(&self, distribution: Distribution) -> LatencySummary {
        let index = distribution as usize;
        let range = index * BUCKET_COUNT..(index + 1) * BUCKET_COUNT;
        let mut counts = self.now.buckets[range.clone()].to_vec();
        let mut sum = self.now.sums[index];
        if let Some(before) = &self.before {
            for (count, earlier) in counts.iter_mut().zip(&before.buckets[range]) {
                *count -= earlier;
            }
            sum -= before.sums[index];
        }
        let count: u64 = counts.iter().sum();
        if count == 0 {
            return LatencySummary::default();
        }
        let rank = |percent: u64| percentile(&counts, percent);
        LatencySummary {
            count,
            mean: sum / count,
            median: rank(50),
            p95: rank(95),
            p99: rank(99),
            max: rank(100),
        }
    }

    /// A distribution since the start, counted up to just below each of `limits`. Exact for limits
    /// up to 16 and powers of two: there the buckets that values are counted in begin.
    #[must_use]
    pub fn cumulative(&self, distribution: Distribution, limits: &[u64]) -> Cumulative {
        let index = distribution as usize;
        let counts = &self.now.buckets[index * BUCKET_COUNT..(index + 1) * BUCKET_COUNT];
        let below = |limit: u64| counts[..bucket_of(limit)].iter().sum();
        Cumulative {
            at_most: limits.iter().map(|limit| (limit.saturating_sub(1), below(*limit))).collect(),
            count: counts.iter().sum(),
            sum: self.now.sums[index],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_falls_into_a_bucket_whose_middle_is_within_a_sixteenth() {
        for value in (0..10_000).chain((0..50).map(|shift| 12_345u64 << (shift % 50))) {
            let middle = value_of(bucket_of(value));
            let off = middle.abs_diff(value);
            assert!(off * 16 <= value.max(1) || value < LINEAR, "{value} reads as {middle}");
        }
        assert!(bucket_of(u64::MAX) < BUCKET_COUNT);
    }

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
