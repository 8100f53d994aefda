//! The figures of each operation, from its interval logs or, if there are none, from the rows of its table.

use super::results::{LatencyRow, OperationRows};
use super::{ReportError, Results};
use crate::measure::intervals::{self, BREAKDOWN_FOLDER, EXTENSION, FOLDER, IntervalReader};
use crate::measure::{Attempts, Latencies, OperationStats};

/// The figures of one operation.
#[derive(Debug)]
pub(super) struct Figures {
    /// The label in the form shown to people.
    pub(super) name: String,
    /// Number of successful operations.
    pub(super) count: u64,
    /// Number of failed operations.
    pub(super) error_count: u64,
    /// Successful operations per second.
    pub(super) rate_per_s: f64,
    pub(super) latencies: Latencies,
    /// The whole distribution, if the run recorded it.
    pub(super) distribution: Option<OperationStats>,
    /// Latencies of successful and failed operations together, if some failed and the run recorded when.
    pub(super) attempts: Option<Attempts>,
    /// Times until operations failed, if some did and the run recorded when.
    pub(super) failed: Option<OperationStats>,
    /// Time from an operation's first request to its last answer, if the run recorded it.
    pub(super) service: Option<OperationStats>,
}

/// The load generator's part of the latencies.
#[derive(Debug)]
pub(super) struct GeneratorLatencies {
    /// Latencies of the canaries.
    pub(super) canary: OperationStats,
    pub(super) queueing: OperationStats,
    pub(super) client_delay: OperationStats,
}

/// The load generator's part of a run's latencies; `None` if the run did not record it.
pub(super) fn generator_latencies(
    results: &Results,
) -> Result<Option<GeneratorLatencies>, ReportError> {
    let Some(canary) = part(results, "canary")? else { return Ok(None) };
    let queueing = part(results, "queueing")?.unwrap_or_default();
    let client_delay = part(results, "client-delay")?.unwrap_or_default();
    Ok(Some(GeneratorLatencies { canary, queueing, client_delay }))
}

/// A distribution of the breakdown; `None` if the run did not record it.
fn part(results: &Results, name: &str) -> Result<Option<OperationStats>, ReportError> {
    open_part(results, name)?.map(|intervals| sum(results, intervals)).transpose()
}

/// The intervals of a distribution of the breakdown; `None` if the run did not record it.
pub(super) fn open_part(
    results: &Results,
    name: &str,
) -> Result<Option<IntervalReader>, ReportError> {
    let label = format!("{BREAKDOWN_FOLDER}/{name}");
    let path = results.directory.join(FOLDER).join(format!("{label}.{EXTENSION}"));
    Ok(if path.exists() { Some(IntervalReader::open(&results.directory, &label)?) } else { None })
}

/// The figures of every operation, in the order of the results.
pub(super) fn figures(results: &Results) -> Result<Vec<Figures>, ReportError> {
    let labels = intervals::file_labels(&results.directory)?;
    let span_s: f64 = results.summary.iter().map(|row| row.window_s).sum();
    let of = |operation: &OperationRows| {
        let error_count: f64 = operation.rows.iter().map(|row| row.error_count).sum();
        let distribution = if labels.contains(&operation.file_label) {
            Some(distribution(results, &operation.file_label)?)
        } else {
            None
        };
        let latencies =
            distribution.as_ref().map_or_else(|| of_rows(&operation.rows), |d| d.latencies());
        let failed = part(results, &format!("failed-{}", operation.file_label))?;
        let failed = failed.filter(|failed| failed.count() > 0);
        let both = distribution.as_ref().zip(failed.as_ref());
        let attempts = both.and_then(|(done, failed)| done.attempts(failed));
        let service = part(results, &format!("service-{}", operation.file_label))?;
        Ok(Figures {
            name: operation.name.clone(),
            count: latencies.count,
            error_count: quoit_number::whole(error_count),
            rate_per_s: latencies.count as f64 / span_s.max(1e-6),
            latencies,
            distribution,
            attempts,
            failed,
            service,
        })
    };
    results.operations.iter().map(of).collect()
}

/// The sum of an operation's intervals that lie within the range of the results.
fn distribution(results: &Results, file_label: &str) -> Result<OperationStats, ReportError> {
    sum(results, IntervalReader::open(&results.directory, file_label)?)
}

fn sum(results: &Results, intervals: IntervalReader) -> Result<OperationStats, ReportError> {
    let (start_s, end_s) = results.range_s;
    let mut sum = OperationStats::new();
    for interval in intervals {
        let interval = interval?;
        let end = (interval.start + interval.length).as_secs_f64();
        if end >= start_s && end <= end_s {
            sum.add(&interval.stats);
        }
    }
    Ok(sum)
}

/// Percentiles cannot be added up, so the percentile of the median row stands for all rows. Each row weighs
/// as much as it has latencies.
fn of_rows(rows: &[LatencyRow]) -> Latencies {
    let rows: Vec<&LatencyRow> = rows.iter().filter(|row| row.count > 0.0).collect();
    let count: f64 = rows.iter().map(|row| row.count).sum();
    if count <= 0.0 {
        return Latencies::default();
    }
    let typical_us = |value_us: fn(&LatencyRow) -> f64| {
        let mut values: Vec<(f64, f64)> =
            rows.iter().map(|row| (value_us(row), row.count)).collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut reached = 0.0;
        let reaches_half = |(_, weight): &&(f64, f64)| {
            reached += weight;
            reached >= count / 2.0
        };
        quoit_number::whole(values.iter().find(reaches_half).map_or(0.0, |(value_us, _)| *value_us))
    };
    Latencies {
        count: quoit_number::whole(count),
        min_us: quoit_number::whole(
            rows.iter().map(|row| row.min_us).fold(f64::INFINITY, f64::min),
        ),
        mean_us: rows.iter().map(|row| row.mean_us * row.count).sum::<f64>() / count,
        median_us: typical_us(|row| row.median_us),
        p95_us: typical_us(|row| row.p95_us),
        p99_us: typical_us(|row| row.p99_us),
        p99_9_us: typical_us(|row| row.p99_9_us),
        max_us: quoit_number::whole(rows.iter().map(|row| row.max_us).fold(0.0, f64::max)),
    }
}
