//! Errors of jobs: refused documents and failed phases.

use crate::filter::FilterFault;
use crate::print::print_term;
use quoit_model::etf::Term;
use serde_json::json;
use thiserror::Error;

/// Reason for which a document is refused as a job.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum JobFault {
    /// The document is not JSON.
    #[error("the job is not valid JSON: {0}")]
    InvalidJson(String),
    /// The document is JSON, but not an object.
    #[error("the job is not a JSON object")]
    NotAnObject,
    /// The document is not an external term, or the term is not a property list.
    #[error("the job is not an external term of a property list: {0}")]
    InvalidTerm(String),
    /// The job has no `inputs` or no `query`.
    #[error("the job has no \"inputs\" or no \"query\"")]
    MissingField,
    /// The inputs are invalid.
    #[error("the inputs of the job: {0}")]
    Inputs(String),
    /// The key filter of the inputs is invalid.
    #[error("{0}")]
    Filter(FilterFault),
    /// The phases are invalid.
    #[error("the query of the job: {0}")]
    Query(String),
    /// A phase cannot be started.
    #[error("{error}")]
    Phase {
        /// Index of the phase, from 0.
        phase: usize,
        /// Reason.
        error: String,
    },
}

impl JobFault {
    /// Error text for clients of Protocol Buffers.
    #[must_use]
    pub fn printed(&self) -> String {
        let text = |text: &str| format!("<<{text:?}>>");
        match self {
            Self::InvalidJson(why) => format!("{{invalid_json,{}}}", text(why)),
            Self::NotAnObject => "not_json".into(),
            Self::InvalidTerm(why) => format!("{{invalid_term,{}}}", text(why)),
            Self::MissingField => "missing_field".into(),
            Self::Inputs(why) => format!("{{inputs,{}}}", text(why)),
            Self::Filter(fault) => fault.to_string(),
            Self::Query(why) => format!("{{'query',{}}}", text(why)),
            Self::Phase { error, .. } => error.clone(),
        }
    }

    /// Error text for clients of HTTP. A phase that cannot be started has a document instead
    /// ([`JobFault::document`]).
    #[must_use]
    pub fn http_text(&self) -> String {
        match self {
            Self::InvalidJson(why) | Self::InvalidTerm(why) => format!(
                "The POST body was not valid JSON.\nThe error from the parser was:\n{why}\n"
            ),
            Self::NotAnObject => "The POST body was not a JSON object.\n".into(),
            Self::MissingField => {
                "The post body was missing the \"inputs\" or \"query\" field.\n".into()
            }
            Self::Inputs(why) => {
                format!("An error occurred parsing the \"inputs\" field.\n{why}\n")
            }
            Self::Filter(fault) => fault.to_string(),
            Self::Query(why) => format!("An error occurred parsing the \"query\" field.\n{why}\n"),
            Self::Phase { error, .. } => error.clone(),
        }
    }

    /// JSON document about a phase that cannot be started; `None` for other errors.
    #[must_use]
    pub fn document(&self) -> Option<serde_json::Value> {
        match self {
            Self::Phase { phase, error } => Some(json!({"phase": phase, "error": error})),
            _ => None,
        }
    }
}

/// Failure of a phase, which ends its job.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("phase {phase} failed: {error}")]
pub struct PhaseFault {
    /// Index of the phase, from 0.
    pub phase: usize,
    /// Description of the error.
    pub error: String,
    /// The input that was being processed, as Erlang prints it; empty if the failure concerns no particular
    /// input.
    pub input: String,
    /// Riak's kind of the error: `error`, `exit`, `forward_preflist`, ...
    pub kind: &'static str,
    /// Stack trace of a script; empty for built-in functions.
    pub stack: String,
}

impl PhaseFault {
    /// Creates a failure of a phase at an input.
    #[must_use]
    pub fn new(phase: usize, error: impl Into<String>, input: Option<&Term>) -> Self {
        let input = input.map(print_term).unwrap_or_default();
        Self { phase, error: error.into(), input, kind: "error", stack: String::new() }
    }

    /// JSON document that clients get.
    #[must_use]
    pub fn document(&self) -> serde_json::Value {
        json!({
            "phase": self.phase,
            "error": self.error,
            "input": self.input,
            "type": self.kind,
            "stack": self.stack,
        })
    }
}
