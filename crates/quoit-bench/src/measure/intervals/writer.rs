//! Writing of interval logs during a run.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError};

use super::{BREAKDOWN_FOLDER, FOLDER, IntervalError, path_of};
use crate::measure::{Breakdown, OperationStats, Window};
use crate::reported_operation::ReportedOperation;
use crate::result_file::ResultFile;

/// The open logs of a run: one for each operation, and one for each distribution of the breakdown. Nothing
/// is kept in memory between intervals.
pub(crate) struct IntervalWriter {
    /// File labels of the operations.
    labels: Vec<String>,
    operations: Vec<ResultFile>,
    /// Logs of the breakdown, in the order of [`Breakdown::by_file`].
    breakdown: Vec<ResultFile>,
    serializer: V2DeflateSerializer,
    lines: Vec<u8>,
}

impl IntervalWriter {
    /// Creates the logs of a run in `directory`. `start` is the start of the measurement.
    ///
    /// # Errors
    ///
    /// [`IntervalError::File`].
    pub(crate) fn create(
        directory: &Path,
        operations: &[ReportedOperation],
        start: SystemTime,
    ) -> Result<Self, IntervalError> {
        let folder = directory.join(FOLDER).join(BREAKDOWN_FOLDER);
        fs::create_dir_all(&folder).map_err(IntervalError::file(&folder))?;
        let labels: Vec<String> =
            operations.iter().map(|operation| operation.file_label.clone()).collect();
        let mut writer = Self {
            labels: labels.clone(),
            operations: Vec::new(),
            breakdown: Vec::new(),
            serializer: V2DeflateSerializer::new(),
            lines: Vec::new(),
        };
        for label in &labels {
            let about = "[Latencies of successful operations in nanoseconds]";
            let file = writer.file(&path_of(directory, label), about, start)?;
            writer.operations.push(file);
        }
        for (name, _) in Breakdown::new(labels.len()).by_file(&labels) {
            let path = path_of(directory, &format!("{BREAKDOWN_FOLDER}/{name}"));
            let file = writer.file(&path, "[A part of the latencies in nanoseconds]", start)?;
            writer.breakdown.push(file);
        }
        Ok(writer)
    }

    /// Creates one log with its header.
    fn file(
        &mut self,
        path: &Path,
        about: &str,
        start: SystemTime,
    ) -> Result<ResultFile, IntervalError> {
        self.lines.clear();
        let begun = IntervalLogWriterBuilder::new()
            .add_comment("[Histogram log format version 1.3]")
            .add_comment(about)
            .with_start_time(start)
            .with_base_time(start)
            .begin_log_with(&mut self.lines, &mut self.serializer)
            .map(drop);
        let file = begun.and_then(|()| ResultFile::create(path.to_owned(), &self.lines));
        file.map_err(IntervalError::file(path))
    }

    /// Appends the interval of `times`, since the start of the measurement, to every log. An operation of
    /// which none ended in the interval gets no line.
    ///
    /// # Errors
    ///
    /// The first [`IntervalError::File`]; the other logs still get their lines.
    pub(crate) fn append(
        &mut self,
        times: &Range<Duration>,
        window: &Window,
    ) -> Result<(), IntervalError> {
        let mut written = Ok(());
        let parts = window.breakdown().by_file(&self.labels).map(|(_, stats)| stats);
        let files = self.operations.iter_mut().chain(&mut self.breakdown);
        for (file, stats) in files.zip(window.operations().iter().chain(parts)) {
            if stats.count() + stats.error_count() == 0 {
                continue;
            }
            self.lines.clear();
            let appended = write_lines(&mut self.lines, &mut self.serializer, times, stats)
                .and_then(|()| file.append(&self.lines, 1))
                .map_err(IntervalError::file(file.path()));
            written = written.and(appended);
        }
        written
    }

    /// Descriptions, for people, of data that could not be written.
    pub(crate) fn lost(&self) -> Vec<String> {
        self.operations
            .iter()
            .chain(&self.breakdown)
            .filter_map(|file| file.lost("interval"))
            .collect()
    }
}

/// Writes the comment with the exact figures and, unless it is empty, the line of the histogram.
fn write_lines(
    lines: &mut Vec<u8>,
    serializer: &mut V2DeflateSerializer,
    times: &Range<Duration>,
    stats: &OperationStats,
) -> std::io::Result<()> {
    let (start, length) = (times.start, times.end - times.start);
    let (start_us, length_us) = (start.as_micros(), length.as_micros());
    let (count, error_count) = (stats.count(), stats.error_count());
    let (sum_ns, min_ns, max_ns) = stats.exact_ns();
    let mut log = IntervalLogWriterBuilder::new().begin_log_with(lines, serializer)?;
    log.write_comment(&format!(
        "[Interval start_us={start_us} length_us={length_us} successful={count} \
         failed={error_count} sum_ns={sum_ns} min_ns={min_ns} max_ns={max_ns}]"
    ))?;
    if count == 0 {
        return Ok(());
    }
    log.write_histogram(stats.histogram_ns(), start, length, None).map_err(|error| match error {
        IntervalLogWriterError::IoError(error) => error,
        IntervalLogWriterError::SerializeError(error) => std::io::Error::other(error),
    })
}
