//! Parsing of jobs in Erlang's external term format.

use super::json_form::timeout_ms;
use super::{Job, inputs, phases};
use crate::DEPTH_MAX;
use crate::fault::JobFault;
use crate::value::json::{member, take_member};
use bytes::Bytes;
use quoit_model::etf::{Limits, Term};

/// Maximum size of a compressed job after decompression, in bytes.
const INFLATED_BYTES_MAX: usize = 64 << 20;
/// Minimum number of document bytes per term, apart from [`FREE_PART_COUNT`] terms. The limit keeps a short
/// document from taking much memory. Ordinary jobs are far from it: a key in a bucket is three terms in
/// twenty bytes or more.
const BYTES_OF_PART: usize = 3;
/// Number of terms that any job can have, however short its document is.
const FREE_PART_COUNT: usize = 1_000;
/// Memory of a term in bytes: the term itself, its place in a list, and its share of an input.
const PART_BYTES: usize = 96;

impl Job {
    /// Parses a job in Erlang's external term format, which must be a property list.
    ///
    /// # Errors
    ///
    /// The document is not a valid job, or a phase cannot be started.
    pub fn from_term(document: &Bytes) -> Result<Self, JobFault> {
        let limits = Limits {
            depth_max: DEPTH_MAX,
            terms_max: u32::try_from(part_count_max(document)).unwrap_or(u32::MAX),
            inflated_bytes_max: INFLATED_BYTES_MAX,
        };
        let term = Term::decode(document, &limits);
        let mut term = term.map_err(|fault| JobFault::InvalidTerm(fault.to_string()))?;
        if term.as_list().is_none() {
            return Err(JobFault::InvalidTerm("it is not a list".into()));
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

    /// Maximum memory in bytes that parsing a job takes, and that the job then occupies.
    #[must_use]
    pub fn term_bytes_max(document: &Bytes) -> usize {
        let parts_bytes = part_count_max(document).saturating_mul(PART_BYTES);
        parts_bytes.saturating_add(read_size(document))
    }
}

/// Size of the document in bytes after decompression. A document that declares more than the maximum is
/// refused without decompression, so its compressed size counts.
fn read_size(document: &Bytes) -> usize {
    let inflated = Term::inflated_size(document).filter(|size| *size <= INFLATED_BYTES_MAX);
    inflated.unwrap_or(0).max(document.len())
}

fn part_count_max(document: &Bytes) -> usize {
    read_size(document) / BYTES_OF_PART + FREE_PART_COUNT
}
