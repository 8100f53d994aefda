//! Why a job ended before it was done, as clients are told.

use crate::index_query::QueryFault;
use crate::memory::NoRoom;
use quoit_core::{JobError, RequestError};
use quoit_mapreduce::{JobFault, NotText, PhaseFault};
use serde_json::{Value, json};

/// Why a job is not begun, or ended before it was done.
#[derive(Debug)]
pub(crate) enum JobEnd {
    /// It could not be begun, or failed.
    Failed(JobError),
    /// The index of its inputs is none.
    Index(QueryFault),
    /// Its time is over.
    Timeout,
    /// An operator stopped it.
    Stopped,
    /// As many jobs as may run did, as long as this one could wait.
    TooMany(usize),
    /// There is no memory for it.
    NoRoom(NoRoom),
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

impl From<NoRoom> for JobEnd {
    fn from(fault: NoRoom) -> Self {
        Self::NoRoom(fault)
    }
}

impl JobEnd {
    /// An output of a phase can't be written in the notation of the job.
    pub(crate) fn unwritable(phase: usize, NotText: NotText) -> Self {
        Self::Failed(PhaseFault::new(phase, NotText.to_string(), None).into())
    }

    /// The error, as a document.
    pub(crate) fn document(&self) -> Value {
        match self {
            Self::Failed(JobError::Phase(fault)) => fault.document(),
            Self::Failed(JobError::NotStarted(fault)) => {
                fault.document().unwrap_or_else(|| json!({"error": fault.http_text()}))
            }
            other => json!({"error": other.text()}),
        }
    }

    /// The error, as clients of Protocol Buffers get it.
    pub(crate) fn printed(&self) -> String {
        match self {
            Self::Failed(JobError::Phase(_)) => self.document().to_string(),
            Self::Failed(JobError::NotStarted(fault)) => fault.printed(),
            other => other.text(),
        }
    }

    /// The status of the answer over HTTP, if nothing was sent yet.
    pub(crate) const fn http_status(&self) -> u16 {
        match self {
            Self::Failed(JobError::NotStarted(JobFault::Filter(_))) => 500,
            Self::Failed(JobError::NotStarted(_)) | Self::Index(_) => 400,
            Self::TooMany(_) | Self::NoRoom(_) => 503,
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
            Self::NoRoom(fault) => fault.to_string(),
        }
    }
}
