//! Why a job is not run, and why one failed.

use crate::filter::FilterFault;
use crate::print::print_term;
use quoit_model::etf::Term;
use serde_json::json;
use thiserror::Error;

/// Why a document is no job that is run.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum JobFault {
    /// It is not JSON.
    #[error("the job is not valid JSON: {0}")]
    InvalidJson(String),
    /// It is JSON, but no object.
    #[error("the job is not a JSON object")]
    NotAnObject,
    /// It is no external term, or none of a property list.
    #[error("the job is not an external term of a property list: {0}")]
    InvalidTerm(String),
    /// It has no `inputs` or no `query`.
    #[error("the job has no \"inputs\" or no \"query\"")]
    MissingField,
    /// The inputs are none.
    #[error("the inputs of the job: {0}")]
    Inputs(String),
    /// The key filter of the inputs is none.
    #[error("{0}")]
    Filter(FilterFault),
    /// The phases are none.
    #[error("the query of the job: {0}")]
    Query(String),
    /// A phase can't be started.
    #[error("{error}")]
    Phase {
        /// Its place among the phases, from 0.
        phase: usize,
        /// Why.
        error: String,
    },
}

impl JobFault {
    /// The text that clients of Protocol Buffers get.
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

    /// The text that clients of HTTP get; a phase that can't be started has a document instead
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

    /// The document of a phase that can't be started.
    #[must_use]
    pub fn document(&self) -> Option<serde_json::Value> {
        match self {
            Self::Phase { phase, error } => Some(json!({"phase": phase, "error": error})),
            _ => None,
        }
    }
}

/// Why a phase failed, which ends its job.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("phase {phase} failed: {error}")]
pub struct PhaseFault {
    /// Its place among the phases, from 0.
    pub phase: usize,
    /// Description of the error.
    pub error: String,
    /// The input that it was doing, as Erlang prints it; empty where it was none in particular.
    pub input: String,
    /// The kind of fault as Riak has it: `error`, `exit`, `forward_preflist`, ...
    pub kind: &'static str,
    /// Where in a script it happened.
    pub stack: String,
}

impl PhaseFault {
    /// A fault of a phase over an input.
    #[must_use]
    pub fn new(phase: usize, error: impl Into<String>, input: Option<&Term>) -> Self {
        let input = input.map(print_term).unwrap_or_default();
        Self { phase, error: error.into(), input, kind: "error", stack: String::new() }
    }

    /// The document that clients get.
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
