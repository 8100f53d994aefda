//! Figures of equal periods of a run, as a table.

use super::time_spans::{Second, Span, seconds, time_spans};
use super::{ReportError, Results};
use std::fmt::Write as _;
use std::path::Path;

/// Maximum number of periods of a run.
const PERIOD_COUNT: usize = 10;

/// Name of the table in the directory of a run.
pub(super) const FILE: &str = "periods.csv";

/// The periods of a run, at most ten; empty for a run without interval logs.
///
/// # Errors
///
/// When a log can't be read.
pub(super) fn periods(results: &Results) -> Result<Vec<Span>, ReportError> {
    time_spans(results, PERIOD_COUNT)
}

/// The table as text, with times in seconds, counts, and latencies in microseconds. Latencies are over all
/// operations; failed ones count with the time until they failed.
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

/// Successful operations per second in each of `count` equal parts of the run in `directory`; 0 in a part
/// without intervals.
///
/// # Errors
///
/// When the results can't be read.
pub(crate) fn rates_of_parts(directory: &Path, count: usize) -> Result<Vec<f64>, ReportError> {
    let results = Results::read(directory)?;
    Ok(part_rates(&seconds(&results)?, results.elapsed_range_s(), count))
}

fn part_rates(seconds: &[Second], (start_s, end_s): (f64, f64), count: usize) -> Vec<f64> {
    let mut parts = vec![(0.0, 0.0); count];
    for second in seconds {
        let middle_s = (second.start_s + second.end_s) / 2.0;
        let place = (middle_s - start_s) / (end_s - start_s).max(1e-6) * count as f64;
        let part = quoit_number::index(quoit_number::whole(place));
        let Some((operations, length_s)) = parts.get_mut(part) else { continue };
        *operations += second.rate_per_s * (second.end_s - second.start_s);
        *length_s += second.end_s - second.start_s;
    }
    parts.into_iter().map(|(operations, length_s)| operations / f64::max(length_s, 1e-6)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_run_has_its_own_rate() {
        let second = |start: u32, rate_per_s: f64| Second {
            start_s: f64::from(start),
            end_s: f64::from(start) + 1.0,
            rate_per_s,
            failed: 0.0,
            p99_us: 0.0,
        };
        let seconds: Vec<Second> =
            (0..10).map(|start| second(start, f64::from(start / 5 * 100 + 50))).collect();
        assert_eq!(part_rates(&seconds, (0.0, 10.0), 2), [50.0, 150.0]);
        let quarters = part_rates(&seconds, (0.0, 10.0), 4);
        assert_eq!((quarters[0], quarters[3]), (50.0, 150.0));
        assert_eq!(part_rates(&seconds[..5], (0.0, 10.0), 2), [50.0, 0.0]);
    }
}
