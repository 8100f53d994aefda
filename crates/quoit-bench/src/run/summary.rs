//! `summary.json`: the results of a run, for programs. `docs/design/bench-results.md` describes the format.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::RunEnd;
use super::agents::AgentSummary;
use super::expectations::Judgement;
use super::recording::RecordedRun;
use crate::config::{Config, Pacing};
use crate::measure::{Attempts, ClientLoad, Latencies, Stall};
use crate::verify::VerifyReport;

/// Name of the file in the directory of a run.
pub const SUMMARY_FILE: &str = "summary.json";

/// Version of the format. It grows when an older reader could misread a file. A new field alone does not
/// change it.
pub const SUMMARY_FORMAT: u32 = 1;

/// The summary of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The version of the format, [`SUMMARY_FORMAT`].
    pub format: u32,
    /// Version of the program that ran.
    pub quoit_version: String,
    /// Start of the measurement, in RFC 3339.
    pub started_at: String,
    /// The reason why the run ended: `completed`, `interrupted`, `failed`, `crashed`, `missed` or
    /// `agent_lost`.
    pub end: String,
    /// Name of the driver without `basho_bench_driver_`.
    pub driver: String,
    /// Number of workers.
    pub workers: u32,
    /// The rule by which operations followed each other.
    pub mode: ModeSummary,
    /// Length of the warm-up before the measurement, in seconds.
    pub warmup_s: f64,
    /// Number of arrivals of an open loop that were due before the end and never started.
    pub unstarted: u64,
    /// Measured time in seconds, without the warm-up.
    pub elapsed_s: f64,
    /// The operations of the mix.
    pub operations: Vec<OperationSummary>,
    /// Number of successful operations.
    pub successful: u64,
    /// Number of failed operations.
    pub failed: u64,
    /// Successful operations per second within the whole seconds of the planned length.
    pub successful_per_s: f64,
    /// Failures by operation and reason, the most frequent first.
    pub errors: Vec<ErrorSummary>,
    /// Processor time of the load generator and its noise floor.
    pub client: ClientLoad,
    /// Agents that ran the workers; empty for a run of one process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentSummary>,
    /// Parts of the latencies, over all operations.
    #[serde(default)]
    pub breakdown: BreakdownSummary,
    /// Times without a successful operation, the longest first.
    #[serde(default)]
    pub stalls: Vec<Stall>,
    /// Judgements of the expectations.
    #[serde(default)]
    pub expectations: Vec<Judgement>,
    /// Findings of the verification; `None` for a run that does not verify.
    pub verification: Option<VerifyReport>,
}

/// The rule by which operations followed each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModeSummary {
    /// `max`, `rate`, `open_rate` or `trace`.
    pub kind: String,
    /// Operations per second: of one worker for `rate`, of all workers for `open_rate`.
    pub rate_per_s: Option<f64>,
    /// Distribution of the arrivals of an `open_rate`: `constant` or `poisson`.
    pub arrivals: Option<String>,
    /// The factor by which a `trace` was replayed faster than it was; `None` if it was replayed as fast as
    /// the workers could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
}

impl ModeSummary {
    /// True if the load offered a given number of operations per second, and false in a closed loop.
    pub(crate) fn is_paced(&self) -> bool {
        self.rate_per_s.is_some() || self.speed.is_some()
    }
}

/// The results of one operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationSummary {
    /// The label in the form shown to people.
    pub name: String,
    /// The label as used in file names.
    pub file_label: String,
    /// Number of failed operations.
    pub failed: u64,
    /// Successful operations per second within the whole seconds of the planned length.
    pub successful_per_s: f64,
    /// Count and latencies of the successful operations.
    pub latencies: Latencies,
    /// Latencies of all attempts, if some failed. The latency of a failure is a lower bound.
    #[serde(default)]
    pub attempts: Option<Attempts>,
    /// Time from an operation's first request to its last answer.
    #[serde(default)]
    pub service: Latencies,
}

/// The parts of the latencies that the load generator causes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct BreakdownSummary {
    /// Time for which arrivals of an open loop waited because all workers were busy.
    pub queueing: Latencies,
    /// Time that the load generator took from the start of an operation to its first request.
    pub client_delay: Latencies,
}

/// One reason of failures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorSummary {
    /// Label of the operation, in the form shown to people.
    pub operation: String,
    /// The reason as an Erlang term.
    pub reason: String,
    /// Number of failures.
    pub count: u64,
}

/// Reasons why the summary can't be read.
#[derive(Debug, Error)]
pub enum SummaryError {
    /// The file cannot be read.
    #[error("{}: {error}; is this the directory of a run that has ended?", .path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// The file is not a summary.
    #[error("{}: {error}; was it written by `quoit bench`?", .path.display())]
    Malformed {
        /// Path of the file.
        path: PathBuf,
        /// The parse error.
        error: serde_json::Error,
    },
    /// A newer program wrote the file.
    #[error("{}: format {format} is newer than this program; use a newer one", .path.display())]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// Version of the file's format.
        format: u32,
    },
}

impl RunSummary {
    /// Reads the summary of the run in a directory.
    ///
    /// # Errors
    ///
    /// When there is no summary, or its format is not known to this program.
    pub fn read(run: &Path) -> Result<Self, SummaryError> {
        let path = run.join(SUMMARY_FILE);
        let bytes = std::fs::read(&path)
            .map_err(|error| SummaryError::File { path: path.clone(), error })?;
        let summary: Self = serde_json::from_slice(&bytes)
            .map_err(|error| SummaryError::Malformed { path: path.clone(), error })?;
        if summary.format > SUMMARY_FORMAT {
            return Err(SummaryError::Format { path, format: summary.format });
        }
        Ok(summary)
    }

    /// Writes the summary to the directory of a run.
    pub(crate) fn write(&self, run: &Path) -> io::Result<()> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        std::fs::write(run.join(SUMMARY_FILE), bytes)
    }
}

/// The data that a summary is built from.
pub(super) struct SummaryInputs<'a> {
    pub(super) config: &'a Config,
    pub(super) started_at: jiff::Timestamp,
    pub(super) end: RunEnd,
    pub(super) elapsed: std::time::Duration,
    pub(super) recorded: &'a RecordedRun,
    pub(super) unstarted: u64,
    pub(super) client: &'a ClientLoad,
    pub(super) agents: &'a [AgentSummary],
    pub(super) stalls: &'a [Stall],
    pub(super) judgements: &'a [Judgement],
    pub(super) verification: Option<&'a VerifyReport>,
}

impl SummaryInputs<'_> {
    pub(super) fn summary(&self) -> RunSummary {
        let RecordedRun { operations, total, rates_per_s, .. } = self.recorded;
        let breakdown = total.breakdown();
        let parts = breakdown.service().iter().zip(breakdown.failed());
        RunSummary {
            format: SUMMARY_FORMAT,
            quoit_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at.to_string(),
            end: end_text(self.end).to_owned(),
            driver: self.config.driver.clone(),
            workers: self.config.worker_count,
            mode: mode(self.config.pacing),
            warmup_s: self.config.warmup.as_secs_f64(),
            unstarted: self.unstarted,
            elapsed_s: self.elapsed.as_secs_f64(),
            operations: operations
                .iter()
                .zip(total.operations())
                .zip(rates_per_s)
                .zip(parts)
                .map(|(((operation, stats), rate_per_s), (service, failed))| OperationSummary {
                    name: operation.name(),
                    file_label: operation.file_label.clone(),
                    failed: stats.error_count(),
                    successful_per_s: *rate_per_s,
                    latencies: stats.latencies(),
                    attempts: stats.attempts(failed),
                    service: service.latencies(),
                })
                .collect(),
            successful: total.success_count(),
            failed: total.error_count(),
            successful_per_s: rates_per_s.iter().sum(),
            errors: self.errors(),
            client: self.client.clone(),
            agents: self.agents.to_vec(),
            breakdown: BreakdownSummary {
                queueing: breakdown.queueing().latencies(),
                client_delay: breakdown.client_delay().latencies(),
            },
            stalls: self.stalls.to_vec(),
            expectations: self.judgements.to_vec(),
            verification: self.verification.cloned(),
        }
    }

    fn errors(&self) -> Vec<ErrorSummary> {
        let RecordedRun { operations, total, .. } = self.recorded;
        let mut errors: Vec<ErrorSummary> = total
            .errors_of(operations)
            .map(|(operation, reason, count)| ErrorSummary {
                operation: operation.name(),
                reason: reason.to_string(),
                count,
            })
            .collect();
        errors.sort_by_key(|error| std::cmp::Reverse(error.count));
        errors
    }
}

fn end_text(end: RunEnd) -> &'static str {
    match end {
        RunEnd::Completed => "completed",
        RunEnd::Interrupted => "interrupted",
        RunEnd::Failed => "failed",
        RunEnd::Crashed => "crashed",
        RunEnd::Missed => "missed",
        RunEnd::AgentLost => "agent_lost",
    }
}

fn mode(pacing: Pacing) -> ModeSummary {
    let of_kind = |kind: &str| ModeSummary {
        kind: kind.to_owned(),
        rate_per_s: None,
        arrivals: None,
        speed: None,
    };
    match pacing {
        Pacing::Max => of_kind("max"),
        Pacing::Trace(speed) => ModeSummary { speed, ..of_kind("trace") },
        Pacing::Rate(rate) => ModeSummary { rate_per_s: Some(rate), ..of_kind("rate") },
        Pacing::Open { rate_per_s, arrivals } => ModeSummary {
            rate_per_s: Some(rate_per_s),
            arrivals: Some(arrivals.name().to_owned()),
            ..of_kind("open_rate")
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Arrivals;

    #[test]
    fn a_replay_is_paced_unless_it_runs_as_fast_as_the_workers_can() {
        let open = Pacing::Open { rate_per_s: 9.0, arrivals: Arrivals::Constant };
        for paced in [Pacing::Rate(5.0), open, Pacing::Trace(Some(2.0))] {
            assert!(mode(paced).is_paced(), "{paced}");
        }
        for closed in [Pacing::Max, Pacing::Trace(None)] {
            assert!(!mode(closed).is_paced(), "{closed}");
        }
    }
}
