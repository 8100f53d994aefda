//! Results of a run.

use super::usage::IoBytes;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;

/// The fields of the load generator's `summary.json` that this benchmark reads.
#[derive(Clone, Deserialize, Debug)]
pub(super) struct StageSummary {
    pub(super) successful: u64,
    pub(super) failed: u64,
    pub(super) elapsed_s: f64,
    operations: Vec<StageOperation>,
    pub(super) errors: Vec<Failure>,
}

#[derive(Clone, Deserialize, Debug)]
struct StageOperation {
    name: String,
    latencies: StageLatencies,
}

/// Latencies of an operation, in microseconds.
#[derive(Clone, Copy, Deserialize, Debug)]
pub(super) struct StageLatencies {
    pub(super) count: u64,
    pub(super) median_us: u64,
    pub(super) p95_us: u64,
    pub(super) p99_us: u64,
    pub(super) p99_9_us: u64,
}

/// A reason for failures.
#[derive(Clone, Deserialize, Debug)]
pub(super) struct Failure {
    pub(super) operation: String,
    pub(super) reason: String,
    pub(super) count: u64,
}

impl StageSummary {
    pub(super) fn read(run: &Path) -> Result<Self> {
        let path = run.join("summary.json");
        let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&bytes).with_context(|| format!("{} is no summary", path.display()))
    }

    /// The latencies of an operation, if it was run.
    pub(super) fn latencies(&self, name: &str) -> Option<StageLatencies> {
        let found = self.operations.iter().find(|operation| operation.name == name)?;
        Some(found.latencies).filter(|latencies| latencies.count > 0)
    }

    /// The number of successes of an operation.
    pub(super) fn count(&self, name: &str) -> u64 {
        self.latencies(name).map_or(0, |latencies| latencies.count)
    }
}

/// Results of a run, and its cost for the node.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) summary: StageSummary,
    pub(super) cpu: Duration,
    /// Bytes moved during the run, and while the node finished its background writes after it.
    pub(super) moved: IoBytes,
    /// Reads of the device by all processes during the run.
    pub(super) device_reads: Option<u64>,
    /// Size of the data directory after the run.
    pub(super) disk_bytes: u64,
    /// Peak memory of the node since its start.
    pub(super) peak_resident_bytes: u64,
    /// Operations in each second.
    pub(super) curve: Vec<f64>,
    /// Mean size of a value, in bytes.
    pub(super) value_bytes: f64,
    /// Total size of all values, in bytes.
    pub(super) live_bytes: Option<f64>,
}

impl Figures {
    pub(super) fn rate(&self) -> f64 {
        self.summary.successful as f64 / self.summary.elapsed_s.max(1e-9)
    }

    fn operation_count(&self) -> f64 {
        (self.summary.successful + self.summary.failed).max(1) as f64
    }

    pub(super) fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.operation_count()
    }

    /// The number of puts, including those of updates.
    fn put_count(&self) -> u64 {
        self.summary.count("put") + self.summary.count("update")
    }

    /// Total size of the values that were put, in bytes.
    pub(super) fn put_bytes(&self) -> f64 {
        self.put_count() as f64 * self.value_bytes
    }

    /// Write amplification: bytes written to the device per byte of a value that was put; `None` without
    /// puts.
    pub(super) fn written_per_byte(&self) -> Option<f64> {
        let put_bytes = self.put_bytes();
        (put_bytes > 0.0).then(|| self.moved.written_bytes as f64 / put_bytes)
    }

    /// Bytes read from the device per operation.
    pub(super) fn read_per_operation(&self) -> f64 {
        self.moved.read_bytes as f64 / self.operation_count()
    }

    /// Reads of the device per operation.
    pub(super) fn device_reads_per_operation(&self) -> Option<f64> {
        self.device_reads.map(|reads| reads as f64 / self.operation_count())
    }

    /// Space amplification: size of the data directory per byte of the values in it.
    pub(super) fn space(&self) -> Option<f64> {
        self.live_bytes.map(|live_bytes| self.disk_bytes as f64 / live_bytes.max(1.0))
    }

    /// The mean rate in each tenth of the run.
    pub(super) fn tenths(&self) -> Vec<f64> {
        tenths(&self.curve)
    }
}

fn tenths(curve: &[f64]) -> Vec<f64> {
    let count = curve.len();
    let part = |number: usize| &curve[count * number / 10..count * (number + 1) / 10];
    (0..10).map(part).filter(|part| !part.is_empty()).map(mean).collect()
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Operations in each second of a run. The last second may be incomplete and is left out.
pub(super) fn curve(run: &Path) -> Vec<f64> {
    let text = std::fs::read_to_string(run.join("summary.csv")).unwrap_or_default();
    let mut seconds: Vec<f64> = text.lines().skip(1).filter_map(rate_of).collect();
    seconds.pop();
    seconds
}

/// Parses a row: elapsed time, length of the window, operations, successes, failures. Returns the successes
/// per second.
fn rate_of(row: &str) -> Option<f64> {
    let cells: Vec<f64> = row.split(',').filter_map(|cell| cell.trim().parse().ok()).collect();
    let (window_s, successful) = (cells.get(1)?, cells.get(3)?);
    (*window_s > 0.0).then(|| successful / window_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_has_a_mean_for_each_tenth() {
        let curve: Vec<f64> = (0..20).map(f64::from).collect();
        assert_eq!(tenths(&curve), [0.5, 2.5, 4.5, 6.5, 8.5, 10.5, 12.5, 14.5, 16.5, 18.5]);
        assert_eq!(tenths(&[3.0, 5.0]), [3.0, 5.0]);
        assert!(tenths(&[]).is_empty());
    }

    #[test]
    fn a_row_of_the_summary_gives_successes_a_second() {
        assert_eq!(rate_of("12.0, 2.0, 90, 80, 10"), Some(40.0));
        assert_eq!(rate_of("elapsed, window"), None);
    }
}
