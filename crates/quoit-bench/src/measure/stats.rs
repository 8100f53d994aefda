//! Counts and latencies of operations in a span of time.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::breakdown::Breakdown;
use super::moments::Moments;
use crate::term::Term;

/// Significant decimal digits of a recorded latency: its error is below 0.1 %.
pub(super) const SIGNIFICANT_DIGITS: u8 = 3;

/// Greatest error of a percentile, as a share of it.
pub(crate) const PERCENTILE_ERROR: f64 = 0.001;

/// Distinct reasons of errors that are counted apart; further ones are counted as `other`.
const ERROR_REASONS_MAX: usize = 10_000;

/// One operation in a span of time.
#[derive(Debug, Clone)]
pub struct OperationStats {
    latencies_ns: Histogram<u64>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    error_count: u64,
}

/// Latencies of the successful operations of a span, in microseconds. All 0 when there are none.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Latencies {
    /// How many operations.
    pub count: u64,
    /// The least.
    pub min_us: u64,
    /// The arithmetic mean.
    pub mean_us: f64,
    /// Of nearest rank 0.5.
    pub median_us: u64,
    /// Of nearest rank 0.95.
    pub p95_us: u64,
    /// Of nearest rank 0.99.
    pub p99_us: u64,
    /// Of nearest rank 0.999.
    pub p99_9_us: u64,
    /// The greatest.
    pub max_us: u64,
}

impl Latencies {
    /// The figures of a table in microseconds: least, mean, median, 95 %, 99 %, 99.9 %, greatest.
    #[must_use]
    pub fn figures_us(&self) -> [f64; 7] {
        [
            self.min_us as f64,
            self.mean_us,
            self.median_us as f64,
            self.p95_us as f64,
            self.p99_us as f64,
            self.p99_9_us as f64,
            self.max_us as f64,
        ]
    }
}

/// Latencies of all operations of a span. A failed operation counts with the time after which it failed: an
/// answer would have taken longer, so percentiles that reach such a time are lower bounds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Attempts {
    /// Successful and failed operations together.
    pub latencies: Latencies,
    /// The least time after which an operation failed, in microseconds: figures from this one on are lower
    /// bounds.
    pub least_failed_us: u64,
}

impl Attempts {
    /// Whether the true value of each [figure](Latencies::figures_us) may be greater. A mean always may.
    #[must_use]
    pub fn lower_bounds(&self) -> [bool; 7] {
        // A percentile is known within the error of the histogram.
        let least_us = self.least_failed_us as f64 * (1.0 - PERCENTILE_ERROR);
        let mut bounds = self.latencies.figures_us().map(|us| us >= least_us);
        bounds[1] = true;
        bounds
    }
}

impl Default for OperationStats {
    fn default() -> Self {
        Self::new()
    }
}

impl OperationStats {
    /// Nothing yet.
    pub fn new() -> Self {
        let latencies_ns =
            Histogram::new(SIGNIFICANT_DIGITS).expect("three digits are in the range of the crate");
        Self { latencies_ns, sum_ns: 0, min_ns: u64::MAX, max_ns: 0, error_count: 0 }
    }

    /// Puts the statistics of an interval log together: its histogram, if anything succeeded, with
    /// the exact sum, least and greatest latency, and the failures.
    pub(super) fn from_parts(
        histogram_ns: Option<Histogram<u64>>,
        sum_ns: u128,
        (min_ns, max_ns): (u64, u64),
        error_count: u64,
    ) -> Self {
        let mut stats = Self::new();
        stats.error_count = error_count;
        if let Some(histogram_ns) = histogram_ns {
            stats.latencies_ns = histogram_ns;
            stats.latencies_ns.auto(true);
            (stats.sum_ns, stats.min_ns, stats.max_ns) = (sum_ns, min_ns, max_ns);
        }
        stats
    }

    /// Latencies of the successful operations in nanoseconds, within 0.1 %.
    pub fn histogram_ns(&self) -> &Histogram<u64> {
        &self.latencies_ns
    }

    /// The exact sum, least and greatest latency in nanoseconds; all 0 when nothing succeeded.
    pub(super) fn exact_ns(&self) -> (u128, u64, u64) {
        match self.count() {
            0 => (0, 0, 0),
            _ => (self.sum_ns, self.min_ns, self.max_ns),
        }
    }

    /// Counts a success. Allocates only when a latency is greater than any before.
    #[inline]
    pub(crate) fn record(&mut self, latency_ns: u64) {
        let recorded = self.latencies_ns.record(latency_ns);
        recorded.expect("a histogram that grows takes any latency");
        self.sum_ns += u128::from(latency_ns);
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
    }

    /// Successful operations.
    pub fn count(&self) -> u64 {
        self.latencies_ns.len()
    }

    /// Failed operations.
    pub fn error_count(&self) -> u64 {
        self.error_count
    }

    /// Adds what another span holds.
    pub fn add(&mut self, other: &Self) {
        self.latencies_ns.add(&other.latencies_ns).expect("histograms that grow can be added");
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.error_count += other.error_count;
    }

    pub(super) fn clear(&mut self) {
        self.latencies_ns.reset();
        self.sum_ns = 0;
        self.min_ns = u64::MAX;
        self.max_ns = 0;
        self.error_count = 0;
    }

    /// The latencies, with quantiles of nearest rank: element number `round(p * count)`.
    pub fn latencies(&self) -> Latencies {
        let count = self.count();
        if count == 0 {
            return Latencies::default();
        }
        let [median_us, p95_us, p99_us, p99_9_us] = self.quantiles_us([0.5, 0.95, 0.99, 0.999]);
        Latencies {
            count,
            min_us: to_us(self.min_ns),
            mean_us: self.sum_ns as f64 / count as f64 / 1000.0,
            median_us,
            p95_us,
            p99_us,
            p99_9_us,
            max_us: to_us(self.max_ns),
        }
    }

    /// The latencies of these successes and of `failed`, the times after which others failed; nothing when
    /// none did.
    #[must_use]
    pub fn attempts(&self, failed: &Self) -> Option<Attempts> {
        (failed.count() > 0).then(|| {
            let mut all = self.clone();
            all.add(failed);
            Attempts { latencies: all.latencies(), least_failed_us: to_us(failed.min_ns) }
        })
    }

    /// Values at ascending quantiles, in one pass. The last element is exact, others are the
    /// middle of what the histogram cannot tell apart.
    fn quantiles_us<const N: usize>(&self, quantiles: [f64; N]) -> [u64; N] {
        let count = self.count();
        let ranks = quantiles.map(|quantile| ((quantile * count as f64).round() as u64).max(1));
        let mut values = [to_us(self.max_ns); N];
        let (mut reached, mut next) = (0, 0);
        for step in self.latencies_ns.iter_recorded() {
            reached += step.count_since_last_iteration();
            while next < N && ranks[next] <= reached && ranks[next] < count {
                let middle_ns = self.latencies_ns.median_equivalent(step.value_iterated_to());
                values[next] = to_us(middle_ns.clamp(self.min_ns, self.max_ns));
                next += 1;
            }
        }
        values
    }
}

/// Nanoseconds in microseconds, to the nearest.
fn to_us(ns: u64) -> u64 {
    ns.saturating_add(500) / 1000
}

/// Every operation in a span of time.
#[derive(Debug, Clone)]
pub struct Window {
    operations: Vec<OperationStats>,
    breakdown: Breakdown,
    errors: BTreeMap<(usize, Term), u64>,
    is_empty: bool,
}

impl Window {
    /// An empty window for a number of operations.
    pub(crate) fn new(operation_count: usize) -> Self {
        let operations = (0..operation_count).map(|_| OperationStats::new()).collect();
        let breakdown = Breakdown::new(operation_count);
        Self { operations, breakdown, errors: BTreeMap::new(), is_empty: true }
    }

    /// Where the time of the operations went.
    pub fn breakdown(&self) -> &Breakdown {
        &self.breakdown
    }

    /// One entry for each operation of the mix, in its order.
    pub fn operations(&self) -> &[OperationStats] {
        &self.operations
    }

    /// Failures by operation and reason.
    pub fn errors(&self) -> &BTreeMap<(usize, Term), u64> {
        &self.errors
    }

    /// True when nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Successful operations of every kind.
    pub fn success_count(&self) -> u64 {
        self.operations.iter().map(OperationStats::count).sum()
    }

    /// Failed operations of every kind.
    pub fn error_count(&self) -> u64 {
        self.operations.iter().map(OperationStats::error_count).sum()
    }

    #[inline]
    pub(crate) fn record(&mut self, operation: usize, moments: &Moments) {
        self.is_empty = false;
        self.operations[operation].record(moments.latency().as_nanos() as u64);
        self.breakdown.record(operation, moments);
    }

    /// Counts a failure `elapsed` after the operation should have begun.
    pub(crate) fn record_error(&mut self, operation: usize, reason: Term, elapsed: Duration) {
        self.is_empty = false;
        self.operations[operation].error_count += 1;
        self.breakdown.record_failed(operation, elapsed);
        self.count_errors(operation, reason, 1);
    }

    pub(super) fn record_canary(&mut self, elapsed: Duration) {
        self.is_empty = false;
        self.breakdown.record_canary(elapsed);
    }

    /// A window of operations and their breakdown, without reasons of failures.
    pub(super) fn of_parts(operations: Vec<OperationStats>, breakdown: Breakdown) -> Self {
        let has = |stats: &OperationStats| stats.count() + stats.error_count() > 0;
        let is_empty = !operations.iter().any(has) && breakdown.canary().count() == 0;
        Self { operations, breakdown, errors: BTreeMap::new(), is_empty }
    }

    /// Counts failures of an operation for one reason.
    pub(super) fn count_errors(&mut self, operation: usize, reason: Term, count: u64) {
        let mut key = (operation, reason);
        if self.errors.len() >= ERROR_REASONS_MAX && !self.errors.contains_key(&key) {
            key.1 = Term::atom("other");
        }
        *self.errors.entry(key).or_insert(0) += count;
    }

    /// Adds what another window of the same operations holds.
    pub(crate) fn add(&mut self, other: &Self) {
        if other.is_empty {
            return;
        }
        self.is_empty = false;
        for (mine, theirs) in self.operations.iter_mut().zip(&other.operations) {
            mine.add(theirs);
        }
        self.breakdown.add(&other.breakdown);
        for ((operation, reason), count) in &other.errors {
            self.count_errors(*operation, reason.clone(), *count);
        }
    }

    /// Empties the window, keeping its memory.
    pub(crate) fn clear(&mut self) {
        if !self.is_empty {
            self.operations.iter_mut().for_each(OperationStats::clear);
            self.breakdown.clear();
            self.errors.clear();
            self.is_empty = true;
        }
    }
}
