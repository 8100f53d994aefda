//! Jobs in Erlang's external term format.

use super::json_form::timeout_ms;
use super::{Job, inputs, phases};
use crate::DEPTH_MAX;
use crate::fault::JobFault;
use crate::value::json::{member, take_member};
use bytes::Bytes;
use quoit_model::etf::{Limits, Term};

/// Bytes of a compressed job, at most.
const INFLATED_BYTES_MAX: usize = 64 << 20;
/// A job has a part for so many of its bytes, at most: a key in a bucket is three parts of twenty bytes or
/// more. Otherwise few bytes would take much memory.
const BYTES_OF_PART: usize = 3;
/// Parts that any job may have.
const FREE_PART_COUNT: usize = 1_000;
/// Memory of a part: its term, its place in a list, its part of an input.
const PART_BYTES: usize = 96;

impl Job {
    /// Reads a job in Erlang's external term format: a property list.
    ///
    /// # Errors
    ///
    /// Documents that are no job, and phases that can't be started.
    pub fn from_term(document: &Bytes) -> Result<Self, JobFault> {
        let limits = Limits {
            depth_max: DEPTH_MAX,
            terms_max: u32::try_from(part_count_max(document)).unwrap_or(u32::MAX),
            inflated_bytes_max: INFLATED_BYTES_MAX,
        };
        let term = Term::decode(document, &limits);
        let mut term = term.map_err(|fault| JobFault::InvalidTerm(fault.to_string()))?;
        if term.as_list().is_none() {
            return Err(JobFault::InvalidTerm("it is no list".into()));
        }
        let inputs = take_member(&mut term, b"inputs");
        let (Some(inputs), Some(query)) = (inputs, member(&term, b"query")) else {
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

    /// Memory in bytes that a job takes at most while it is read from an external term, and then has.
    #[must_use]
    pub fn term_bytes_max(document: &Bytes) -> usize {
        let parts_bytes = part_count_max(document).saturating_mul(PART_BYTES);
        parts_bytes.saturating_add(read_size(document))
    }
}

/// Bytes of an external term once it is inflated. One that says more than a job may have is not inflated.
fn read_size(document: &Bytes) -> usize {
    let inflated = Term::inflated_size(document).filter(|size| *size <= INFLATED_BYTES_MAX);
    inflated.unwrap_or(0).max(document.len())
}

fn part_count_max(document: &Bytes) -> usize {
    read_size(document) / BYTES_OF_PART + FREE_PART_COUNT
}
