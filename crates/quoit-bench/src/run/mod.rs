//! A run: the workers connect, start together, work, and stop together, while their operations are measured.
//!
//! A run has these steps (`conduct`):
//!
//! 1. Every worker connects. If a worker can't connect, the run does not start.
//! 2. Once all workers are connected, they are released at one instant.
//! 3. While they work, each second is recorded as soon as all threads have completed it.
//! 4. At the deadline, on a signal or on a fatal error, each worker finishes its current operation and stops.
//! 5. `conclude` writes the summary.
//!
//! Both the workers of this process and agents implement `RunMembers`, and go through the same steps.
//!
//! Only the loops of a worker (`worker`) and of a reader of written keys (`key_reader`) are generic over the
//! driver, and `typed_driver`, which implements `PlannedDriver`. Everything else calls the driver through
//! that trait.

mod agents;
mod alarm;
mod background_tasks;
mod canary;
mod conclude;
mod conduct;
mod control;
mod coordinator;
mod events;
mod expectations;
mod failures;
mod junit;
mod key_reader;
mod knee;
mod knee_table;
mod members;
mod mix;
mod pauses;
mod planned_driver;
mod read_back;
mod recording;
mod replaying;
mod schedule;
mod share_run;
mod shared;
mod signals;
mod summary;
#[cfg(test)]
mod tests;
mod thread;
mod threads;
mod typed_driver;
mod verdict;
mod watching;
mod worker;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use crate::reported_operation::ReportedOperation;
pub use crate::run_end::RunEnd;
pub use agents::AgentSummary;
pub(crate) use coordinator::run_driver;
pub(crate) use events::EVENTS_FILE;
pub use expectations::Judgement;
pub(crate) use expectations::check_expectations;
pub(crate) use knee::find_knee;
pub use knee_table::KneeRow;
pub(crate) use knee_table::{KNEE_COLUMNS, KNEE_FILE};
pub(crate) use mix::build_mix;
pub(crate) use share_run::{ShareCommand, ShareSetup, run_share};
pub(crate) use signals::Signals;
pub use summary::{
    BreakdownSummary, ErrorSummary, ModeSummary, OperationSummary, RunSummary, SUMMARY_FILE,
    SUMMARY_FORMAT, SummaryError,
};
use thiserror::Error;
pub(crate) use typed_driver::plan_driver;

use crate::config::{Config, ConfigError};
use crate::driver::StartError;
use crate::link::LinkError;
use crate::measure::intervals::IntervalError;
use crate::measure::{ClientLoad, Stall, Window};
use crate::output::{OutputError, RunDirectory, RunLog, Terminal};
use crate::trace::TraceError;
use crate::valgen::SourceError;
use crate::verify::VerifyReport;

/// Everything that a run needs, apart from its driver.
#[derive(Debug)]
pub(crate) struct RunSetup<'a> {
    pub(crate) config: &'a Config,
    pub(crate) directory: &'a RunDirectory,
    pub(crate) log: Arc<RunLog>,
    pub(crate) terminal: &'a mut Terminal,
}

/// Reasons why a run did not start, or its results could not be kept.
#[derive(Debug, Error)]
pub enum RunError {
    /// The configuration cannot be run.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The source of values is empty or can't be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A worker could not connect.
    #[error("worker {number}: {error}")]
    Start {
        /// Number of the worker.
        number: u32,
        /// The reason why the driver did not start.
        error: StartError,
    },
    /// An agent can't take its share.
    #[error("agent {address}: {error}")]
    Agent {
        /// Address of the agent.
        address: String,
        /// The fault.
        error: Box<LinkError>,
    },
    /// The security settings for agents can't be used, or a file for them can't be read.
    #[error("agents: {0}")]
    Link(Box<LinkError>),
    /// A worker crashed before the run began, for a reason that its driver does not report.
    #[error("a worker crashed before the run began; crash.log of the run has more")]
    StartCrash,
    /// The operating system provides no thread or event loop.
    #[error("can't start a thread of the load generator: {0}")]
    Thread(io::Error),
    /// The keys of a verified run cannot be stored or read back.
    #[error("the written keys cannot be kept in the results' directory: {0}; is its disk full?")]
    WrittenKeys(io::Error),
    /// The results cannot be kept.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The trace can't be replayed.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The histograms of the intervals cannot be written.
    #[error(transparent)]
    Intervals(#[from] IntervalError),
}

/// The results of a run.
#[derive(Debug)]
pub struct RunReport {
    /// Directory of the run's files.
    pub directory: PathBuf,
    /// The reason why it ended.
    pub end: RunEnd,
    /// Time from the start of the measurement to the end of the last operation.
    pub elapsed: Duration,
    /// The operations, in the order of the configuration.
    pub operations: Vec<ReportedOperation>,
    /// Counts and latencies of the entire run, in the order of `operations`.
    pub total: Window,
    /// Number of arrivals of an open loop that were due before the end and never started.
    pub unstarted: u64,
    /// Processor time of the load generator itself.
    pub client: ClientLoad,
    /// Times without a successful operation, the longest first.
    pub stalls: Vec<Stall>,
    /// Judgements of the expectations, in the order of the expectations.
    pub judgements: Vec<Judgement>,
    /// Findings of the verification; `None` if the run does not verify.
    pub verification: Option<VerifyReport>,
    /// Result files that could not be written, each with what is missing.
    pub lost: Vec<String>,
}

impl RunReport {
    /// True if the run missed an expectation.
    #[must_use]
    pub fn misses_expectations(&self) -> bool {
        self.judgements.iter().any(|judgement| !judgement.is_met)
    }

    /// True if operations were attempted and all failed.
    #[must_use]
    pub fn all_operations_failed(&self) -> bool {
        self.total.error_count() > 0 && self.total.success_count() == 0
    }
}
