//! Numbers and tables as people read them.

use std::time::Duration;

use crate::measure::Window;
use crate::run::ReportedOperation;

/// Minutes and seconds, with hours when there are any.
pub(crate) fn clock_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// Microseconds in milliseconds, with about three digits that say something.
pub(crate) fn ms_text(us: f64) -> String {
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

/// Progress line of a run.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    pub(super) operations: &'a [ReportedOperation],
    /// Counts of the last `span`.
    pub(super) window: &'a Window,
    pub(super) span: Duration,
    /// Since the release of the workers.
    pub(super) elapsed: Duration,
    /// Until the planned end, if there is one.
    pub(super) left: Option<Duration>,
    /// Errors since the release.
    pub(super) error_count: u64,
}

impl Progress<'_> {
    /// One line of at most `columns`. Operations that find no room are only counted, so that
    /// errors and the time left stay in sight.
    pub(super) fn text(&self, columns: usize) -> String {
        let clock = clock_text(self.elapsed);
        let mut text = format!("{clock}  {} op/s", self.rate(self.window.success_count()));
        let mut end = format!(" | errors {}", self.error_count);
        if let Some(left) = self.left {
            end.push_str(&format!(" | left {}", clock_text(left)));
        }
        let parts: Vec<String> = self.operation_texts();
        for (index, part) in parts.iter().enumerate() {
            let hidden = parts.len() - index;
            let more = format!(" | +{hidden} more");
            let after = if hidden > 1 { more.len() } else { 0 };
            if width_of(&text) + width_of(part) + after + width_of(&end) > columns {
                if width_of(&text) + more.len() + width_of(&end) <= columns {
                    text.push_str(&more);
                }
                break;
            }
            text.push_str(part);
        }
        text + &end
    }

    fn operation_texts(&self) -> Vec<String> {
        let active = self.operations.iter().zip(self.window.operations());
        active
            .map(|(operation, stats)| (operation, stats.latencies()))
            .filter(|(_, latencies)| latencies.count > 0)
            .map(|(operation, latencies)| {
                format!(
                    " | {} {}/s p50 {} p99 {} ms",
                    operation.name(),
                    self.rate(latencies.count),
                    ms_text(latencies.median_us as f64),
                    ms_text(latencies.p99_us as f64),
                )
            })
            .collect()
    }

    fn rate(&self, count: u64) -> String {
        format!("{:.0}", count as f64 / self.span.as_secs_f64().max(1e-6))
    }
}

/// Columns that a text takes on a terminal, or a few more: every character of the scripts that
/// have wide ones counts twice.
pub(super) fn width_of(text: &str) -> usize {
    text.chars().map(column_count).sum()
}

/// The beginning of a text that takes at most `columns`.
pub(super) fn cut(text: &str, columns: usize) -> String {
    let mut taken = 0;
    let fits = |character: &char| {
        taken += column_count(*character);
        taken <= columns
    };
    text.chars().take_while(fits).collect()
}

fn column_count(character: char) -> usize {
    if character < '\u{1100}' { 1 } else { 2 }
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
