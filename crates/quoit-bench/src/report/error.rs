//! Why a report cannot be made.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::measure::intervals::IntervalError;

/// Why the results of a run cannot be read or drawn.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The directory has no `summary.csv`.
    #[error(
        "{} holds no results of a run: it has no summary.csv; name the directory of one run, for \
         instance tests/current",
        .0.display()
    )]
    NoResults(PathBuf),
    /// The directory of a campaign, which is no run.
    #[error(
        "{} holds a campaign: its report is campaign.html, which `quoit bench campaign NAME -d DIR` writes \
         anew; name the directory of one of its cells",
        .0.display()
    )]
    Campaign(PathBuf),
    /// The directory has no table of latencies.
    #[error("{} holds no *_latencies.csv: a chart needs the latencies of an operation", .0.display())]
    NoLatencies(PathBuf),
    /// A file or directory cannot be read.
    #[error("{} cannot be read: {error}", .path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// A file is larger than any run makes it.
    #[error("{} has {size_bytes} bytes; no table of a run has more than {limit_bytes}", .path.display())]
    TooLarge {
        /// Its path.
        path: PathBuf,
        /// Its size.
        size_bytes: u64,
        /// The greatest size that is read.
        limit_bytes: u64,
    },
    /// A line is not what such a file has there.
    #[error("{}:{line}: {problem}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Description of the fault.
        problem: String,
    },
    /// The distribution of the seconds cannot be read.
    #[error(transparent)]
    Intervals(#[from] IntervalError),
    /// There are tables without rows.
    #[error("{} has no whole row: nothing was measured", .0.display())]
    NoRows(PathBuf),
    /// No row lies in the range that was asked for.
    #[error(
        "no row lies between {start_s} and {end_s} s: the run's rows are at {first_s} to {last_s} s"
    )]
    Range {
        /// Least elapsed time, in seconds.
        start_s: f64,
        /// Greatest elapsed time, in seconds.
        end_s: f64,
        /// Elapsed time of the first row, in seconds.
        first_s: f64,
        /// Elapsed time of the last row, in seconds.
        last_s: f64,
    },
    /// A size that a chart cannot have.
    #[error("a chart of {width} x {height} cannot be drawn: each side is 300 to 20000")]
    Size {
        /// Asked for.
        width: u32,
        /// Asked for.
        height: u32,
    },
    /// A file name that says no kind of report.
    #[error("{} is neither .svg (the chart) nor .html (the page): name a file of one of them", .0.display())]
    Kind(PathBuf),
    /// A report cannot be written.
    #[error("{} cannot be written: {error}", .path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
}

impl ReportError {
    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Read { path, error }
    }

    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Write { path, error }
    }
}
