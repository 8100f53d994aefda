//! The rows of a run for other programs, during the run: lines of JSON, and a file in the OpenMetrics
//! format.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use crate::measure::{Latencies, OperationStats, Window};
use crate::reported_operation::ReportedOperation;

/// Quantiles in the OpenMetrics file: the figures of latencies behind the minimum and the mean.
const QUANTILES: [&str; 5] = ["0.5", "0.95", "0.99", "0.999", "1"];

/// Destinations of the rows; none by default.
#[derive(Default)]
pub(super) struct Live {
    /// Receives a line of JSON for each row.
    pub(super) rows: Option<Box<dyn Write + Send>>,
    /// Path of the OpenMetrics file, which is rewritten for each row.
    pub(super) metrics: Option<PathBuf>,
}

/// A row of a run.
#[derive(Debug)]
pub(crate) struct LiveRow<'a> {
    pub(crate) operations: &'a [ReportedOperation],
    /// Time from the start of the measurement to the end of the row.
    pub(crate) elapsed: Duration,
    /// Length of the row.
    pub(crate) span: Duration,
    pub(crate) row: &'a Window,
    /// Totals since the start of the measurement.
    pub(crate) total: &'a Window,
}

/// A row in JSON.
#[derive(Serialize)]
struct RowDocument {
    r#type: &'static str,
    elapsed_s: f64,
    span_s: f64,
    operations: Vec<OperationDocument>,
}

#[derive(Serialize)]
struct OperationDocument {
    name: String,
    successful_per_s: f64,
    failed: u64,
    latencies: Latencies,
}

impl Live {
    /// Writes a row to the destinations.
    ///
    /// # Errors
    ///
    /// When the OpenMetrics file cannot be written. A closed stream of lines is not an error.
    pub(super) fn tell(&mut self, row: &LiveRow<'_>) -> io::Result<()> {
        if let Some(rows) = &mut self.rows {
            let _ = writeln!(rows, "{}", row.json()).and_then(|()| rows.flush());
        }
        self.metrics.as_deref().map_or(Ok(()), |file| replace(file, &row.open_metrics()))
    }
}

impl LiveRow<'_> {
    fn json(&self) -> String {
        let span_s = self.span.as_secs_f64().max(1e-6);
        let of_row = self.operations.iter().zip(self.row.operations());
        let operations = of_row.map(|(operation, stats)| OperationDocument {
            name: operation.name(),
            successful_per_s: stats.count() as f64 / span_s,
            failed: stats.error_count(),
            latencies: stats.latencies(),
        });
        let document = RowDocument {
            r#type: "row",
            elapsed_s: self.elapsed.as_secs_f64(),
            span_s: self.span.as_secs_f64(),
            operations: operations.collect(),
        };
        serde_json::to_string(&document).expect("numbers and texts are JSON")
    }

    fn open_metrics(&self) -> String {
        let mut text = String::new();
        let mut line = |args: std::fmt::Arguments<'_>| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{args}");
        };
        let each = || {
            let labels = self.operations.iter().map(|operation| label(&operation.name()));
            labels.zip(self.total.operations())
        };
        line(format_args!("# TYPE quoit_bench_elapsed_seconds gauge"));
        line(format_args!("# UNIT quoit_bench_elapsed_seconds seconds"));
        line(format_args!("quoit_bench_elapsed_seconds {}", self.elapsed.as_secs_f64()));
        line(format_args!("# TYPE quoit_bench_operations counter"));
        for (operation, stats) in each() {
            for (result, count) in [("ok", stats.count()), ("error", stats.error_count())] {
                line(format_args!(
                    "quoit_bench_operations_total{{operation=\"{operation}\",result=\"{result}\"}} {count}"
                ));
            }
        }
        line(format_args!("# TYPE quoit_bench_latency_seconds summary"));
        line(format_args!("# UNIT quoit_bench_latency_seconds seconds"));
        for (operation, stats) in each() {
            summary(&operation, stats, &mut line);
        }
        line(format_args!("# EOF"));
        text
    }
}

/// The samples of one operation's latencies.
fn summary(
    operation: &str,
    stats: &OperationStats,
    line: &mut impl FnMut(std::fmt::Arguments<'_>),
) {
    let latencies = stats.latencies();
    let [_, _, quantiles_us @ ..] = latencies.figures_us();
    let name = "quoit_bench_latency_seconds";
    for (quantile, us) in QUANTILES.iter().zip(quantiles_us).filter(|_| latencies.count > 0) {
        let seconds = us / 1e6;
        line(format_args!("{name}{{operation=\"{operation}\",quantile=\"{quantile}\"}} {seconds}"));
    }
    let sum_s = latencies.mean_us * latencies.count as f64 / 1e6;
    line(format_args!("{name}_sum{{operation=\"{operation}\"}} {sum_s}"));
    line(format_args!("{name}_count{{operation=\"{operation}\"}} {}", latencies.count));
}

/// Escapes a text for the value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Replaces a file atomically, so that readers never see half of it. The mode is that of any new file of
/// this process (0666 and the umask), because collectors run as other users; temporary files would be
/// private.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let mut written = tempfile::Builder::new()
        .permissions(readable)
        .tempfile_in(directory.unwrap_or(Path::new(".")))?;
    written.write_all(text.as_bytes())?;
    written.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::Term;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_row_is_a_line_of_json_and_a_whole_file_of_open_metrics() {
        let name = Term::Tuple(vec![Term::atom("get"), Term::Binary(b"\"".to_vec())]);
        let operation = ReportedOperation {
            label: name.clone(),
            operation: name,
            file_label: "get".to_owned(),
        };
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("metrics.txt");
        let mut live = Live { rows: None, metrics: Some(file.clone()) };
        let window = Window::new(1);
        let row = LiveRow {
            operations: &[operation],
            elapsed: Duration::from_secs(3),
            span: Duration::from_secs(1),
            row: &window,
            total: &window,
        };
        live.tell(&row).expect("it is written");
        let text = std::fs::read_to_string(&file).expect("it is there");
        assert!(text.contains("quoit_bench_elapsed_seconds 3\n"), "{text}");
        assert!(
            text.contains("operation=\"{get,<<\\\"\\\\\\\"\\\">>}\",result=\"ok\"} 0\n"),
            "{text}"
        );
        assert!(text.ends_with("# EOF\n"), "{text}");
        // The mode must be that of any file that this process creates with its umask.
        let plain = directory.path().join("plain");
        std::fs::write(&plain, "").expect("a file");
        let mode = |path: &Path| std::fs::metadata(path).expect("a file").permissions().mode();
        assert_eq!(mode(&file), mode(&plain));
        std::fs::remove_file(plain).expect("a file");
        let others = std::fs::read_dir(directory.path()).expect("a directory").count();
        assert_eq!(others, 1, "nothing is left beside it");
        let json: serde_json::Value = serde_json::from_str(&row.json()).expect("it is JSON");
        assert_eq!((&json["type"], &json["elapsed_s"]), (&"row".into(), &3.0.into()));
        live.metrics = Some(directory.path().join("none/metrics.txt"));
        assert!(live.tell(&row).is_err());
    }
}
