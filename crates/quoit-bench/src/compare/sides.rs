//! The runs of a side, and their figures second by second.

use super::CompareError;
use crate::measure::intervals::{self, IntervalReader};
use crate::measure::{Latencies, OperationStats};
use crate::report::Results;
use crate::run::RunSummary;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The figures of one run.
#[derive(Debug)]
pub(super) struct RunFigures {
    pub(super) directory: PathBuf,
    /// Operations per second, second by second.
    pub(super) rates: Vec<f64>,
    /// The operations, by file label.
    pub(super) operations: BTreeMap<String, OperationSeconds>,
    /// Time that each rate covers, in seconds: 1, or that of a row of the tables.
    pub(super) span_s: f64,
    pub(super) success_count: f64,
    pub(super) error_count: u64,
    /// True if the load offered a given number of operations per second.
    pub(super) is_paced: bool,
    /// Latencies of operations that ask no server; all 0 if the run did not measure them.
    pub(super) noise_floor: Latencies,
    /// True if the load generator limited the run.
    pub(super) is_client_bound: bool,
}

/// One operation, second by second. Seconds without a success are left out.
#[derive(Debug, Default)]
pub(super) struct OperationSeconds {
    pub(super) median_us: Vec<f64>,
    pub(super) p99_us: Vec<f64>,
    /// Unit in microseconds to which the latencies were rounded; 0 if they were not rounded.
    pub(super) step_us: f64,
    /// All its latencies, if the run recorded their distribution.
    pub(super) all: Option<OperationStats>,
}

/// Directories of the runs in a directory: the directory itself, or its subdirectories.
pub(super) fn runs_in(directory: &Path) -> Result<Vec<PathBuf>, CompareError> {
    if directory.join("summary.csv").is_file() {
        return Ok(vec![directory.to_owned()]);
    }
    let unreadable = |error| CompareError::Unreadable { path: directory.to_owned(), error };
    let mut runs = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        // Skip links: `current` points to one of the other directories.
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && entry.path().join("summary.csv").is_file() {
            runs.push(entry.path());
        }
    }
    runs.sort();
    if runs.is_empty() {
        return Err(CompareError::NoRuns(directory.to_owned()));
    }
    Ok(runs)
}

impl RunFigures {
    pub(super) fn read(directory: &Path) -> Result<Self, CompareError> {
        let results = Results::read(directory)?;
        let summary = RunSummary::read(directory).ok();
        let labels = intervals::file_labels(directory)?;
        let has_all = results.operations.iter().all(|one| labels.contains(&one.file_label));
        let (rates, operations) = match has_all {
            true => of_intervals(directory, &results)?,
            false => of_rows(&results),
        };
        let span_s = if has_all { 1.0 } else { row_s(&results) };
        Ok(Self {
            directory: directory.to_owned(),
            rates,
            operations,
            span_s,
            success_count: results.summary.iter().map(|row| row.successful).sum(),
            error_count: quoit_number::whole(results.summary.iter().map(|row| row.failed).sum()),
            is_paced: summary.as_ref().is_some_and(|summary| summary.mode.is_paced()),
            noise_floor: summary.as_ref().map(|it| it.client.noise_floor).unwrap_or_default(),
            is_client_bound: summary.is_some_and(|summary| summary.client.client_bound),
        })
    }
}

type SecondFigures = (Vec<f64>, BTreeMap<String, OperationSeconds>);

/// The figures of the seconds, from the interval logs.
fn of_intervals(directory: &Path, results: &Results) -> Result<SecondFigures, CompareError> {
    let mut counts: BTreeMap<Duration, (f64, f64)> = BTreeMap::new();
    let mut operations = BTreeMap::new();
    for operation in &results.operations {
        let mut seconds = OperationSeconds::default();
        let mut all = OperationStats::new();
        for interval in IntervalReader::open(directory, &operation.file_label)? {
            let interval = interval?;
            let count = counts.entry(interval.start).or_default();
            *count = (count.0 + interval.stats.count() as f64, interval.length.as_secs_f64());
            if interval.stats.count() > 0 {
                // Use nanoseconds, because whole microseconds are too coarse for operations that take one
                // or two.
                let of =
                    |quantile| interval.stats.histogram_ns().value_at_quantile(quantile) as f64;
                seconds.median_us.push(of(0.5) / 1e3);
                seconds.p99_us.push(of(0.99) / 1e3);
            }
            all.add(&interval.stats);
        }
        seconds.all = Some(all);
        operations.insert(operation.file_label.clone(), seconds);
    }
    // Seconds in which nothing ended have no entry.
    let end = counts.last_key_value().map_or(0, |(start, _)| start.as_secs());
    let of_second = |second: u64| match counts.get(&Duration::from_secs(second)) {
        Some((count, length_s)) if *length_s > 0.5 => Some(count / length_s),
        Some(_) => None,
        None => Some(0.0),
    };
    Ok(((0..=end).filter_map(of_second).collect(), operations))
}

/// Time that a whole row of the tables covers, in seconds.
fn row_s(results: &Results) -> f64 {
    results.summary.iter().map(|row| row.window_s).fold(0.0, f64::max)
}

/// The figures of the rows of the tables.
fn of_rows(results: &Results) -> SecondFigures {
    let whole = results.summary.iter().filter(|row| row.window_s > row_s(results) / 2.0);
    let rates = whole.map(|row| row.successful / row.window_s).collect();
    let mut operations = BTreeMap::new();
    for operation in &results.operations {
        let rows = operation.rows.iter().filter(|row| row.count > 0.0);
        let mut seconds = OperationSeconds { step_us: 1.0, ..OperationSeconds::default() };
        for row in rows {
            seconds.median_us.push(row.median_us);
            seconds.p99_us.push(row.p99_us);
        }
        operations.insert(operation.file_label.clone(), seconds);
    }
    (rates, operations)
}
