//! Parsing of jobs in JSON.

use super::{Job, TIMEOUT_MS_DEFAULT, inputs, phases};
use crate::fault::JobFault;
use crate::value::json::{
    DisplayJson, member, members, read_bytes_max, take_member, term_from_text,
};
use quoit_model::etf::Term;
use quoit_number::whole;

impl Job {
    /// Parses a job in JSON.
    ///
    /// # Errors
    ///
    /// The document is not a valid job, or a phase cannot be started.
    pub fn from_json(document: &[u8]) -> Result<Self, JobFault> {
        let mut document =
            term_from_text(document).map_err(|fault| JobFault::InvalidJson(fault.to_string()))?;
        if !is_object(&document) {
            return Err(JobFault::NotAnObject);
        }
        let inputs = take_member(&mut document, b"inputs");
        let field = |name: &str| member(&document, name.as_bytes());
        let (Some(inputs), Some(query)) = (inputs, field("query")) else {
            return Err(JobFault::MissingField);
        };
        let inputs = inputs::from_json(inputs)?;
        let Term::List(list) = query else {
            return Err(JobFault::Query(format!(
                "The value of the \"query\" field was not a list:\n   {}",
                DisplayJson(query)
            )));
        };
        let count = list.len();
        let phase = |(place, phase): (usize, &Term)| {
            let is_last = place + 1 == count;
            phases::from_json(place, phase, is_last)
        };
        let phases = list.iter().enumerate().map(phase).collect::<Result<_, _>>()?;
        Ok(Self { inputs, phases, timeout_ms: timeout_ms(field("timeout")) })
    }

    /// Maximum memory in bytes that parsing a job in JSON takes, and that the job then occupies. Scans the
    /// whole document.
    #[must_use]
    pub fn json_bytes_max(document: &[u8]) -> usize {
        read_bytes_max(document)
    }
}

/// Returns the timeout of a job in milliseconds; the default unless a positive number is given.
pub(super) fn timeout_ms(timeout: Option<&Term>) -> u64 {
    let given = timeout.and_then(|timeout| match timeout {
        Term::Float(limit) if *limit >= 1.0 => Some(whole(*limit)),
        other => other.as_u64(),
    });
    given.filter(|limit| *limit > 0).unwrap_or(TIMEOUT_MS_DEFAULT)
}

/// True if the term represents a JSON object.
pub(super) fn is_object(term: &Term) -> bool {
    members(term).is_some()
}
