//! Numbers and tables as people read them.

use std::time::Duration;

use crate::measure::Window;
use crate::run::ReportedOperation;

/// Minutes and seconds, with hours when there are any.
pub(super) fn clock_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// Microseconds in milliseconds, with about three digits that say something.
pub(super) fn ms_text(us: f64) -> String {
    let ms = us / 1000.0;
    match ms {
        ms if ms >= 100.0 => format!("{ms:.0}"),
        ms if ms >= 10.0 => format!("{ms:.1}"),
        ms if ms >= 1.0 => format!("{ms:.2}"),
        ms => format!("{ms:.3}"),
    }
}

/// A size in steps of 1024; a step is taken while the number is over 1000.
pub(crate) fn size_text(size_bytes: u64) -> String {
    let mut size = size_bytes as f64;
    let mut unit = "bytes";
    for larger in ["KB", "MB", "GB"] {
        if size <= 1000.0 {
            break;
        }
        size /= 1024.0;
        unit = larger;
    }
    if unit == "bytes" { format!("{size_bytes} bytes") } else { format!("{size:.1} {unit}") }
}

/// The line that is shown while a run goes on.
pub(super) fn progress_text(
    operations: &[ReportedOperation],
    window: &Window,
    span: Duration,
    elapsed: Duration,
    left: Option<Duration>,
    error_count: u64,
) -> String {
    let rate = |count: u64| format!("{:.0}", count as f64 / span.as_secs_f64().max(1e-6));
    let mut text = format!("{}  {} op/s", clock_text(elapsed), rate(window.success_count()));
    for (operation, stats) in operations.iter().zip(window.operations()) {
        let latencies = stats.latencies();
        if latencies.count > 0 {
            text.push_str(&format!(
                " | {} {}/s p50 {} p99 {} ms",
                operation.name(),
                rate(latencies.count),
                ms_text(latencies.median_us as f64),
                ms_text(latencies.p99_us as f64),
            ));
        }
    }
    text.push_str(&format!(" | errors {error_count}"));
    if let Some(left) = left {
        text.push_str(&format!(" | left {}", clock_text(left)));
    }
    text
}

/// The table at the end of a run, in milliseconds.
pub(super) fn summary_table(
    operations: &[ReportedOperation],
    total: &Window,
    elapsed: Duration,
) -> String {
    let header = [
        "operation",
        "count",
        "op/s",
        "errors",
        "min",
        "mean",
        "median",
        "95%",
        "99%",
        "99.9%",
        "max",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let rate = |count: u64| format!("{:.1}", count as f64 / elapsed.as_secs_f64().max(1e-6));
    for (operation, stats) in operations.iter().zip(total.operations()) {
        let latencies = stats.latencies();
        let times = [
            latencies.min_us as f64,
            latencies.mean_us,
            latencies.median_us as f64,
            latencies.p95_us as f64,
            latencies.p99_us as f64,
            latencies.p99_9_us as f64,
            latencies.max_us as f64,
        ];
        let mut row = vec![
            operation.name(),
            latencies.count.to_string(),
            rate(latencies.count),
            stats.error_count().to_string(),
        ];
        row.extend(times.map(|us| if latencies.count > 0 { ms_text(us) } else { "-".to_owned() }));
        rows.push(row);
    }
    let mut all = vec!["all".to_owned(), total.success_count().to_string()];
    all.extend([rate(total.success_count()), total.error_count().to_string()]);
    rows.push(all);
    aligned(&rows)
}

/// Columns padded to their widest cell: the first to the left, the rest to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let column_count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width_of = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..column_count).map(|c| width_of(c).unwrap_or(0)).collect();
    let lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, width))| match column {
                    0 => format!("{cell:<width$}"),
                    _ => format!("{cell:>width$}"),
                })
                .collect();
            cells.join("  ").trim_end().to_owned()
        })
        .collect();
    lines.join("\n")
}
