//! Figures of equal periods of a run, for a table.

use super::course::{Span, course};
use super::{ReportError, Results};
use std::fmt::Write as _;

/// Periods of a run.
const PERIOD_COUNT: usize = 10;

/// The file with the table, in the directory of a run.
pub(super) const FILE: &str = "periods.csv";

/// The periods of a run, at most ten; none for a run that kept no interval logs.
///
/// # Errors
///
/// When a log can't be read.
pub(super) fn periods(results: &Results) -> Result<Vec<Span>, ReportError> {
    course(results, PERIOD_COUNT)
}

/// The table as text: seconds, operations, and microseconds of all operations, the failed ones with the time
/// after which they failed.
pub(super) fn csv(periods: &[Span]) -> String {
    let mut text =
        String::from("start, end, successful, failed, rate, median, 95th, 99th, 99_9th, max\n");
    for span in periods {
        let Span { start_s, end_s, stats, .. } = span;
        let (latencies, _) = span.latencies();
        let rate = stats.count() as f64 / (end_s - start_s).max(1e-6);
        let _ = writeln!(
            text,
            "{start_s:.3}, {end_s:.3}, {}, {}, {rate:.1}, {}, {}, {}, {}, {}",
            stats.count(),
            stats.error_count(),
            latencies.median_us,
            latencies.p95_us,
            latencies.p99_us,
            latencies.p99_9_us,
            latencies.max_us,
        );
    }
    text
}
