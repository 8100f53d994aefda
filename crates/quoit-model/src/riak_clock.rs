//! Riak's encoding of clocks and dots: the external term `[{Actor, {Counter, Time}}]`.

use crate::clock::{Actor, Dot, VersionVector};
use crate::etf::{
    ETF_VERSION, EtfError, Limits, Term, put_binary, put_integer, put_list_header, put_nil,
    put_tuple_header,
};
use bytes::Bytes;
use smallvec::SmallVec;
use thiserror::Error;

/// Error of decoding a clock or dot of Riak.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RiakClockError {
    /// The bytes are not an external term.
    #[error("the clock cannot be read: {0}")]
    Term(#[from] EtfError),
    /// The term is not a list of entries.
    #[error(
        "clock is a term, but not a list of {{Actor, {{Counter, Time}}}}; entry {entry} is wrong"
    )]
    NotAClock {
        /// Number of the entry, from 0.
        entry: usize,
    },
}

/// Reads a clock. Entries keep their order and their times.
///
/// # Errors
///
/// Returns an error if the bytes are not an external term, or the term is not a clock.
pub fn decode_riak_clock(bytes: &Bytes, limits: &Limits) -> Result<VersionVector, RiakClockError> {
    clock_of_term(&Term::decode(bytes, limits)?)
}

pub(crate) fn clock_of_term(term: &Term) -> Result<VersionVector, RiakClockError> {
    let list = term.as_list().ok_or(RiakClockError::NotAClock { entry: 0 })?;
    let entry = |(entry, term)| dot_of_term(term).ok_or(RiakClockError::NotAClock { entry });
    let entries: Vec<Dot> = list.iter().enumerate().map(entry).collect::<Result<_, _>>()?;
    Ok(VersionVector::from_entries(entries))
}

/// Reads the term `{Actor, {Counter, Time}}`.
pub(crate) fn dot_of_term(term: &Term) -> Option<Dot> {
    let [actor, event] = term.as_tuple()?;
    let [counter, time] = event.as_tuple()?;
    let actor = Actor(SmallVec::from_slice(actor.as_binary()?));
    let counter = counter.as_u64().filter(|counter| *counter > 0)?;
    Some(Dot { actor, counter, time_secs: time.as_u64()? })
}

/// Appends a clock as Riak stores it inside objects.
pub fn encode_riak_clock(clock: &VersionVector, out: &mut Vec<u8>) {
    out.push(ETF_VERSION);
    if !clock.is_empty() {
        put_list_header(out, clock.entries().len());
        clock.entries().iter().for_each(|entry| put_dot(out, entry));
    }
    put_nil(out);
}

/// Appends a dot as Riak stores it in a sibling's metadata.
pub fn encode_riak_dot(dot: &Dot, out: &mut Vec<u8>) {
    out.push(ETF_VERSION);
    put_dot(out, dot);
}

fn put_dot(out: &mut Vec<u8>, dot: &Dot) {
    put_tuple_header(out, 2);
    put_binary(out, &dot.actor.0);
    put_tuple_header(out, 2);
    put_integer(out, dot.counter.into());
    put_integer(out, dot.time_secs.into());
}
