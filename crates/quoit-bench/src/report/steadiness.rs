//! Detection of the time from which on a run is steady.
//!
//! The beginning of the run is cut off where the rest has the smallest standard error. These are the
//! marginal standard error rules (MSER; White: "An effective truncation heuristic for bias reduction in
//! simulation output", Simulation 69, 1997), applied to medians of groups of rows, so that a single stall
//! does not count as a change. A run is not steady if the cut would be at its middle or later. It is not
//! steady either if its last third differs from the first third of the rest, because the rule finds
//! warm-ups but not late changes.

use super::{Results, SummaryRow};
use std::time::Duration;

use crate::output::text::clock_text;

/// Minimum number of rows for a finding.
const ROW_COUNT_MIN: usize = 15;
/// Maximum difference between the medians of the first and the last third of a steady run, as a share of
/// the median.
const DRIFT_MAX: f64 = 0.05;
/// Minimum number of rows of a run, and the number of rows in a group for such a run.
const GROUPS: [(usize, usize); 2] = [(50, 5), (ROW_COUNT_MIN, 3)];

/// The finding about rate and latency of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Steadiness {
    /// The run has too few rows for a finding.
    TooShort,
    /// The rate or the median latency was still changing when half of the run was over.
    Never,
    /// The run is steady from this number of seconds on.
    From(f64),
}

impl Steadiness {
    /// Analyses the rows of a run.
    pub(super) fn of(results: &Results) -> Self {
        let rows: Vec<_> = results.summary.iter().filter(|row| row.window_s > 0.0).collect();
        let rates: Vec<f64> = rows.iter().map(|row| row.successful / row.window_s).collect();
        let medians = medians(results);
        let Some(size) = GROUPS.iter().find(|(least, _)| rates.len() >= *least) else {
            return Self::TooShort;
        };
        let group_rows = size.1;
        let cut = |series: &[f64]| settled_from(&grouped(series, group_rows));
        // Rare operations have rows without latencies. The finding then rests on the rate alone.
        let of_latency = if medians.len() == rates.len() { cut(&medians) } else { Some(0) };
        let (Some(by_rate), Some(by_latency)) = (cut(&rates), of_latency) else {
            return Self::Never;
        };
        let first = by_rate.max(by_latency) * group_rows;
        rows.get(first).map_or(Self::Never, |row| Self::From(row.elapsed_s - row.window_s))
    }

    /// The finding as a sentence.
    pub(super) fn text(self) -> Option<String> {
        match self {
            Self::TooShort => None,
            Self::Never => Some(
                "The run has not become steady: its rate or median latency still changed when half of it \
                 was over. Let it run for longer before its figures are compared"
                    .to_owned(),
            ),
            Self::From(seconds) if seconds < 0.05 => {
                Some("The run is steady from its beginning".to_owned())
            }
            Self::From(seconds) => Some(format!(
                "The run is steady from {} on; `quoit bench report -1 {} DIRECTORY` leaves out the time \
                 before",
                clock_text(Duration::from_secs_f64(seconds)),
                seconds.ceil(),
            )),
        }
    }
}

/// The median latency of each row, averaged over its operations, weighted by their counts.
fn medians(results: &Results) -> Vec<f64> {
    let of_row = |(index, summary): (usize, &SummaryRow)| {
        let rows = results.operations.iter().filter_map(|operation| operation.rows.get(index));
        let (sum, count) = rows
            .filter(|row| row.elapsed_s == summary.elapsed_s)
            .fold((0.0, 0.0), |(sum, count), row| {
                (sum + row.median_us * row.count, count + row.count)
            });
        (count > 0.0).then(|| sum / count)
    };
    results.summary.iter().enumerate().filter_map(of_row).collect()
}

/// The median of each group. Rows that are left over at the end belong to no group.
fn grouped(series: &[f64], rows: usize) -> Vec<f64> {
    series.chunks_exact(rows).map(upper_median).collect()
}

/// Number of values to cut off at the beginning, less than half of them; `None` if the series does not
/// settle.
fn settled_from(series: &[f64]) -> Option<usize> {
    let last = series.len() / 2;
    let marginal_error = |rest: &[f64]| {
        let count = rest.len() as f64;
        let mean = rest.iter().sum::<f64>() / count;
        rest.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count * count)
    };
    let rests = (0..=last).filter_map(|first| Some((first, series.get(first..)?)));
    let (best, rest) =
        rests.min_by(|(_, a), (_, b)| marginal_error(a).total_cmp(&marginal_error(b)))?;
    (best < last && !drifts(rest)).then_some(best)
}

/// True if the end of a series differs from its beginning.
fn drifts(series: &[f64]) -> bool {
    let third = (series.len() / 3).max(1);
    let ends = series.chunks(third).next().zip(series.rchunks(third).next());
    ends.is_some_and(|(first, last)| {
        let drift = upper_median(last) - upper_median(first);
        drift.abs() > DRIFT_MAX * upper_median(series)
    })
}

/// The median of values, of which there must be at least one: the upper one of the two in the middle.
#[expect(clippy::indexing_slicing, reason = "half of the number of values is below that number")]
pub(super) fn upper_median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{LatencyRow, OperationRows};
    use std::path::PathBuf;

    /// A run with these rates and median latencies, one pair for each second.
    fn run(of: impl Fn(usize) -> (f64, f64), seconds: usize) -> Results {
        let summary = |second: usize| SummaryRow {
            elapsed_s: second as f64 + 1.0,
            window_s: 1.0,
            successful: of(second).0,
            failed: 0.0,
        };
        let latency = |second: usize| LatencyRow {
            elapsed_s: second as f64 + 1.0,
            window_s: 1.0,
            count: 10.0,
            min_us: 0.0,
            mean_us: 0.0,
            median_us: of(second).1,
            p95_us: 0.0,
            p99_us: 0.0,
            p99_9_us: 0.0,
            max_us: 0.0,
            error_count: 0.0,
        };
        let rows = (0..seconds).map(latency).collect();
        Results {
            directory: PathBuf::new(),
            summary: (0..seconds).map(summary).collect(),
            operations: vec![OperationRows { file_label: "get".into(), name: "get".into(), rows }],
            errors: Vec::new(),
            events: Vec::new(),
            notes: Vec::new(),
            range_s: (0.0, f64::INFINITY),
        }
    }

    /// Noise of one percent, the same in every run of the test.
    fn noise(second: usize) -> f64 {
        let mixed = (second as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        1.0 + (mixed as f64 / (1_u64 << 24) as f64 - 0.5) / 50.0
    }

    fn begins(steadiness: Steadiness) -> f64 {
        match steadiness {
            Steadiness::From(seconds) => seconds,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_warm_up_is_left_out_by_rate_and_by_latency() {
        let warm = |second: usize| 1.0 - 0.8 * (-(second as f64) / 4.0).exp();
        let by_rate = run(|at| (1000.0 * warm(at) * noise(at), 200.0 * noise(at)), 120);
        let by_latency = run(|at| (1000.0 * noise(at), 200.0 / warm(at) * noise(at)), 120);
        for results in [by_rate, by_latency] {
            let from = begins(Steadiness::of(&results));
            assert!((10.0..=40.0).contains(&from), "{from}");
        }
    }

    #[test]
    fn a_level_run_is_steady_early_and_one_stall_changes_nothing() {
        let level = run(|at| (1000.0 * noise(at), 200.0 * noise(at)), 120);
        assert!(begins(Steadiness::of(&level)) <= 30.0, "{:?}", Steadiness::of(&level));
        let stalled = |at| (if at == 40 { 0.0 } else { 1000.0 * noise(at) }, 200.0 * noise(at));
        assert_eq!(Steadiness::of(&run(stalled, 120)), Steadiness::of(&level));
    }

    #[test]
    fn a_run_that_drifts_or_drops_late_is_not_steady() {
        let drifts = run(|at| (1000.0 - 4.0 * at as f64, 200.0), 120);
        assert_eq!(Steadiness::of(&drifts), Steadiness::Never);
        let drops = run(|at| (if at < 80 { 1000.0 } else { 500.0 } * noise(at), 200.0), 120);
        assert_eq!(Steadiness::of(&drops), Steadiness::Never);
    }

    #[test]
    fn few_rows_tell_nothing_and_rows_without_latencies_leave_it_to_the_rate() {
        assert_eq!(Steadiness::of(&run(|_| (1.0, 1.0), 14)), Steadiness::TooShort);
        let mut rare = run(|at| (1000.0 * noise(at), 1.0), 60);
        for row in rare.operations[0].rows.iter_mut().step_by(2) {
            row.count = 0.0;
        }
        assert!(matches!(Steadiness::of(&rare), Steadiness::From(_)));
    }
}
