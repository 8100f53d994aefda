//! Merging the rows of long runs until they fit on a screen.

use super::results::{LatencyRow, SummaryRow};

/// Maximum number of points that a plot shows side by side.
pub(super) const POINT_COUNT_MAX: usize = 400;

/// Number of rows that are merged into one point.
pub(super) fn rows_a_point(row_count: usize) -> usize {
    row_count.div_ceil(POINT_COUNT_MAX).max(1)
}

/// Merges groups of consecutive windows.
pub(super) fn summary(rows: &[SummaryRow], rows_a_point: usize) -> Vec<SummaryRow> {
    let merged = rows.chunks(rows_a_point).map(|rows| SummaryRow {
        elapsed_s: rows.last().map_or(0.0, |row| row.elapsed_s),
        window_s: rows.iter().map(|row| row.window_s).sum(),
        successful: rows.iter().map(|row| row.successful).sum(),
        failed: rows.iter().map(|row| row.failed).sum(),
    });
    merged.collect()
}

/// Merges groups of consecutive windows. Percentiles cannot be added up, so the greatest stands for all and
/// no spike is lost. Groups without latencies are left out, unless operations failed in them or nothing at
/// all succeeded (`is_silent`): these stay, with a count of 0, as gaps.
pub(super) fn latencies(
    rows: &[LatencyRow],
    rows_a_point: usize,
    is_silent: impl Fn(&LatencyRow) -> bool,
) -> Vec<LatencyRow> {
    let merged = rows.chunks(rows_a_point).filter_map(|all| {
        let rows: Vec<&LatencyRow> = all.iter().filter(|row| row.count > 0.0).collect();
        let Some(last) = rows.last() else {
            return all.iter().find(|row| row.error_count > 0.0 || is_silent(row)).copied();
        };
        let sum = |value: fn(&LatencyRow) -> f64| rows.iter().map(|row| value(row)).sum::<f64>();
        let max =
            |value: fn(&LatencyRow) -> f64| rows.iter().map(|row| value(row)).fold(0.0, f64::max);
        let count = sum(|row| row.count);
        Some(LatencyRow {
            elapsed_s: last.elapsed_s,
            window_s: sum(|row| row.window_s),
            count,
            min_us: rows.iter().map(|row| row.min_us).fold(f64::INFINITY, f64::min),
            mean_us: sum(|row| row.mean_us * row.count) / count,
            median_us: max(|row| row.median_us),
            p95_us: max(|row| row.p95_us),
            p99_us: max(|row| row.p99_us),
            p99_9_us: max(|row| row.p99_9_us),
            max_us: max(|row| row.max_us),
            error_count: sum(|row| row.error_count),
        })
    });
    merged.collect()
}
