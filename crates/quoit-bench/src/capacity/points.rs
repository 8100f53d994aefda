//! Measured clusters, from the command line and from the directories of runs.

use super::CapacityError;
use super::law::ClusterPoint;
use crate::report::KneeResults;
use crate::run::{KNEE_FILE, RunSummary};
use std::path::Path;
use std::time::Duration;

/// Reads `NODES=RATE` or `NODES=DIRECTORY`. If a bound of the 99th percentile is given, the rate of a
/// search is the highest within the bound, and a run above the bound is refused.
pub(super) fn read_point(
    text: &str,
    p99_max: Option<Duration>,
) -> Result<ClusterPoint, CapacityError> {
    let fault = || CapacityError::Point(text.to_owned());
    let (nodes, measured) = text.split_once('=').ok_or_else(fault)?;
    let nodes = nodes.trim().parse().ok().filter(|nodes| (1..=10_000).contains(nodes));
    let nodes = nodes.ok_or_else(fault)?;
    let is_rate = |rate: &f64| rate.is_finite() && *rate > 0.0;
    let path = Path::new(measured);
    let rate_per_s = if path.join(KNEE_FILE).is_file() {
        rate_of_search(path, p99_max)?
    } else if path.is_dir() {
        rate_of_run(path, p99_max)?
    } else {
        measured.trim().parse().ok().filter(is_rate).ok_or_else(fault)?
    };
    Ok(ClusterPoint { nodes, rate_per_s })
}

fn rate_of_search(path: &Path, p99_max: Option<Duration>) -> Result<f64, CapacityError> {
    let search = KneeResults::read(path)?;
    let good = search.rows.iter().filter(|row| {
        let is_within = match p99_max {
            Some(bound) => row.p99_us <= bound.as_secs_f64() * 1e6,
            None => row.is_within,
        };
        is_within && !row.is_client_bound && row.undone == 0.0 && row.successful_per_s > 0.0
    });
    let best = good.map(|row| row.successful_per_s).reduce(f64::max);
    best.ok_or_else(|| CapacityError::NoRate(path.to_owned()))
}

fn rate_of_run(path: &Path, p99_max: Option<Duration>) -> Result<f64, CapacityError> {
    let summary = RunSummary::read(path)?;
    if summary.client.client_bound {
        return Err(CapacityError::ClientBound(path.to_owned()));
    }
    let p99_us = summary.operations.iter().map(|operation| operation.latencies.p99_us).max();
    let p99_ms = p99_us.unwrap_or(0) as f64 / 1e3;
    if let Some(bound_ms) = p99_max.map(|bound| bound.as_secs_f64() * 1e3)
        && p99_ms > bound_ms
    {
        return Err(CapacityError::TooSlow { path: path.to_owned(), p99_ms, bound_ms });
    }
    let rate = Some(summary.successful_per_s).filter(|rate| *rate > 0.0);
    rate.ok_or_else(|| CapacityError::NoRate(path.to_owned()))
}
