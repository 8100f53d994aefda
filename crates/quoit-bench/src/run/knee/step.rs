//! One step of a search: its samples, and the verdict on its rate.

use std::time::Duration;

use crate::config::KneePlan;
use crate::measure::OperationStats;
use crate::run::RunReport;
use crate::run::knee_table::KneeRow;

/// Number of samples by which one verdict must lead over the other.
const LEAD: usize = 2;

/// Maximum number of samples of a step that count towards its verdict.
const SAMPLE_COUNT_MAX: usize = 5;

/// Number of client-bound samples after which a step is given up.
const CLIENT_BOUND_COUNT_MAX: usize = 2;

/// Maximum share of a step's operations that may fail or stay unstarted.
const UNDONE_SHARE_MAX: f64 = 0.01;

/// One measurement of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) successful_per_s: f64,
    pub(super) p99_us: u64,
    /// Number of operations that failed, or were due and never started.
    pub(super) undone: u64,
    pub(super) client_bound: bool,
    pub(super) is_within: bool,
}

impl Sample {
    pub(super) fn new(plan: KneePlan, report: &RunReport) -> Self {
        let mut all = OperationStats::new();
        report.total.operations().iter().for_each(|stats| all.add(stats));
        let undone = all.error_count() + report.unstarted;
        let asked = (all.count() + undone).max(1);
        let p99_us = p99_us(&all, undone);
        let is_quick = Duration::from_micros(p99_us) <= plan.p99_max;
        let is_done = undone as f64 <= UNDONE_SHARE_MAX * asked as f64;
        Self {
            successful_per_s: all.count() as f64 / report.elapsed.as_secs_f64().max(1e-6),
            p99_us,
            undone,
            client_bound: report.client.client_bound,
            is_within: is_quick && is_done && all.count() > 0,
        }
    }
}

/// The 99th percentile over all operations that were due, in microseconds. Operations that failed or never
/// started rank after the slowest success, because the time after which they would have succeeded is
/// unknown.
fn p99_us(successes: &OperationStats, undone: u64) -> u64 {
    let count = successes.count().max(1);
    let rank_share = 0.99 * (count + undone) as f64 / count as f64;
    successes.histogram_ns().value_at_quantile(rank_share.min(1.0)) / 1000
}

/// The verdict on a step, from all of its samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepVerdict {
    Within,
    Beyond,
    /// The load generator was saturated, so the samples say nothing about the server.
    ClientBound,
}

/// A rate that was tried, with its samples.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) offered_per_s: f64,
    pub(super) samples: Vec<Sample>,
}

impl Step {
    /// The verdict on the step; `None` if more samples are needed.
    ///
    /// This is a sequential test of the share of samples within the bound (Wald, "Sequential Tests of
    /// Statistical Hypotheses", 1945). Between shares of 4/5 and 1/5, a lead of two samples is wrong in one
    /// of 17 cases. After five samples the majority decides. A first sample within half of the bound
    /// decides alone. Client-bound samples do not count; two of them end the step.
    pub(super) fn verdict(&self, plan: KneePlan) -> Option<StepVerdict> {
        let count = |test: fn(&Sample) -> bool| self.samples.iter().filter(|s| test(s)).count();
        let within = count(|sample| !sample.client_bound && sample.is_within);
        let beyond = count(|sample| !sample.client_bound && !sample.is_within);
        if count(|sample| sample.client_bound) >= CLIENT_BOUND_COUNT_MAX {
            return Some(StepVerdict::ClientBound);
        }
        let is_clear = |sample: &Sample| {
            sample.is_within && Duration::from_micros(sample.p99_us) * 2 <= plan.p99_max
        };
        if (within, beyond) == (1, 0) && self.accepted().next().is_some_and(is_clear) {
            return Some(StepVerdict::Within);
        }
        let is_decided = within.abs_diff(beyond) >= LEAD || within + beyond >= SAMPLE_COUNT_MAX;
        is_decided.then_some(if within > beyond {
            StepVerdict::Within
        } else {
            StepVerdict::Beyond
        })
    }

    /// The samples that are not client-bound.
    fn accepted(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(|sample| !sample.client_bound)
    }

    /// The row of the step, with the medians of its samples.
    #[expect(clippy::indexing_slicing, reason = "a verdict is that of at least one sample")]
    pub(super) fn row(&self, verdict: StepVerdict) -> KneeRow {
        let are_bound = verdict == StepVerdict::ClientBound;
        let samples: Vec<&Sample> =
            self.samples.iter().filter(|sample| sample.client_bound == are_bound).collect();
        let sorted = |value: fn(&Sample) -> f64| {
            let mut values: Vec<f64> = samples.iter().map(|sample| value(sample)).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let median = |values: &[f64]| values[(values.len() - 1) / 2];
        let p99_us = sorted(|sample| sample.p99_us as f64);
        KneeRow {
            offered_per_s: self.offered_per_s,
            successful_per_s: median(&sorted(|sample| sample.successful_per_s)),
            p99_us: median(&p99_us),
            undone: median(&sorted(|sample| sample.undone as f64)),
            is_client_bound: are_bound,
            is_within: verdict == StepVerdict::Within,
            sample_count: self.samples.len() as u64,
            p99_us_min: p99_us[0],
            p99_us_max: p99_us[p99_us.len() - 1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: KneePlan = KneePlan {
        p99_max: Duration::from_millis(10),
        from_per_s: 100.0,
        step: Duration::from_secs(1),
        arrivals: crate::config::Arrivals::Constant,
    };

    /// A step whose samples have these 99th percentiles in milliseconds; 0 stands for a client-bound
    /// sample.
    fn step(p99s_ms: &[u64]) -> Step {
        let sample = |ms: &u64| Sample {
            successful_per_s: 100.0,
            p99_us: ms * 1000,
            undone: 0,
            client_bound: *ms == 0,
            is_within: *ms <= 10,
        };
        Step { offered_per_s: 100.0, samples: p99s_ms.iter().map(sample).collect() }
    }

    #[test]
    fn a_verdict_takes_as_many_samples_as_it_needs() {
        let verdict = |p99s_ms: &[u64]| step(p99s_ms).verdict(PLAN);
        assert_eq!(verdict(&[]), None);
        assert_eq!(verdict(&[5]), Some(StepVerdict::Within), "half of the bound is clear");
        assert_eq!(verdict(&[8]), None);
        assert_eq!(verdict(&[500]), None, "one stall of the machine is not the knee");
        assert_eq!(verdict(&[8, 9]), Some(StepVerdict::Within));
        assert_eq!(verdict(&[500, 12]), Some(StepVerdict::Beyond));
        assert_eq!(verdict(&[500, 5]), None);
        assert_eq!(verdict(&[500, 5, 5, 5]), Some(StepVerdict::Within));
        assert_eq!(verdict(&[12, 9, 12, 9, 12]), Some(StepVerdict::Beyond));
        assert_eq!(verdict(&[0]), None);
        assert_eq!(
            verdict(&[0, 5]),
            Some(StepVerdict::Within),
            "a client-bound sample does not count"
        );
        assert_eq!(verdict(&[0, 9, 0]), Some(StepVerdict::ClientBound));
    }

    #[test]
    fn what_failed_or_never_started_is_slower_than_what_succeeded() {
        let mut successes = OperationStats::new();
        (1..=1000).for_each(|ms| successes.record(ms * 1_000_000));
        let near = |us: u64, ms: u64| us.abs_diff(ms * 1000) <= ms;
        assert!(near(p99_us(&successes, 0), 990), "{}", p99_us(&successes, 0));
        // Of 1005 operations, the 99th percentile is at rank 995.
        assert!(near(p99_us(&successes, 5), 995), "{}", p99_us(&successes, 5));
        assert!(near(p99_us(&successes, 500), 1000), "{}", p99_us(&successes, 500));
        assert_eq!(p99_us(&OperationStats::new(), 5), 0);
    }

    #[test]
    fn a_row_has_the_medians_of_the_samples_that_count() {
        let row = step(&[500, 0, 7, 8]).row(StepVerdict::Within);
        assert_eq!((row.p99_us, row.p99_us_min, row.p99_us_max), (8000.0, 7000.0, 500_000.0));
        assert_eq!((row.sample_count, row.is_client_bound), (4, false));
    }
}
