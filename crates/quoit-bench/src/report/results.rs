//! Reading the tables of a run, of this program or of basho_bench.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::csv::{CsvLines, Row};
use super::events::read_events;
use super::{EventRow, ReportError};

const SUMMARY_COLUMNS: [&str; 5] = ["elapsed", "window", "total", "successful", "failed"];
const LATENCIES_COLUMNS: [&str; 11] =
    ["elapsed", "window", "n", "min", "mean", "median", "95th", "99th", "99_9th", "max", "errors"];
const LATENCIES_SUFFIX: &str = "_latencies.csv";

/// A row of `summary.csv`: the counts of all operations in a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SummaryRow {
    /// End of the window, in seconds since the start of the measurement.
    pub elapsed_s: f64,
    /// Length of the window in seconds.
    pub window_s: f64,
    /// Number of successful operations, or of units of work if a driver of basho_bench counts those.
    pub successful: f64,
    /// Number of failed operations.
    pub failed: f64,
}

/// A row of a `*_latencies.csv`: one operation in a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyRow {
    /// End of the window, in seconds since the start of the measurement.
    pub elapsed_s: f64,
    /// Length of the window in seconds.
    pub window_s: f64,
    /// Number of latencies in the window. If it is 0, so are the latency figures.
    pub count: f64,
    /// The minimum in microseconds.
    pub min_us: f64,
    /// The arithmetic mean in microseconds.
    pub mean_us: f64,
    /// The median in microseconds.
    pub median_us: f64,
    /// The 95th percentile in microseconds.
    pub p95_us: f64,
    /// The 99th percentile in microseconds.
    pub p99_us: f64,
    /// The 99.9th percentile in microseconds.
    pub p99_9_us: f64,
    /// The maximum in microseconds.
    pub max_us: f64,
    /// Number of failed operations in the window.
    pub error_count: f64,
}

/// A column of the latencies, as drawn.
#[derive(Clone, Copy)]
pub(super) struct Column {
    /// Class of the palette, which gives the colour.
    pub(super) class: &'static str,
    pub(super) name: &'static str,
    pub(super) value_us: fn(&LatencyRow) -> f64,
}

impl Column {
    pub(super) fn value_ms(&self, row: &LatencyRow) -> f64 {
        (self.value_us)(row) / 1000.0
    }
}

/// The table of one operation.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationRows {
    /// The label as used in file names.
    pub file_label: String,
    /// The label in the form shown to people, or the file label if that is unknown.
    pub name: String,
    /// The rows, in ascending order of time.
    pub rows: Vec<LatencyRow>,
}

/// A kind of error, with its count over the whole run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorCount {
    /// `{{Label, Operation}, Reason}` as an Erlang term.
    pub error: String,
    /// Number of errors.
    pub count: u64,
}

/// Results of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// Directory that they were read from.
    pub directory: PathBuf,
    /// The rows of `summary.csv`, in ascending order of time; at least one.
    pub summary: Vec<SummaryRow>,
    /// The operations, ordered by file label; at least one.
    pub operations: Vec<OperationRows>,
    /// The rows of `errors.csv`, the most frequent first.
    pub errors: Vec<ErrorCount>,
    /// The events of the run, in ascending order of time.
    pub events: Vec<EventRow>,
    /// Notes about results that are missing or were ignored.
    pub notes: Vec<String>,
    /// Minimum and maximum of the elapsed time of rows, as set by [`cut`](Self::cut).
    pub(super) range_s: (f64, f64),
}

impl Results {
    /// Reads the tables in `directory`.
    ///
    /// An incomplete last row is left by a run that was killed. It is ignored with a note, as are a missing
    /// `errors.csv` and empty tables of single operations.
    ///
    /// # Errors
    ///
    /// When `summary.csv` is missing or has no row, when no table of latencies has a header, or when a line
    /// does not have the form of its file.
    pub fn read(directory: &Path) -> Result<Self, ReportError> {
        let mut notes = Vec::new();
        let summary = read_summary(directory, &mut notes)?;
        let operations = read_operations(directory, &mut notes)?;
        let errors = read_errors(directory, &mut notes)?;
        let events = read_events(directory, &mut notes)?;
        let (directory, range_s) = (directory.to_owned(), (0.0, f64::INFINITY));
        Ok(Self { directory, summary, operations, errors, events, notes, range_s })
    }

    /// The range from the start of the first window to the end of the last, in seconds. It begins at 0 if
    /// the first window starts close to 0.
    pub(super) fn elapsed_range_s(&self) -> (f64, f64) {
        let end = self.summary.last().map_or(1.0, |row| row.elapsed_s);
        let start = self.summary.first().map_or(0.0, |row| row.elapsed_s - row.window_s);
        (if start < end * 0.02 { 0.0 } else { start }, end)
    }

    /// True if a window ends at this time and nothing succeeded in it.
    pub(super) fn is_silent_at(&self, elapsed_s: f64) -> bool {
        let found = self.summary.binary_search_by(|row| row.elapsed_s.total_cmp(&elapsed_s));
        let row = found.ok().and_then(|index| self.summary.get(index));
        row.is_some_and(|row| row.successful <= 0.0)
    }

    /// Keeps the rows whose windows end within a range of times, in seconds since the start of the
    /// measurement.
    ///
    /// # Errors
    ///
    /// When no row of the summary is left.
    pub fn cut(&mut self, times_s: RangeInclusive<f64>) -> Result<(), ReportError> {
        let (start_s, end_s) = (*times_s.start(), *times_s.end());
        let ends = |rows: &[SummaryRow]| Some((rows.first()?.elapsed_s, rows.last()?.elapsed_s));
        let (first_s, last_s) = ends(&self.summary).unwrap_or_default();
        let is_inside = |elapsed_s: f64| times_s.contains(&elapsed_s);
        self.summary.retain(|row| is_inside(row.elapsed_s));
        for operation in &mut self.operations {
            operation.rows.retain(|row| is_inside(row.elapsed_s));
        }
        self.events.retain(|event| is_inside(event.elapsed_s));
        self.range_s = (start_s, end_s);
        if self.summary.is_empty() {
            return Err(ReportError::Range { start_s, end_s, first_s, last_s });
        }
        Ok(())
    }
}

fn read_summary(directory: &Path, notes: &mut Vec<String>) -> Result<Vec<SummaryRow>, ReportError> {
    let path = directory.join("summary.csv");
    if !path.is_file() {
        return Err(match fs::read_dir(directory) {
            Ok(_) => ReportError::NoResults(directory.to_owned()),
            Err(error) => ReportError::Read { path: directory.to_owned(), error },
        });
    }
    let lines = CsvLines::read(&path)?;
    let rows = lines.table(&SUMMARY_COLUMNS, notes, |row| {
        Ok(SummaryRow {
            elapsed_s: row.elapsed()?,
            window_s: row.number(1)?,
            successful: row.number(3)?,
            failed: row.number(4)?,
        })
    })?;
    match rows {
        Some(rows) if !rows.is_empty() => Ok(rows),
        _ => Err(ReportError::NoRows(path)),
    }
}

fn read_operations(
    directory: &Path,
    notes: &mut Vec<String>,
) -> Result<Vec<OperationRows>, ReportError> {
    let entries = fs::read_dir(directory).map_err(ReportError::read(directory))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(LATENCIES_SUFFIX))
        .collect();
    names.sort_unstable();
    let mut operations = Vec::new();
    for file_name in names {
        let lines = CsvLines::read(&directory.join(&file_name))?;
        if let Some(rows) = lines.table(&LATENCIES_COLUMNS, notes, latency_row)? {
            let label = file_name.strip_suffix(LATENCIES_SUFFIX).unwrap_or(&file_name).to_owned();
            operations.push(OperationRows { name: label.clone(), file_label: label, rows });
        }
    }
    if operations.is_empty() {
        return Err(ReportError::NoLatencies(directory.to_owned()));
    }
    Ok(operations)
}

fn latency_row(row: &mut Row<'_>) -> Result<LatencyRow, String> {
    Ok(LatencyRow {
        elapsed_s: row.elapsed()?,
        window_s: row.number(1)?,
        count: row.number(2)?,
        min_us: row.number(3)?,
        mean_us: row.number(4)?,
        median_us: row.number(5)?,
        p95_us: row.number(6)?,
        p99_us: row.number(7)?,
        p99_9_us: row.number(8)?,
        max_us: row.number(9)?,
        error_count: row.number(10)?,
    })
}

fn read_errors(directory: &Path, notes: &mut Vec<String>) -> Result<Vec<ErrorCount>, ReportError> {
    let path = directory.join("errors.csv");
    if !path.exists() {
        notes.push("errors.csv is missing: reasons of errors are not known".to_owned());
        return Ok(Vec::new());
    }
    let lines = CsvLines::read(&path)?;
    let mut errors = Vec::new();
    for (number, text) in lines.whole(notes) {
        if number == 1 || text.is_empty() {
            continue;
        }
        let parsed = text
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'))
            .and_then(|text| text.rsplit_once("\",\""))
            .and_then(|(error, count)| Some((error.replace("\"\"", "\""), count.parse().ok()?)));
        let Some((error, count)) = parsed else {
            let problem = format!("found {text:?} where \"error\",\"count\" was expected");
            return Err(ReportError::Line { path, line: number, problem });
        };
        errors.push(ErrorCount { error, count });
    }
    errors.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.error.cmp(&b.error)));
    Ok(errors)
}
