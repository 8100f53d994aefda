//! Decoding of small terms. The functions take terms by value and move their parts, so that nothing
//! is copied.

use super::ReadResult;
use crate::clock::{Actor, Dot, VersionVector};
use crate::etf::Term;
use crate::riak_data_type::RiakDataTypeError;
use bytes::Bytes;
use smallvec::SmallVec;

/// Number of elements of Erlang's record `dict`.
const DICT_SIZE: usize = 9;

pub(super) fn shape(expected: &'static str) -> RiakDataTypeError {
    RiakDataTypeError::Shape { expected }
}

/// The elements of a tuple of this size; `expected` describes the tuple for an error.
pub(super) fn tuple<const N: usize>(term: Term, expected: &'static str) -> ReadResult<[Term; N]> {
    match term {
        Term::Tuple(elements) => elements.try_into().map_err(|_| shape(expected)),
        _ => Err(shape(expected)),
    }
}

/// The elements of a proper list.
pub(super) fn list(term: Term) -> ReadResult<Vec<Term>> {
    match term {
        Term::List(elements) => Ok(elements),
        _ => Err(shape("a list")),
    }
}

pub(super) fn binary(term: Term) -> ReadResult<Bytes> {
    match term {
        Term::Binary(bytes) => Ok(bytes),
        _ => Err(shape("a binary")),
    }
}

pub(super) fn number(term: &Term, expected: &'static str) -> ReadResult<u64> {
    term.as_u64().ok_or_else(|| shape(expected))
}

pub(super) fn actor(term: Term) -> ReadResult<Actor> {
    Ok(Actor(SmallVec::from_slice(&binary(term)?)))
}

/// The binaries of a list.
pub(super) fn elements(term: Term) -> ReadResult<Vec<Bytes>> {
    list(term)?.into_iter().map(binary).collect()
}

/// An event: `{Actor, Counter}`.
pub(super) fn dot(term: Term) -> ReadResult<Dot> {
    let [who, counter] = tuple(term, "{Actor, Counter}")?;
    let counter = number(&counter, "a counter of events below 2^64")?;
    if counter == 0 {
        return Err(shape("a counter of events from 1"));
    }
    Ok(Dot { actor: actor(who)?, counter, time_secs: 0 })
}

pub(super) fn dots(term: Term) -> ReadResult<Vec<Dot>> {
    list(term)?.into_iter().map(dot).collect()
}

pub(super) fn clock(term: Term) -> ReadResult<VersionVector> {
    Ok(VersionVector::from_entries(dots(term)?))
}

/// The pairs of key and value of an ordered list or a hashed dictionary.
pub(super) fn pairs(term: Term) -> ReadResult<Vec<(Term, Term)>> {
    match term {
        Term::List(entries) => {
            let pair = |entry| {
                let [key, value] = tuple(entry, "{Key, Value}")?;
                Ok((key, value))
            };
            entries.into_iter().map(pair).collect()
        }
        Term::Tuple(mut record)
            if record.len() == DICT_SIZE
                && record.first().is_some_and(|tag| tag.is_atom(b"dict")) =>
        {
            let segments = record.pop().expect("it has nine elements");
            let mut pairs = Vec::new();
            for segment in slots(segments)? {
                for bucket in slots(segment)? {
                    for entry in list(bucket)? {
                        pairs.push(cell(entry)?);
                    }
                }
            }
            Ok(pairs)
        }
        _ => Err(shape("an ordered list or a dictionary")),
    }
}

fn slots(term: Term) -> ReadResult<Vec<Term>> {
    match term {
        Term::Tuple(slots) => Ok(slots),
        _ => Err(shape("a segment of a dictionary")),
    }
}

/// Reads an entry of a dictionary: a list whose head is the key and whose tail is the value.
fn cell(term: Term) -> ReadResult<(Term, Term)> {
    let key_and = |mut elements: Vec<Term>| {
        let rest = elements.split_off(1.min(elements.len()));
        Some((elements.pop()?, rest))
    };
    match term {
        Term::ImproperList(elements, tail) => match key_and(elements) {
            Some((key, rest)) if rest.is_empty() => Ok((key, *tail)),
            _ => Err(shape("an entry of a dictionary")),
        },
        Term::List(elements) => match key_and(elements) {
            Some((key, rest)) => Ok((key, Term::List(rest))),
            None => Err(shape("an entry of a dictionary")),
        },
        _ => Err(shape("an entry of a dictionary")),
    }
}
