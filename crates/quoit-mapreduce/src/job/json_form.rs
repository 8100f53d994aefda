//! Jobs in JSON.

use super::{Job, TIMEOUT_MS_DEFAULT, inputs, phases};
use crate::fault::JobFault;
use crate::json::{member, members, term_from_json};
use quoit_model::etf::Term;
use serde_json::Value;

impl Job {
    /// Reads a job in JSON.
    ///
    /// # Errors
    ///
    /// Documents that are no job, and phases that can't be started.
    pub fn from_json(document: &[u8]) -> Result<Self, JobFault> {
        let value: Value = serde_json::from_slice(document)
            .map_err(|fault| JobFault::InvalidJson(fault.to_string()))?;
        if !value.is_object() {
            return Err(JobFault::NotAnObject);
        }
        let document = term_from_json(&value);
        let field = |name: &str| member(&document, name.as_bytes());
        let (Some(inputs), Some(query)) = (field("inputs"), field("query")) else {
            return Err(JobFault::MissingField);
        };
        let inputs = inputs::from_json(inputs)?;
        let Term::List(list) = query else {
            return Err(JobFault::Query(format!(
                "The value of the \"query\" field was not a list:\n   {}",
                value["query"]
            )));
        };
        let count = list.len();
        let phase = |(place, phase): (usize, &Term)| {
            phases::from_json(place, count, phase, &value["query"][place])
        };
        let phases = list.iter().enumerate().map(phase).collect::<Result<_, _>>()?;
        Ok(Self { inputs, phases, timeout_ms: timeout_ms(field("timeout")) })
    }
}

/// Milliseconds that a job may take; what is no positive number counts as the default.
pub(super) fn timeout_ms(timeout: Option<&Term>) -> u64 {
    let given = timeout.and_then(|timeout| match timeout {
        Term::Float(limit) if *limit >= 1.0 => Some(*limit as u64),
        other => other.as_u64(),
    });
    given.filter(|limit| *limit > 0).unwrap_or(TIMEOUT_MS_DEFAULT)
}

/// Whether a term is a JSON object.
pub(super) fn is_object(term: &Term) -> bool {
    members(term).is_some()
}
