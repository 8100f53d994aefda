//! Jobs in Erlang's external term format.

use super::json_form::timeout_ms;
use super::{Job, inputs, phases};
use crate::DEPTH_MAX;
use crate::fault::JobFault;
use crate::json::member;
use bytes::Bytes;
use quoit_model::etf::{Limits, Term};

/// Limits of a job: what a request has room for.
const JOB_LIMITS: Limits =
    Limits { depth_max: DEPTH_MAX, terms_max: 8_000_000, inflated_bytes_max: 64 << 20 };

impl Job {
    /// Reads a job in Erlang's external term format: a property list.
    ///
    /// # Errors
    ///
    /// Documents that are no job, and phases that can't be started.
    pub fn from_term(document: &Bytes) -> Result<Self, JobFault> {
        let term = Term::decode(document, &JOB_LIMITS);
        let term = term.map_err(|fault| JobFault::InvalidTerm(fault.to_string()))?;
        if term.as_list().is_none() {
            return Err(JobFault::InvalidTerm("it is no list".into()));
        }
        let (Some(inputs), Some(query)) = (member(&term, b"inputs"), member(&term, b"query"))
        else {
            return Err(JobFault::MissingField);
        };
        let inputs = inputs::from_term(inputs)?;
        let Term::List(list) = query else {
            let printed = crate::print_term(query);
            return Err(JobFault::Query(format!(
                "The value of the \"query\" field was not a list: {printed}"
            )));
        };
        let phase = |(place, phase): (usize, &Term)| phases::from_term(place, phase);
        let phases = list.iter().enumerate().map(phase).collect::<Result<_, _>>()?;
        Ok(Self { inputs, phases, timeout_ms: timeout_ms(member(&term, b"timeout")) })
    }
}
