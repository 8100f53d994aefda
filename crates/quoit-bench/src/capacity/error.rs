//! Reasons why no capacity can be computed.

use crate::report::ReportError;
use crate::run::SummaryError;
use std::path::PathBuf;
use thiserror::Error;

/// Reasons why no capacity can be computed. Each message names the value and the remedy.
#[derive(Debug, Error)]
pub enum CapacityError {
    /// A text is not a measured cluster.
    #[error(
        "{0:?} is not a measured cluster: write NODES=RATE, such as 5=12000, or NODES=DIRECTORY of a run or \
         of a search for the knee"
    )]
    Point(String),
    /// The load generator limited the run, so the rate is not the cluster's.
    #[error(
        "{}: the load generator was the limit, so that its rate is not the cluster's: give it more cores",
        .0.display()
    )]
    ClientBound(PathBuf),
    /// The latencies of a run are above the bound.
    #[error(
        "{}: the 99th percentile was {p99_ms:.1} ms, above the bound of {bound_ms} ms: name a search for the \
         knee ({{mode, {{knee, ...}}}}), or a run at a lower rate",
        .path.display()
    )]
    TooSlow {
        /// Path of the directory.
        path: PathBuf,
        /// The measured 99th percentile, in milliseconds.
        p99_ms: f64,
        /// The bound, in milliseconds.
        bound_ms: f64,
    },
    /// No rate of a search was within the bound.
    #[error("{}: no measured rate within the bound is free of the load generator's limit", .0.display())]
    NoRate(PathBuf),
    /// A requirement that lacks its other half.
    #[error("{0} needs {1}: the space of a node")]
    Incomplete(&'static str, &'static str),
    /// Nothing is required.
    #[error("nothing is required: give --rate, --data with --disk, or --keys with --memory")]
    NoNeed,
    /// A rate is required, and no cluster was measured.
    #[error("--rate needs measured clusters: name some as NODES=RATE or NODES=DIRECTORY")]
    NoPoint,
    /// The results of a search can't be read.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The summary of a run can't be read.
    #[error(transparent)]
    Summary(#[from] SummaryError),
}
