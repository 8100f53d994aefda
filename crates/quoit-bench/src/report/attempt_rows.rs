//! Rows of latencies that include failed operations, if the run recorded when they failed.
//!
//! An operation that failed after five seconds would have taken at least five seconds. Percentiles over
//! successes alone improve as more operations time out, which misleads.

use super::figures::open_part;
use super::results::{LatencyRow, OperationRows};
use super::{ReportError, Results};
use crate::measure::OperationStats;
use crate::measure::intervals::{self, Interval, IntervalReader};
use std::collections::BTreeMap;

/// Statistics of successes and failures, by the index of their row.
type Windows = BTreeMap<usize, (OperationStats, OperationStats)>;

/// The operations of the results. In a row with failures, the figures become those of all attempts, as
/// lower bounds. A row without any success stays as it is, because it has no latencies.
///
/// # Errors
///
/// When an interval log can't be read.
pub(super) fn attempt_rows(results: &Results) -> Result<Vec<OperationRows>, ReportError> {
    let labels = intervals::file_labels(&results.directory)?;
    let mut operations = results.operations.clone();
    for operation in &mut operations {
        let has_failed = operation.rows.iter().any(|row| row.error_count > 0.0);
        if has_failed && labels.contains(&operation.file_label) {
            count_failures(results, operation)?;
        }
    }
    Ok(operations)
}

fn count_failures(results: &Results, operation: &mut OperationRows) -> Result<(), ReportError> {
    let OperationRows { file_label, rows, .. } = operation;
    let Some(failed) = open_part(results, &format!("failed-{file_label}"))? else { return Ok(()) };
    let mut windows = Windows::new();
    for interval in IntervalReader::open(&results.directory, file_label)? {
        let interval = interval?;
        if let Some(place) = place_of(&interval, rows) {
            windows.entry(place).or_default().0.add(&interval.stats);
        }
    }
    for interval in failed {
        let interval = interval?;
        if let Some(place) = place_of(&interval, rows) {
            windows.entry(place).or_default().1.add(&interval.stats);
        }
    }
    for (place, (done, failed)) in windows {
        let attempts = done.attempts(&failed).filter(|_| done.count() > 0);
        let latencies = attempts.map(|attempts| attempts.latencies);
        if let Some((row, latencies)) = rows.get_mut(place).zip(latencies) {
            row.mean_us = latencies.mean_us;
            row.median_us = latencies.median_us as f64;
            row.p95_us = latencies.p95_us as f64;
            row.p99_us = latencies.p99_us as f64;
            row.p99_9_us = latencies.p99_9_us as f64;
            row.max_us = latencies.max_us as f64;
        }
    }
    Ok(())
}

/// The index of the row that contains the middle of an interval, if operations failed in that row.
fn place_of(interval: &Interval, rows: &[LatencyRow]) -> Option<usize> {
    let middle_s = (interval.start + interval.length / 2).as_secs_f64();
    let place = rows.partition_point(|row| row.elapsed_s < middle_s);
    let row = rows.get(place)?;
    (row.error_count > 0.0 && row.elapsed_s - row.window_s <= middle_s).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Window;
    use crate::measure::intervals::IntervalWriter;
    use crate::measure::tests::closed_loop;
    use crate::run::ReportedOperation;
    use crate::term::Term;
    use std::time::{Duration, Instant, SystemTime};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn failed_operations_are_lower_bounds_of_the_figures_of_their_row_alone() {
        let run = tempfile::tempdir().expect("a directory");
        let get = ReportedOperation {
            label: Term::atom("get"),
            operation: Term::atom("get"),
            file_label: "get".to_owned(),
        };
        let mut log = IntervalWriter::create(run.path(), &[get], SystemTime::now()).expect("a log");
        for second in 0..6 {
            let (mut window, base) = (Window::new(1), Instant::now());
            if second < 4 {
                window.record(0, &closed_loop(Duration::from_millis(1), base));
            }
            if second >= 2 {
                window.record_error(0, Term::atom("timeout"), 5 * SECOND);
            }
            log.append(&(SECOND * second..SECOND * (second + 1)), &window).expect("a second");
        }
        let row = |elapsed_s, count, error_count| LatencyRow {
            elapsed_s,
            window_s: 2.0,
            count,
            min_us: 1000.0,
            mean_us: 1000.0,
            median_us: 1000.0,
            p95_us: 1000.0,
            p99_us: 1000.0,
            p99_9_us: 1000.0,
            max_us: 1000.0,
            error_count,
        };
        let rows = vec![row(2.0, 2.0, 0.0), row(4.0, 2.0, 2.0), row(6.0, 0.0, 2.0)];
        let summary = Vec::new();
        let operations = vec![OperationRows {
            file_label: "get".into(),
            name: "get".into(),
            rows: rows.clone(),
        }];
        let directory = run.path().to_owned();
        let (errors, events, notes) = (Vec::new(), Vec::new(), Vec::new());
        let range_s = (0.0, f64::INFINITY);
        let results = Results { directory, summary, operations, errors, events, notes, range_s };
        let counted = attempt_rows(&results).expect("logs").remove(0).rows;
        assert_eq!((counted[0], counted[2]), (rows[0], rows[2]), "nothing that bounds would be of");
        let figures = [counted[1].p95_us, counted[1].p99_us, counted[1].max_us];
        assert_eq!(figures, [5e6; 3]);
        assert!((1000.0..1010.0).contains(&counted[1].median_us), "{counted:?}");
        assert_eq!(counted[1].mean_us, (2.0 * 1e3 + 2.0 * 5e6) / 4.0);
    }
}
