//! Counters and histograms, and their figures of the last minute.

use parking_lot::Mutex;
use quoit_number::index;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Length of "the last minute" in seconds.
pub(super) const WINDOW_SECS: usize = 60;
/// End of the linear part of a histogram: each lower value has a bucket of its own.
const LINEAR: usize = 16;
/// Number of buckets for each power of two above. A bucket's width is at most 1/8 of its values.
const SUB_BUCKETS: usize = 8;
pub(super) const BUCKET_COUNT: usize = LINEAR + (64 - 4) * SUB_BUCKETS;

/// Counts of events and of values, by index of the counter and the distribution.
pub(super) struct Recorder<const COUNTERS: usize, const DISTRIBUTIONS: usize> {
    counters: [AtomicU64; COUNTERS],
    buckets: Box<[AtomicU64]>,
    sums: [AtomicU64; DISTRIBUTIONS],
}

/// Sums of one recorder or several, at one moment.
#[derive(Clone)]
pub(super) struct Sums<const COUNTERS: usize, const DISTRIBUTIONS: usize> {
    counters: [u64; COUNTERS],
    buckets: Vec<u64>,
    sums: [u64; DISTRIBUTIONS],
}

/// Sums at each second of the last minute.
#[derive(Default)]
pub(super) struct Samples<const COUNTERS: usize, const DISTRIBUTIONS: usize>(
    Mutex<VecDeque<Sums<COUNTERS, DISTRIBUTIONS>>>,
);

/// Figures at one moment.
pub(super) struct Snapshot<const COUNTERS: usize, const DISTRIBUTIONS: usize> {
    now: Sums<COUNTERS, DISTRIBUTIONS>,
    before: Option<Sums<COUNTERS, DISTRIBUTIONS>>,
}

/// A distribution over the last minute. All fields are 0 if there were no values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LatencySummary {
    /// Number of values.
    pub count: u64,
    /// Mean.
    pub mean: u64,
    /// 50th percentile.
    pub median: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest value, to within 1/16.
    pub max: u64,
}

/// A cumulative histogram of a distribution since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cumulative {
    /// Inclusive upper bounds, each with the number of values that do not exceed it.
    pub at_most: Vec<(u64, u64)>,
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum: u64,
}

impl<const COUNTERS: usize, const DISTRIBUTIONS: usize> Default
    for Recorder<COUNTERS, DISTRIBUTIONS>
{
    fn default() -> Self {
        let zero = |_| AtomicU64::new(0);
        Self {
            counters: std::array::from_fn(zero),
            buckets: (0..DISTRIBUTIONS * BUCKET_COUNT).map(|_| AtomicU64::new(0)).collect(),
            sums: std::array::from_fn(zero),
        }
    }
}

impl<const COUNTERS: usize, const DISTRIBUTIONS: usize> Recorder<COUNTERS, DISTRIBUTIONS> {
    /// Counts events. Costs one addition, uncontended unless other threads share the recorder.
    pub(super) fn add(&self, counter: usize, count: u64) {
        self.counters[counter].fetch_add(count, Ordering::Relaxed);
    }

    /// Counts a value of a distribution.
    pub(super) fn record(&self, distribution: usize, value: u64) {
        let bucket = distribution * BUCKET_COUNT + bucket_of(value);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sums[distribution].fetch_add(value, Ordering::Relaxed);
    }

    /// Counts of a distribution's buckets.
    pub(super) fn buckets(&self, distribution: usize) -> &[AtomicU64] {
        &self.buckets[distribution * BUCKET_COUNT..(distribution + 1) * BUCKET_COUNT]
    }
}

impl<const COUNTERS: usize, const DISTRIBUTIONS: usize> Sums<COUNTERS, DISTRIBUTIONS> {
    /// Sums over several recorders.
    pub(super) fn of(recorders: &[Recorder<COUNTERS, DISTRIBUTIONS>]) -> Self {
        let mut sums = Self {
            counters: [0; COUNTERS],
            buckets: vec![0; DISTRIBUTIONS * BUCKET_COUNT],
            sums: [0; DISTRIBUTIONS],
        };
        for recorder in recorders {
            add(&mut sums.counters, &recorder.counters);
            add(&mut sums.buckets, &recorder.buckets);
            add(&mut sums.sums, &recorder.sums);
        }
        sums
    }
}

impl<const COUNTERS: usize, const DISTRIBUTIONS: usize> Samples<COUNTERS, DISTRIBUTIONS> {
    /// Stores the sums of this second.
    pub(super) fn keep(&self, sums: Sums<COUNTERS, DISTRIBUTIONS>) {
        let mut samples = self.0.lock();
        if samples.len() > WINDOW_SECS {
            samples.pop_front();
        }
        samples.push_back(sums);
        debug_assert!(samples.len() <= WINDOW_SECS + 1, "samples span a minute");
    }

    /// A snapshot of the figures. `now` is called after the oldest sample was read; otherwise a
    /// concurrent sample could exceed it, and differences would be negative.
    pub(super) fn snapshot(
        &self,
        now: impl FnOnce() -> Sums<COUNTERS, DISTRIBUTIONS>,
    ) -> Snapshot<COUNTERS, DISTRIBUTIONS> {
        let before = self.0.lock().front().cloned();
        Snapshot { now: now(), before }
    }
}

impl<const COUNTERS: usize, const DISTRIBUTIONS: usize> Snapshot<COUNTERS, DISTRIBUTIONS> {
    /// Number of events since the start.
    pub(super) fn total(&self, counter: usize) -> u64 {
        self.now.counters[counter]
    }

    /// Number of events in the last minute.
    pub(super) fn last_minute(&self, counter: usize) -> u64 {
        self.now.counters[counter] - self.before.as_ref().map_or(0, |sums| sums.counters[counter])
    }

    /// Average sum of a quantity per second, over the last minute.
    pub(super) fn sum_per_sec(&self, distribution: usize) -> u64 {
        let before = self.before.as_ref().map_or(0, |sums| sums.sums[distribution]);
        (self.now.sums[distribution] - before) / WINDOW_SECS as u64
    }

    /// Distribution over the last minute.
    pub(super) fn summary(&self, distribution: usize) -> LatencySummary {
        let range = distribution * BUCKET_COUNT..(distribution + 1) * BUCKET_COUNT;
        let mut counts = self.now.buckets[range.clone()].to_vec();
        let mut sum = self.now.sums[distribution];
        if let Some(before) = &self.before {
            for (count, earlier) in counts.iter_mut().zip(&before.buckets[range]) {
                *count -= earlier;
            }
            sum -= before.sums[distribution];
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

    /// Distribution since the start: the number of values below each of `limits`.
    pub(super) fn cumulative(&self, distribution: usize, limits: &[u64]) -> Cumulative {
        let counts =
            &self.now.buckets[distribution * BUCKET_COUNT..(distribution + 1) * BUCKET_COUNT];
        let below = |limit: u64| counts[..bucket_of(limit)].iter().sum();
        Cumulative {
            at_most: limits.iter().map(|limit| (limit.saturating_sub(1), below(*limit))).collect(),
            count: counts.iter().sum(),
            sum: self.now.sums[distribution],
        }
    }
}

pub(super) fn add(into: &mut [u64], from: &[AtomicU64]) {
    for (sum, part) in into.iter_mut().zip(from) {
        *sum += part.load(Ordering::Relaxed);
    }
}

fn bucket_of(value: u64) -> usize {
    if value < LINEAR as u64 {
        return index(value);
    }
    let exponent = 63 - value.leading_zeros() as usize;
    let mantissa = index(value >> (exponent - 3)) & (SUB_BUCKETS - 1);
    let bucket = LINEAR + (exponent - 4) * SUB_BUCKETS + mantissa;
    debug_assert!(bucket < BUCKET_COUNT, "a value counts for its own distribution");
    bucket
}

/// The middle of a bucket's values.
fn value_of(bucket: usize) -> u64 {
    if bucket < LINEAR {
        return bucket as u64;
    }
    let exponent = (bucket - LINEAR) / SUB_BUCKETS + 4;
    let mantissa = ((bucket - LINEAR) % SUB_BUCKETS) as u64;
    let width = 1u64 << (exponent - 3);
    (1u64 << exponent) + mantissa * width + width / 2
}

/// A percentile of values that were counted in buckets; 0 if there are none.
pub(super) fn percentile(counts: &[u64], percent: u64) -> u64 {
    let count: u64 = counts.iter().sum();
    let wanted = (count * percent).div_ceil(100).max(1);
    let mut seen = 0;
    let reaches = |each: &u64| {
        seen += each;
        seen >= wanted
    };
    counts.iter().position(reaches).map_or(0, value_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_falls_into_a_bucket_whose_middle_is_within_a_sixteenth() {
        for value in (0..10_000).chain((0..50).map(|shift| 12_345u64 << (shift % 50))) {
            let middle = value_of(bucket_of(value));
            let off = middle.abs_diff(value);
            assert!(off * 16 <= value.max(1) || value < LINEAR as u64, "{value} reads as {middle}");
        }
        assert!(bucket_of(u64::MAX) < BUCKET_COUNT);
    }
}
