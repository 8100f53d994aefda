//! Counts and latencies of operations within a span of time.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::breakdown::Breakdown;
use super::moments::OperationTimes;
use crate::term::Term;

/// Number of significant decimal digits of a recorded latency, whose error is below 0.1 %.
pub(super) const SIGNIFICANT_DIGITS: u8 = 3;

/// Maximum relative error of a percentile.
pub(crate) const PERCENTILE_ERROR: f64 = 0.001;

/// Maximum number of distinct reasons of errors; errors for further reasons are counted as `other`.
const ERROR_REASONS_MAX: usize = 10_000;

/// Statistics of one operation within a span of time.
#[derive(Debug, Clone)]
pub struct OperationStats {
    latencies_ns: Histogram<u64>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    error_count: u64,
}

/// Latencies of the successful operations within a span, in microseconds. All 0 if there are none.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Latencies {
    /// Number of operations.
    pub count: u64,
    /// The minimum.
    pub min_us: u64,
    /// The arithmetic mean.
    pub mean_us: f64,
    /// The median, by nearest rank.
    pub median_us: u64,
    /// The 95th percentile, by nearest rank.
    pub p95_us: u64,
    /// The 99th percentile, by nearest rank.
    pub p99_us: u64,
    /// The 99.9th percentile, by nearest rank.
    pub p99_9_us: u64,
    /// The maximum.
    pub max_us: u64,
}

impl Latencies {
    /// The seven figures of a table in microseconds: minimum, mean, median, 95th, 99th and 99.9th
    /// percentile, maximum.
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

/// Latencies of all operations within a span. A failed operation counts with the time until it failed.
/// Since an answer would have taken longer, percentiles at or above such a time are lower bounds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Attempts {
    /// Latencies of successful and failed operations together.
    pub latencies: Latencies,
    /// The shortest time until an operation failed, in microseconds. Figures from this time on are lower
    /// bounds.
    #[serde(rename = "least_failed_us")]
    pub earliest_failure_us: u64,
}

impl Attempts {
    /// For each [figure](Latencies::figures_us), true if the true value may be greater. That of the mean
    /// always may be.
    #[must_use]
    pub fn lower_bounds(&self) -> [bool; 7] {
        // A percentile is only known within the error of the histogram.
        let least_us = self.earliest_failure_us as f64 * (1.0 - PERCENTILE_ERROR);
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
    /// Empty statistics.
    pub fn new() -> Self {
        let latencies_ns =
            Histogram::new(SIGNIFICANT_DIGITS).expect("three digits are in the range of the crate");
        Self { latencies_ns, sum_ns: 0, min_ns: u64::MAX, max_ns: 0, error_count: 0 }
    }

    /// Assembles the statistics of an interval log: the histogram, if anything succeeded, the exact sum,
    /// minimum and maximum, and the number of failures.
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

    /// Latencies of the successful operations in nanoseconds, with an error below 0.1 %.
    pub fn histogram_ns(&self) -> &Histogram<u64> {
        &self.latencies_ns
    }

    /// The exact sum, minimum and maximum of the latencies in nanoseconds; all 0 if nothing succeeded.
    pub(super) fn exact_ns(&self) -> (u128, u64, u64) {
        match self.count() {
            0 => (0, 0, 0),
            _ => (self.sum_ns, self.min_ns, self.max_ns),
        }
    }

    /// Counts a success. Allocates only if the latency exceeds all earlier ones.
    #[inline]
    pub(crate) fn record(&mut self, latency_ns: u64) {
        let recorded = self.latencies_ns.record(latency_ns);
        recorded.expect("a histogram that grows takes any latency");
        self.sum_ns += u128::from(latency_ns);
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
    }

    /// Number of successful operations.
    pub fn count(&self) -> u64 {
        self.latencies_ns.len()
    }

    /// Number of failed operations.
    pub fn error_count(&self) -> u64 {
        self.error_count
    }

    /// Adds the statistics of another span.
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

    /// The latencies. A quantile p is the element of nearest rank, number `round(p * count)`.
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

    /// The latencies of these successes and of `failed`, which holds the times until operations failed.
    /// `None` if no operation failed.
    #[must_use]
    pub fn attempts(&self, failed: &Self) -> Option<Attempts> {
        (failed.count() > 0).then(|| {
            let mut all = self.clone();
            all.add(failed);
            Attempts { latencies: all.latencies(), earliest_failure_us: to_us(failed.min_ns) }
        })
    }

    /// The values at ascending quantiles, found in one pass. The value of the last element is exact; any
    /// other is the middle of its histogram bucket.
    fn quantiles_us<const N: usize>(&self, quantiles: [f64; N]) -> [u64; N] {
        let count = self.count();
        let ranks = quantiles.map(|quantile| quoit_number::rounded(quantile * count as f64).max(1));
        let mut values = [to_us(self.max_ns); N];
        let mut wanted = ranks.into_iter().zip(&mut values).peekable();
        let mut reached = 0;
        for step in self.latencies_ns.iter_recorded() {
            reached += step.count_since_last_iteration();
            while let Some((_, value)) =
                wanted.next_if(|(rank, _)| *rank <= reached && *rank < count)
            {
                let middle_ns = self.latencies_ns.median_equivalent(step.value_iterated_to());
                *value = to_us(middle_ns.clamp(self.min_ns, self.max_ns));
            }
        }
        values
    }
}

/// The statistics of an operation among those of all operations of the mix.
#[inline]
#[expect(
    clippy::indexing_slicing,
    reason = "operations have numbers below that of the mix's entries"
)]
pub(super) fn of_operation(stats: &mut [OperationStats], operation: usize) -> &mut OperationStats {
    &mut stats[operation]
}

/// Converts nanoseconds to microseconds, rounded to nearest.
fn to_us(ns: u64) -> u64 {
    ns.saturating_add(500) / 1000
}

/// Statistics of all operations within a span of time.
#[derive(Debug, Clone)]
pub struct Window {
    operations: Vec<OperationStats>,
    breakdown: Breakdown,
    errors: BTreeMap<(usize, Term), u64>,
    is_empty: bool,
}

impl Window {
    /// An empty window for `operation_count` operations.
    pub(crate) fn new(operation_count: usize) -> Self {
        let operations = (0..operation_count).map(|_| OperationStats::new()).collect();
        let breakdown = Breakdown::new(operation_count);
        Self { operations, breakdown, errors: BTreeMap::new(), is_empty: true }
    }

    /// The parts of the operations' latencies.
    pub fn breakdown(&self) -> &Breakdown {
        &self.breakdown
    }

    /// The statistics of each operation, in the order of the mix.
    pub fn operations(&self) -> &[OperationStats] {
        &self.operations
    }

    /// Number of failures by operation and reason.
    pub fn errors(&self) -> &BTreeMap<(usize, Term), u64> {
        &self.errors
    }

    /// The failures with their operations, which are given in the order of the mix.
    #[expect(
        clippy::indexing_slicing,
        reason = "operations have numbers below that of the mix's entries"
    )]
    pub(crate) fn errors_of<'a, T>(
        &'a self,
        operations: &'a [T],
    ) -> impl Iterator<Item = (&'a T, &'a Term, u64)> {
        let errors = self.errors.iter();
        errors.map(|((operation, reason), count)| (&operations[*operation], reason, *count))
    }

    /// True if nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Number of successful operations.
    pub fn success_count(&self) -> u64 {
        self.operations.iter().map(OperationStats::count).sum()
    }

    /// Number of failed operations.
    pub fn error_count(&self) -> u64 {
        self.operations.iter().map(OperationStats::error_count).sum()
    }

    #[inline]
    pub(crate) fn record(&mut self, operation: usize, moments: &OperationTimes) {
        self.is_empty = false;
        // 64 bits hold the nanoseconds of 584 years.
        let latency_ns = quoit_number::low_u64(moments.latency().as_nanos());
        of_operation(&mut self.operations, operation).record(latency_ns);
        self.breakdown.record(operation, moments);
    }

    /// Counts a failure that occurred `elapsed` after the operation should have begun.
    pub(crate) fn record_error(&mut self, operation: usize, reason: Term, elapsed: Duration) {
        self.is_empty = false;
        of_operation(&mut self.operations, operation).error_count += 1;
        self.breakdown.record_failed(operation, elapsed);
        self.count_errors(operation, reason, 1);
    }

    pub(super) fn record_canary(&mut self, elapsed: Duration) {
        self.is_empty = false;
        self.breakdown.record_canary(elapsed);
    }

    /// Assembles a window from operations and their breakdown, without reasons of failures.
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

    /// Adds another window of the same operations.
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

    /// Empties the window but keeps its memory.
    pub(crate) fn clear(&mut self) {
        if !self.is_empty {
            self.operations.iter_mut().for_each(OperationStats::clear);
            self.breakdown.clear();
            self.errors.clear();
            self.is_empty = true;
        }
    }
}
