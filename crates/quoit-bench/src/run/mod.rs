//! One run: workers on their threads, released together, stopped together, counted.

mod agents;
mod alarm;
mod beside;
mod canary;
mod conclude;
mod conduct;
mod control;
mod coordinator;
mod crew;
mod events;
mod expectations;
mod failures;
mod junit;
mod knee;
mod knee_table;
mod mix;
mod pauses;
mod read_back;
mod recording;
mod replaying;
mod schedule;
mod share_run;
mod signals;
mod summary;
#[cfg(test)]
mod tests;
mod thread;
mod threads;
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

use crate::config::{Config, ConfigError};
use crate::driver::StartError;
use crate::link::LinkError;
use crate::measure::intervals::IntervalError;
use crate::measure::{ClientLoad, Stall, Window};
use crate::output::{OutputError, RunDirectory, RunLog, Terminal};
use crate::trace::TraceError;
use crate::valgen::SourceError;
use crate::verify::VerifyReport;

/// Everything that a run needs besides its driver.
#[derive(Debug)]
pub(crate) struct RunSetup<'a> {
    pub(crate) config: &'a Config,
    pub(crate) directory: &'a RunDirectory,
    pub(crate) log: Arc<RunLog>,
    pub(crate) terminal: &'a mut Terminal,
}

/// Why a run did not come about, or its results could not be kept.
#[derive(Debug, Error)]
pub enum RunError {
    /// The configuration cannot be run.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There are no bytes to make values of.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A worker could not connect.
    #[error("worker {number}: {error}")]
    Start {
        /// Number of the worker.
        number: u32,
        /// Why its driver does not start.
        error: StartError,
    },
    /// An agent can't take its share.
    #[error("agent {address}: {error}")]
    Agent {
        /// Its address.
        address: String,
        /// The fault.
        error: Box<LinkError>,
    },
    /// Agents can't be reached in the way that the command line says.
    #[error("agents: {0}")]
    Link(Box<LinkError>),
    /// A worker failed in a way that its driver does not know.
    #[error("a worker crashed before the run began; crash.log of the run has more")]
    StartCrash,
    /// The system gives no thread or event loop.
    #[error("the system gives no thread for the load generator: {0}")]
    Thread(io::Error),
    /// The keys of a verified run cannot be kept or read back.
    #[error("the written keys cannot be kept in the results' directory: {0}; is its disk full?")]
    WrittenKeys(io::Error),
    /// The results cannot be kept.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The trace can't be replayed.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The distribution of the seconds cannot be kept.
    #[error(transparent)]
    Intervals(#[from] IntervalError),
}

/// Report of a run.
#[derive(Debug)]
pub struct RunReport {
    /// Where its files are.
    pub directory: PathBuf,
    /// How it ended.
    pub end: RunEnd,
    /// From the start of the measurement to the end of the last operation.
    pub elapsed: Duration,
    /// Counts, in the order of the configuration.
    pub operations: Vec<ReportedOperation>,
    /// Counts and latencies of the entire run, in the order of `operations`.
    pub total: Window,
    /// Arrivals of an open loop that were due before the end and never started.
    pub unstarted: u64,
    /// The load generator's own processor time.
    pub client: ClientLoad,
    /// Times without a success, the longest first.
    pub stalls: Vec<Stall>,
    /// Judgements of the expectations, in their order.
    pub judgements: Vec<Judgement>,
    /// Findings of the verification; nothing for a run that is not verified.
    pub verification: Option<VerifyReport>,
    /// Files of the results that could not be written, with what is missing of them.
    pub lost: Vec<String>,
}

impl RunReport {
    /// Whether the run missed an expectation.
    #[must_use]
    pub fn misses_expectations(&self) -> bool {
        self.judgements.iter().any(|judgement| !judgement.is_met)
    }

    /// Whether operations were tried and none succeeded.
    #[must_use]
    pub fn is_in_vain(&self) -> bool {
        self.total.error_count() > 0 && self.total.success_count() == 0
    }
}
