//! basho_bench's tables: `summary.csv`, one `<label>_latencies.csv` an operation, `errors.csv`.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::OutputError;
use crate::measure::{OperationStats, Window};
use crate::run::ReportedOperation;
use crate::term::Term;

const SUMMARY_HEADER: &str = "elapsed, window, total, successful, failed\n";
const LATENCIES_HEADER: &str =
    "elapsed, window, n, min, mean, median, 95th, 99th, 99_9th, max, errors\n";
const ERRORS_HEADER: &str = "\"error\",\"count\"\n";

/// The open tables of a run.
#[derive(Debug)]
pub(super) struct Tables {
    summary: Table,
    latencies: Vec<Table>,
    errors: Table,
}

/// A file that is written row by row, so that it can be followed.
#[derive(Debug)]
struct Table {
    path: PathBuf,
    file: File,
}

impl Table {
    fn create(path: PathBuf, header: &str) -> Result<Self, OutputError> {
        let file = File::create(&path).map_err(OutputError::write(&path))?;
        let mut table = Self { path, file };
        table.append(header)?;
        Ok(table)
    }

    fn append(&mut self, rows: &str) -> Result<(), OutputError> {
        self.file.write_all(rows.as_bytes()).map_err(OutputError::write(&self.path))
    }
}

impl Tables {
    /// Makes the tables with their headers.
    pub(super) fn create(
        directory: &Path,
        operations: &[ReportedOperation],
    ) -> Result<Self, OutputError> {
        let latencies = operations
            .iter()
            .map(|operation| {
                let name = format!("{}_latencies.csv", operation.file_label);
                Table::create(directory.join(name), LATENCIES_HEADER)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            summary: Table::create(directory.join("summary.csv"), SUMMARY_HEADER)?,
            latencies,
            errors: Table::create(directory.join("errors.csv"), ERRORS_HEADER)?,
        })
    }

    /// Adds the row of a window to every table but that of errors.
    pub(super) fn add_row(
        &mut self,
        elapsed: Duration,
        span: Duration,
        window: &Window,
    ) -> Result<(), OutputError> {
        let times = format!("{}, {}", seconds_text(elapsed), seconds_text(span));
        let (successful, failed) = (window.success_count(), window.error_count());
        let total = successful + failed;
        self.summary.append(&format!("{times}, {total}, {successful}, {failed}\n"))?;
        for (table, stats) in self.latencies.iter_mut().zip(window.operations()) {
            table.append(&format!("{times}, {}\n", latencies_text(stats)))?;
        }
        Ok(())
    }

    /// Writes the errors of the entire run, in the order of their terms.
    pub(super) fn write_errors(
        &mut self,
        operations: &[ReportedOperation],
        total: &Window,
    ) -> Result<(), OutputError> {
        let mut rows: Vec<(Term, u64)> = total
            .errors()
            .iter()
            .map(|((index, reason), count)| (operations[*index].error_key(reason), *count))
            .collect();
        rows.sort();
        let text: String = rows
            .iter()
            .map(|(key, count)| {
                format!("\"{}\",\"{count}\"\n", key.to_string().replace('"', "\"\""))
            })
            .collect();
        self.errors.append(&text)
    }
}

/// Seconds with up to six digits behind the point, as short as they can be.
pub(super) fn seconds_text(duration: Duration) -> String {
    format!("{:?}", duration.as_micros() as f64 / 1e6)
}

fn latencies_text(stats: &OperationStats) -> String {
    let latencies = stats.latencies();
    if latencies.count == 0 {
        return format!("0, 0, 0, 0, 0, 0, 0, 0, {}", stats.error_count());
    }
    format!(
        "{}, {}, {:.1}, {}, {}, {}, {}, {}, {}",
        latencies.count,
        latencies.min_us,
        latencies.mean_us,
        latencies.median_us,
        latencies.p95_us,
        latencies.p99_us,
        latencies.p99_9_us,
        latencies.max_us,
        stats.error_count()
    )
}
