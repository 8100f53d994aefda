//! Reasons why a report cannot be made.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::measure::intervals::IntervalError;

/// Reasons why the results of a run cannot be read or drawn.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The directory has no `summary.csv`.
    #[error(
        "{} holds no results of a run: it has no summary.csv; name the directory of one run, for \
         instance tests/current",
        .0.display()
    )]
    NoResults(PathBuf),
    /// The directory belongs to a campaign, not to a run.
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
        /// Path of the file or directory.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// A file is larger than any table of a run.
    #[error("{} has {size_bytes} bytes; no table of a run has more than {limit_bytes}", .path.display())]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
        /// Its size in bytes.
        size_bytes: u64,
        /// The maximum size in bytes.
        limit_bytes: u64,
    },
    /// A line does not have the expected form.
    #[error("{}:{line}: {problem}", .path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Description of the fault.
        problem: String,
    },
    /// The histograms of the intervals cannot be read.
    #[error(transparent)]
    Intervals(#[from] IntervalError),
    /// The tables have no rows.
    #[error("{} has no whole row: nothing was measured", .0.display())]
    NoRows(PathBuf),
    /// No row lies in the requested range.
    #[error(
        "no row lies between {start_s} and {end_s} s: the run's rows are at {first_s} to {last_s} s"
    )]
    Range {
        /// Requested minimum of the elapsed time, in seconds.
        start_s: f64,
        /// Requested maximum of the elapsed time, in seconds.
        end_s: f64,
        /// Elapsed time of the first row, in seconds.
        first_s: f64,
        /// Elapsed time of the last row, in seconds.
        last_s: f64,
    },
    /// The requested size of a chart is out of range.
    #[error("a chart of {width} x {height} cannot be drawn: each side is 300 to 20000")]
    Size {
        /// Requested width in pixels.
        width: u32,
        /// Requested height in pixels.
        height: u32,
    },
    /// The extension of a file name does not select a kind of report.
    #[error("{} is neither .svg (the chart) nor .html (the page): name a file of one of them", .0.display())]
    Kind(PathBuf),
    /// A report cannot be written.
    #[error("{} cannot be written: {error}", .path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
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
