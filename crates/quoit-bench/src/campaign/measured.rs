//! The results of a cell, read from its directory.

use super::figure::{GrowthColumn, RunPart, ServerResource};
use crate::growth::median;
use crate::measure::Latencies;
use crate::report::{Growth, rates_of_parts, used_per_operation};
use crate::run::RunSummary;
use std::path::{Path, PathBuf};

/// Results of a cell.
#[derive(Debug)]
pub(super) struct MeasuredCell {
    /// Directory of its run.
    directory: PathBuf,
    /// Number of nodes in a cluster.
    pub(super) node_count: u16,
    results: CellResults,
}

#[derive(Debug)]
enum CellResults {
    Run(Box<RunSummary>),
    Growth(Growth),
    /// There are no results that can be read.
    Nothing,
}

impl MeasuredCell {
    /// Reads the results in a directory. A cell without results has no figures.
    pub(super) fn read(directory: &Path, node_count: u16) -> Self {
        let results = match (RunSummary::read(directory), Growth::read(directory)) {
            (Ok(summary), _) => CellResults::Run(Box::new(summary)),
            (Err(_), Ok(growth)) => CellResults::Growth(growth),
            (Err(_), Err(_)) => CellResults::Nothing,
        };
        Self { directory: directory.to_owned(), node_count: node_count.max(1), results }
    }

    /// A cell without results.
    pub(super) fn nothing(node_count: u16) -> Self {
        let results = CellResults::Nothing;
        Self { directory: PathBuf::new(), node_count: node_count.max(1), results }
    }

    /// The summary of its run; `None` for an experiment of another kind.
    pub(super) fn summary(&self) -> Option<&RunSummary> {
        match &self.results {
            CellResults::Run(summary) => Some(summary),
            _ => None,
        }
    }

    /// File labels of the operations of its run.
    pub(super) fn operations(&self) -> Vec<String> {
        let operations = self.summary().map_or(&[][..], |summary| &summary.operations);
        operations.iter().map(|operation| operation.file_label.clone()).collect()
    }

    /// Latencies of the successful operations with a file label; `None` without such operations.
    pub(super) fn latencies(&self, operation: &str) -> Option<&Latencies> {
        let found = self.summary()?.operations.iter().find(|o| o.file_label == operation)?;
        (found.latencies.count > 0).then_some(&found.latencies)
    }

    /// The mean latencies of two operations, in their order, in milliseconds.
    pub(super) fn means_ms(&self, operations: [&str; 2]) -> Option<[f64; 2]> {
        let [one, other] = operations.map(|name| Some(self.latencies(name)?.mean_us / 1000.0));
        Some([one?, other?])
    }

    /// A resource that all servers used per successful operation, in microseconds or bytes. `None` if the
    /// servers were not watched, or one of them does not report it.
    pub(super) fn server_use(&self, resource: ServerResource) -> Option<f64> {
        self.summary()?;
        let used = used_per_operation(&self.directory).ok()??;
        match resource {
            ServerResource::Cpu => used.cpu_us,
            ServerResource::Read => used.read_bytes,
            ServerResource::Written => used.written_bytes,
        }
    }

    /// Successful operations per second in a part of the run.
    pub(super) fn rate_in(&self, part: RunPart) -> Option<f64> {
        self.summary()?;
        rates_of_parts(&self.directory, part.count).ok()?.get(part.number - 1).copied()
    }

    /// The medians of the first and the last tenth of a column, in milliseconds or bytes.
    pub(super) fn growth_ends(&self, column: GrowthColumn) -> Option<(f64, f64)> {
        let CellResults::Growth(growth) = &self.results else { return None };
        let rows = growth.rows.iter();
        let values: Vec<f64> = match column {
            GrowthColumn::Size => rows.map(|row| row.size_bytes as f64).collect(),
            GrowthColumn::PlainRead => rows.map(|row| row.kv_read_s * 1e3).collect(),
            GrowthColumn::Read => rows.map(|row| row.read_after_s * 1e3).collect(),
            GrowthColumn::Write => rows.map(|row| row.write_s * 1e3).collect(),
        };
        let values: Vec<f64> = values.into_iter().filter(|value| *value > 0.0).collect();
        let count = values.len().div_ceil(10);
        Some((median(values.get(..count)?)?, median(values.get(values.len() - count..)?)?))
    }
}
