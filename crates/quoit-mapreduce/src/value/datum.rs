//! Data that flows between phases.

use super::found::FoundObject;
use super::input::Input;
use bytes::Bytes;
use quoit_model::etf::Term;
use std::sync::Arc;

/// Approximate memory of a term in addition to its content, in bytes.
const TERM_BYTES: usize = 64;

/// An output of a phase.
#[derive(Clone, PartialEq, Debug)]
pub enum Datum {
    /// A value. [`term_from_json`](crate::term_from_json) converts JSON values to terms.
    Term(Term),
    /// A key with its key data: an unprocessed input.
    Key(Box<Input>),
    /// A whole object.
    Object(Arc<FoundObject>),
}

impl Datum {
    /// Creates a value of bytes.
    #[must_use]
    pub const fn binary(bytes: Bytes) -> Self {
        Self::Term(Term::Binary(bytes))
    }

    /// True if the output is the marker of a missing object.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Term(Term::Tuple(parts))
            if matches!(parts.as_slice(), [tag, _, _] if tag.is_atom(b"not_found")))
    }

    /// Returns the output as an Erlang term.
    #[must_use]
    pub fn to_term(&self) -> Term {
        match self {
            Self::Term(term) => term.clone(),
            Self::Key(input) => input.to_term(),
            Self::Object(found) => found.to_term(),
        }
    }

    /// Approximate memory in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Term(term) => term_bytes(term),
            Self::Key(input) => input.size_bytes(),
            Self::Object(found) => found.size_bytes(),
        }
    }
}

/// Approximate memory of a term in bytes.
pub(crate) fn term_bytes(term: &Term) -> usize {
    TERM_BYTES
        + match term {
            Term::Integer(_) | Term::Float(_) => 0,
            Term::BigInteger { magnitude: bytes, .. }
            | Term::Atom(bytes)
            | Term::Text(bytes)
            | Term::Binary(bytes) => bytes.len(),
            Term::Tuple(parts) | Term::List(parts) => parts.iter().map(term_bytes).sum(),
            Term::ImproperList(parts, tail) => {
                parts.iter().map(term_bytes).sum::<usize>() + term_bytes(tail)
            }
            Term::Map(pairs) => {
                pairs.iter().map(|(name, value)| term_bytes(name) + term_bytes(value)).sum()
            }
        }
}
