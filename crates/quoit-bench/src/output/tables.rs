//! basho_bench's tables: `summary.csv`, a `<label>_latencies.csv` for each operation, and `errors.csv`.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{OutputError, ResultFile};
use crate::measure::{OperationStats, Window};
use crate::reported_operation::ReportedOperation;
use crate::term::Term;

const SUMMARY_HEADER: &str = "elapsed, window, total, successful, failed\n";
const LATENCIES_HEADER: &str =
    "elapsed, window, n, min, mean, median, 95th, 99th, 99_9th, max, errors\n";
const ERRORS_HEADER: &str = "\"error\",\"count\"\n";

/// The open tables of a run.
#[derive(Debug)]
pub(super) struct Tables {
    summary: CsvTable,
    latencies: Vec<CsvTable>,
    errors: CsvTable,
}

/// A table in a file.
#[derive(Debug)]
struct CsvTable(ResultFile);

impl CsvTable {
    fn create(path: PathBuf, header: &str) -> Result<Self, OutputError> {
        let created = ResultFile::create(path.clone(), header.as_bytes());
        created.map(Self).map_err(OutputError::write(path))
    }

    fn append(&mut self, rows: &str) -> Result<(), OutputError> {
        let appended = self.0.append(rows.as_bytes(), rows.lines().count() as u64);
        appended.map_err(OutputError::write(self.0.path()))
    }
}

impl Tables {
    /// Creates the tables with their headers.
    pub(super) fn create(
        directory: &Path,
        operations: &[ReportedOperation],
    ) -> Result<Self, OutputError> {
        let latencies = operations
            .iter()
            .map(|operation| {
                let name = format!("{}_latencies.csv", operation.file_label);
                CsvTable::create(directory.join(name), LATENCIES_HEADER)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            summary: CsvTable::create(directory.join("summary.csv"), SUMMARY_HEADER)?,
            latencies,
            errors: CsvTable::create(directory.join("errors.csv"), ERRORS_HEADER)?,
        })
    }

    /// Adds the row of a window to every table except that of errors. `times` is the range that the window
    /// covers, since the start of the measurement.
    ///
    /// # Errors
    ///
    /// The first failure; the other tables still get their rows.
    pub(super) fn add_row(
        &mut self,
        times: Range<Duration>,
        window: &Window,
    ) -> Result<(), OutputError> {
        let span = times.end - times.start;
        let times = format!("{}, {}", seconds_text(times.end), seconds_text(span));
        let (successful, failed) = (window.success_count(), window.error_count());
        let total = successful + failed;
        let row = format!("{times}, {total}, {successful}, {failed}\n");
        let mut written = self.summary.append(&row);
        for (table, stats) in self.latencies.iter_mut().zip(window.operations()) {
            let appended = table.append(&format!("{times}, {}\n", latencies_text(stats)));
            written = written.and(appended);
        }
        written
    }

    /// Descriptions, for people, of rows that could not be written, as in `summary.csv (2 rows)`.
    pub(super) fn lost(&self) -> Vec<String> {
        let tables = [&self.summary, &self.errors].into_iter().chain(&self.latencies);
        tables.filter_map(|table| table.0.lost("row")).collect()
    }

    /// Makes every further write to a table fail.
    #[cfg(test)]
    pub(super) fn fill_disk_of(&mut self, file_name: &str) {
        let tables = [&mut self.summary, &mut self.errors].into_iter().chain(&mut self.latencies);
        tables.filter(|table| table.0.path().ends_with(file_name)).for_each(|t| t.0.fill_disk());
    }

    /// Writes the errors of the whole run, ordered by their terms.
    pub(super) fn write_errors(
        &mut self,
        operations: &[ReportedOperation],
        total: &Window,
    ) -> Result<(), OutputError> {
        let mut rows: Vec<(Term, u64)> = total
            .errors_of(operations)
            .map(|(operation, reason, count)| (operation.error_key(reason), count))
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

/// Seconds with at most six decimal places, as short as possible.
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
