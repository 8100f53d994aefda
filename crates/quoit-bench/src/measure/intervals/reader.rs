//! Reading interval logs, one interval at a time.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use super::{EXTENSION, FOLDER, Interval, IntervalError, path_of};
use crate::measure::OperationStats;

/// File labels of a run's operations, sorted; empty for a run without interval logs.
///
/// # Errors
///
/// When the directory of the logs cannot be read.
pub fn file_labels(run: &Path) -> Result<Vec<String>, IntervalError> {
    let folder = run.join(FOLDER);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut labels = Vec::new();
    for entry in fs::read_dir(&folder).map_err(IntervalError::file(&folder))? {
        let path = entry.map_err(IntervalError::file(&folder))?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION)
            && let Some(label) = path.file_stem().and_then(|stem| stem.to_str())
        {
            labels.push(label.to_owned());
        }
    }
    labels.sort();
    Ok(labels)
}

/// The sum of all intervals of an operation.
///
/// # Errors
///
/// As [`IntervalReader`].
pub fn total(run: &Path, file_label: &str) -> Result<OperationStats, IntervalError> {
    let mut sum = OperationStats::new();
    for interval in IntervalReader::open(run, file_label)? {
        sum.add(&interval?.stats);
    }
    Ok(sum)
}

/// The intervals of one operation in ascending order of time. Holds one interval in memory.
///
/// An incomplete last line, which a killed run leaves, ends the log.
pub struct IntervalReader {
    path: PathBuf,
    file: BufReader<File>,
    line: String,
    line_number: u64,
    deserializer: Deserializer,
}

impl IntervalReader {
    /// Opens the log of an operation. `run` is the directory of the run.
    ///
    /// # Errors
    ///
    /// [`IntervalError::File`].
    pub fn open(run: &Path, file_label: &str) -> Result<Self, IntervalError> {
        let path = path_of(run, file_label);
        let file = File::open(&path).map_err(IntervalError::file(&path))?;
        Ok(Self {
            path,
            file: BufReader::new(file),
            line: String::new(),
            line_number: 0,
            deserializer: Deserializer::new(),
        })
    }

    /// Reads the next complete line. Returns false at the end.
    fn next_line(&mut self) -> Result<bool, IntervalError> {
        self.line.clear();
        self.line_number += 1;
        let read = self.file.read_line(&mut self.line);
        read.map_err(IntervalError::file(&self.path))?;
        Ok(self.line.ends_with('\n'))
    }

    fn malformed(&self, problem: &'static str) -> IntervalError {
        IntervalError::Malformed { path: self.path.clone(), line: self.line_number, problem }
    }

    fn read(&mut self) -> Result<Option<Interval>, IntervalError> {
        while self.next_line()? {
            let Some(fields) = self.line.trim_end().strip_prefix("#[Interval ") else {
                if self.line.starts_with('#') {
                    continue;
                }
                return Err(self.malformed("a histogram without a line of its interval"));
            };
            let exact = Exact::parse(fields)
                .ok_or_else(|| self.malformed("a figure of the interval is not a number"))?;
            let histogram = if exact.successful == 0 {
                None
            } else if self.next_line()? {
                Some(self.histogram()?)
            } else {
                return Ok(None);
            };
            if histogram.as_ref().is_some_and(|histogram| histogram.len() != exact.successful) {
                return Err(self.malformed("the histogram has another count than its interval"));
            }
            let range_ns = (exact.min_ns, exact.max_ns);
            let stats = OperationStats::from_parts(histogram, exact.sum_ns, range_ns, exact.failed);
            return Ok(Some(Interval { start: exact.start, length: exact.length, stats }));
        }
        Ok(None)
    }

    fn histogram(&mut self) -> Result<Histogram<u64>, IntervalError> {
        let encoded = match IntervalLogIterator::new(self.line.as_bytes()).next() {
            Some(Ok(LogEntry::Interval(interval))) => interval.encoded_histogram().to_owned(),
            _ => return Err(self.malformed("no line of a histogram")),
        };
        let bytes =
            STANDARD.decode(encoded).map_err(|_| self.malformed("the histogram is no Base64"))?;
        let decoded = self.deserializer.deserialize(&mut bytes.as_slice());
        decoded.map_err(|_| self.malformed("the histogram cannot be decoded"))
    }
}

impl Iterator for IntervalReader {
    type Item = Result<Interval, IntervalError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// The figures of an interval that its histogram does not hold exactly.
struct Exact {
    start: Duration,
    length: Duration,
    successful: u64,
    failed: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Exact {
    /// Parses fields `name=number` up to a `]`.
    fn parse(fields: &str) -> Option<Self> {
        let fields = fields.strip_suffix(']')?;
        let number = |name: &str| {
            let mut pairs = fields.split(' ').filter_map(|field| field.split_once('='));
            pairs.find(|(key, _)| *key == name)?.1.parse::<u128>().ok()
        };
        let word = |name: &str| u64::try_from(number(name)?).ok();
        Some(Self {
            start: Duration::from_micros(word("start_us")?),
            length: Duration::from_micros(word("length_us")?),
            successful: word("successful")?,
            failed: word("failed")?,
            sum_ns: number("sum_ns")?,
            min_ns: word("min_ns")?,
            max_ns: word("max_ns")?,
        })
    }
}
