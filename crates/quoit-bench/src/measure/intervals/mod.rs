//! The histograms of every second of a run, in files. They are written during the run, and read by reports
//! and comparisons. `docs/design/bench-results.md` describes the format.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use quoit_bench::measure::intervals::{IntervalReader, file_labels};
//!
//! let run = Path::new("tests/current");
//! for label in file_labels(run)? {
//!     for interval in IntervalReader::open(run, &label)? {
//!         let interval = interval?;
//!         println!("{label} {:?} {}", interval.start, interval.stats.latencies().p99_us);
//!     }
//! }
//! # Ok::<(), quoit_bench::measure::intervals::IntervalError>(())
//! ```

mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use reader::{IntervalReader, file_labels, total};
use thiserror::Error;
pub(crate) use writer::IntervalWriter;

use super::OperationStats;

/// Directory of the interval logs within the directory of a run.
pub const FOLDER: &str = "hdr";

/// Directory within [`FOLDER`] of the distributions that latencies are composed of.
pub const BREAKDOWN_FOLDER: &str = "breakdown";

/// Extension of an interval log, whose name is the label of its operation.
pub const EXTENSION: &str = "hlog";

/// One operation within one interval of a run. An interval is a second; the last one may be shorter.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Time from the start of the measurement to the start of the interval.
    pub start: Duration,
    /// Length of the interval.
    pub length: Duration,
    /// Statistics of the operations that ended within it.
    pub stats: OperationStats,
}

/// Reasons why an interval log cannot be written or read.
#[derive(Debug, Error)]
pub enum IntervalError {
    /// An I/O error.
    #[error("{}: {error}", .path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The file is not an interval log of this program, or is damaged.
    #[error("{} line {line}: {problem}; is it a log of `quoit bench`?", .path.display())]
    Malformed {
        /// Path of the file.
        path: PathBuf,
        /// Number of the faulty line, from 1.
        line: u64,
        /// The fault.
        problem: &'static str,
    },
}

impl IntervalError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::File { path: path.to_owned(), error }
    }
}

/// Path of the log of an operation.
fn path_of(run: &Path, file_label: &str) -> PathBuf {
    run.join(FOLDER).join(format!("{file_label}.{EXTENSION}"))
}
