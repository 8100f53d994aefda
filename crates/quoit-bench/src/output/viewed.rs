//! Seconds of a run in the form of the view.

use std::time::Duration;

use crate::measure::{OperationStats, Window};
use crate::reported_operation::ReportedOperation;
use crate::view::{OperationLine, ServerLine, Spectrum, ViewSecond};

/// Maximum number of reasons of failures that are shown.
const REASONS_MAX: usize = 8;

/// A second of a run, with the totals up to its end.
#[derive(Debug)]
pub(crate) struct ViewedSecond<'a> {
    pub(crate) operations: &'a [ReportedOperation],
    /// Time since the start of the measurement.
    pub(crate) elapsed: Duration,
    /// Counts of the second; `None` if nothing ended in it.
    pub(crate) second: Option<&'a Window>,
    /// Totals since the start of the measurement.
    pub(crate) total: &'a Window,
    /// Share of the trace that has been replayed, if it is known.
    pub(crate) replayed: Option<f64>,
}

impl ViewedSecond<'_> {
    /// The second in the form of the view.
    pub(crate) fn view(&self, servers: Vec<ServerLine>) -> ViewSecond {
        let mut spectrum = Spectrum::default();
        for stats in self.second.into_iter().flat_map(Window::operations) {
            for step in stats.histogram_ns().iter_recorded() {
                let latency = Duration::from_nanos(step.value_iterated_to());
                spectrum.add(latency, step.count_since_last_iteration());
            }
        }
        let of_second = self.second.map(Window::operations).unwrap_or_default();
        let with_totals = self.operations.iter().zip(self.total.operations());
        let lines = with_totals.enumerate().map(|(index, (operation, total))| {
            let stats = of_second.get(index);
            OperationLine {
                name: operation.name(),
                rate_per_s: stats.map_or(0.0, |stats| stats.count() as f64),
                error_count: total.error_count(),
                latencies_us: stats.filter(|stats| stats.count() > 0).map(latencies_us),
            }
        });
        ViewSecond {
            elapsed: self.elapsed,
            operations: lines.collect(),
            spectrum,
            errors: self.errors(),
            servers,
            replayed: self.replayed,
        }
    }

    /// The most frequent reasons of failures.
    fn errors(&self) -> Vec<(String, u64)> {
        let mut errors: Vec<(String, u64)> = self
            .total
            .errors_of(self.operations)
            .map(|(operation, reason, count)| (format!("{}: {reason}", operation.name()), count))
            .collect();
        errors.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        errors.truncate(REASONS_MAX);
        errors
    }
}

fn latencies_us(stats: &OperationStats) -> [u64; 5] {
    let latencies = stats.latencies();
    [latencies.median_us, latencies.p95_us, latencies.p99_us, latencies.p99_9_us, latencies.max_us]
}
