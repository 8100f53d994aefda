//! Reasons why a job ends early, in the form for clients.

use crate::index_query::QueryFault;
use crate::memory::NoMemory;
use quoit_core::{JobError, RequestError};
use quoit_mapreduce::{JobFault, NotUtf8, PhaseFault};
use serde_json::{Value, json};

/// Reasons why a job does not start, or ends early.
#[derive(Debug)]
pub(crate) enum JobEnd {
    /// It could not start, or it failed.
    Failed(JobError),
    /// The index query of its inputs is invalid.
    Index(QueryFault),
    /// It exceeded its timeout.
    Timeout,
    /// An operator stopped it.
    Stopped,
    /// The maximum number of jobs was running until this job's timeout.
    TooMany(usize),
    /// There is no memory for it.
    NoMemory(NoMemory),
}

impl From<JobError> for JobEnd {
    fn from(fault: JobError) -> Self {
        Self::Failed(fault)
    }
}

impl From<QueryFault> for JobEnd {
    fn from(fault: QueryFault) -> Self {
        Self::Index(fault)
    }
}

impl From<NoMemory> for JobEnd {
    fn from(fault: NoMemory) -> Self {
        Self::NoMemory(fault)
    }
}

impl JobEnd {
    /// Creates the fault of an output that the job's notation can't represent.
    pub(crate) fn unwritable(phase: usize, NotUtf8: NotUtf8) -> Self {
        Self::Failed(PhaseFault::new(phase, NotUtf8.to_string(), None).into())
    }

    /// The error as a JSON document.
    pub(crate) fn document(&self) -> Value {
        match self {
            Self::Failed(JobError::Phase(fault)) => fault.document(),
            Self::Failed(JobError::NotStarted(fault)) => {
                fault.document().unwrap_or_else(|| json!({"error": fault.http_text()}))
            }
            other => json!({"error": other.text()}),
        }
    }

    /// The error in the form for Protocol Buffers clients.
    pub(crate) fn printed(&self) -> String {
        match self {
            Self::Failed(JobError::Phase(_)) => self.document().to_string(),
            Self::Failed(JobError::NotStarted(fault)) => fault.printed(),
            other => other.text(),
        }
    }

    /// The HTTP status, if no part of the answer was sent.
    pub(crate) const fn http_status(&self) -> u16 {
        match self {
            Self::Failed(JobError::NotStarted(JobFault::Filter(_))) => 500,
            Self::Failed(JobError::NotStarted(_)) | Self::Index(_) => 400,
            Self::TooMany(_) | Self::NoMemory(_) => 503,
            Self::Failed(_) | Self::Timeout | Self::Stopped => 500,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Failed(JobError::Request(RequestError::Timeout)) | Self::Timeout => {
                "timeout".into()
            }
            Self::Failed(JobError::Request(fault)) => crate::erlang_text::request_error(fault),
            Self::Failed(JobError::NotStarted(fault)) => fault.printed(),
            Self::Failed(fault @ (JobError::Phase(_) | JobError::Filter(_))) => fault.to_string(),
            Self::Index(fault) => crate::erlang_text::query_fault(fault),
            Self::Stopped => "an operator has stopped the job".into(),
            Self::TooMany(count) => format!(
                "overload: this node runs {count} MapReduce jobs already (mapreduce.jobs.maximum), and the \
                 job's time is over; try again later, or ask another node"
            ),
            Self::NoMemory(fault) => fault.to_string(),
        }
    }
}
