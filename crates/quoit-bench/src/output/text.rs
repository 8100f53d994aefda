//! Formatting of numbers and tables for people.

use std::time::Duration;

use crate::measure::{Latencies, OperationStats, Window};
use crate::reported_operation::ReportedOperation;
use crate::run_end::RunEnd;

/// The end of a run, in the sentence `Test ... after ...`. The text of a completed run is that of
/// basho_bench.
pub(crate) const fn end_text(end: RunEnd) -> &'static str {
    match end {
        RunEnd::Completed => "completed",
        RunEnd::Interrupted => "interrupted",
        RunEnd::Failed => "ended by its first failed operation",
        RunEnd::Crashed => "ended by crashes of workers",
        RunEnd::Missed => "ended by an expectation that was missed",
        RunEnd::AgentLost => "ended by the loss of an agent",
    }
}

/// Minutes and seconds, and hours if there are any.
pub(crate) fn clock_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// Converts microseconds to a text in milliseconds with about three significant digits.
pub(crate) fn ms_text(us: f64) -> String {
    let ms = us / 1000.0;
    match ms {
        ms if ms >= 100.0 => format!("{ms:.0}"),
        ms if ms >= 10.0 => format!("{ms:.1}"),
        ms if ms >= 1.0 => format!("{ms:.2}"),
        ms => format!("{ms:.3}"),
    }
}

/// A size in units of 1024. The next unit is taken while the number is above 1000.
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

/// The progress line of a run.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    pub(super) operations: &'a [ReportedOperation],
    /// Counts of the last `span`.
    pub(super) window: &'a Window,
    pub(super) span: Duration,
    /// Time since the start of the measurement.
    pub(super) elapsed: Duration,
    /// Time until the planned end, if there is one.
    pub(super) left: Option<Duration>,
    /// Share of the trace that has been replayed, if it is known.
    pub(super) replayed: Option<f64>,
    /// Number of errors since the start of the measurement.
    pub(super) error_count: u64,
}

impl Progress<'_> {
    /// One line of at most `columns`. Operations that do not fit are only counted, so that errors and the
    /// remaining time stay visible.
    pub(super) fn text(&self, columns: usize) -> String {
        let clock = clock_text(self.elapsed);
        let mut text = format!("{clock}  {} op/s", self.rate(self.window.success_count()));
        let mut end = format!(" | errors {}", self.error_count);
        if let Some(share) = self.replayed {
            end.push_str(&format!(" | trace {:.0} %", share * 100.0));
        }
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

/// Number of columns that a text takes on a terminal. It may be overestimated: every character from U+1100
/// on counts as wide.
pub(super) fn width_of(text: &str) -> usize {
    text.chars().map(column_count).sum()
}

/// The beginning of a text, at most `columns` wide.
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

/// The table of latencies at the end of a run, in milliseconds.
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
    let noise_floor = total.breakdown().canary().latencies();
    let mut marks = Marks::default();
    let of_operations = operations.iter().zip(total.operations()).zip(total.breakdown().failed());
    for ((operation, stats), failed) in of_operations {
        let mut row = vec![
            operation.name(),
            stats.count().to_string(),
            rate(stats.count()),
            stats.error_count().to_string(),
        ];
        row.extend(marks.figures(stats, failed, &noise_floor));
        rows.push(row);
    }
    let mut all = vec!["all".to_owned(), total.success_count().to_string()];
    all.extend([rate(total.success_count()), total.error_count().to_string()]);
    rows.push(all);
    rows.extend(parts_of_latencies(total, &noise_floor));
    aligned(&rows) + &marks.legend()
}

/// Rows with the load generator's part of the latencies.
fn parts_of_latencies(total: &Window, noise_floor: &Latencies) -> Vec<Vec<String>> {
    let breakdown = total.breakdown();
    let parts = [
        ("queueing", breakdown.queueing().latencies()),
        ("client delay", breakdown.client_delay().latencies()),
        ("noise floor", *noise_floor),
    ];
    let row = |(name, latencies): (&str, Latencies)| {
        let counts = [name.to_owned(), latencies.count.to_string(), String::new(), String::new()];
        counts.into_iter().chain(latencies.figures_us().map(ms_text)).collect()
    };
    parts.into_iter().filter(|(_, latencies)| latencies.count > 0).map(row).collect()
}

/// Marks of figures that are not exact latencies of the server, and their legend.
#[derive(Debug, Default)]
struct Marks {
    has_lower_bounds: bool,
    has_noise: bool,
}

impl Marks {
    /// The figures of one operation. If some operations failed, the figures are over all attempts.
    fn figures(
        &mut self,
        stats: &OperationStats,
        failed: &OperationStats,
        noise_floor: &Latencies,
    ) -> Vec<String> {
        let attempts = stats.attempts(failed);
        let latencies = attempts.map_or_else(|| stats.latencies(), |attempts| attempts.latencies);
        if stats.count() == 0 {
            return vec!["-".to_owned(); 7];
        }
        let bounds = attempts.map_or([false; 7], |attempts| attempts.lower_bounds());
        let noisy = noise_floor.noisy_figures(&latencies);
        let figures = latencies.figures_us().into_iter().zip(bounds).zip(noisy);
        let text = |((us, is_bound), is_noisy): ((f64, bool), bool)| {
            let mark = match (is_bound, is_noisy) {
                (true, _) => "≥",
                (false, true) => "~",
                (false, false) => "",
            };
            self.has_lower_bounds |= is_bound;
            self.has_noise |= is_noisy && !is_bound;
            format!("{mark}{}", ms_text(us))
        };
        figures.map(text).collect()
    }

    /// The legend of the marks that were used.
    fn legend(&self) -> String {
        let mut legend = String::new();
        if self.has_lower_bounds {
            legend.push_str(
                "\n≥ at least: failed operations count with the time after which they failed",
            );
        }
        if self.has_noise {
            legend.push_str(
                "\n~ within the noise: less than twice that of operations that ask no server",
            );
        }
        legend
    }
}

/// Pads columns to their widest cell. The first column is left-aligned, the others are right-aligned.
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
