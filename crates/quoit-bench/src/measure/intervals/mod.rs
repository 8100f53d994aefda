//! The distribution of every second of a run, in files: written while the run goes on, read by
//! reports and comparisons. `docs/design/bench-results.md` describes the format.
//!
//! ```no_run
//! use std::path::Path;
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

/// The folder of a run that holds the interval logs.
pub const FOLDER: &str = "hdr";

/// The folder below [`FOLDER`] with the distributions that latencies are made up of.
pub const BREAKDOWN_FOLDER: &str = "breakdown";

/// Ends the name of an interval log, after the label.
pub const EXTENSION: &str = "hlog";

/// One operation in one interval of a run: a second, or less for the last one.
#[derive(Debug, Clone)]
pub struct Interval {
    /// From the start of what is measured to the start of the interval.
    pub start: Duration,
    /// How long it is.
    pub length: Duration,
    /// Statistics of the operations that ended in it.
    pub stats: OperationStats,
}

/// Why an interval log cannot be written or read.
#[derive(Debug, Error)]
pub enum IntervalError {
    /// The file system refuses.
    #[error("{}: {error}", .path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The file is no interval log of this program, or is damaged.
    #[error("{} line {line}: {problem}; is it a log of `quoit bench`?", .path.display())]
    Malformed {
        /// Its path.
        path: PathBuf,
        /// The number of the line, from 1.
        line: u64,
        /// Description of the fault.
        problem: &'static str,
    },
}

impl IntervalError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::File { path: path.to_owned(), error }
    }
}

/// Where the log of an operation is.
fn path_of(run: &Path, file_label: &str) -> PathBuf {
    run.join(FOLDER).join(format!("{file_label}.{EXTENSION}"))
}
