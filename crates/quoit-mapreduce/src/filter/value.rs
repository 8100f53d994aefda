//! Values that a key takes on its way through a filter.

use crate::order::compare_terms;
use bytes::Bytes;
use percent_encoding::percent_decode;
use quoit_model::etf::Term;
use std::cmp::Ordering;

/// A key, or the value that steps have made of it.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum FilterValue {
    Text(Bytes),
    Integer(i128),
    Float(f64),
    Boolean(bool),
}

impl FilterValue {
    /// Reads an argument of a step; `None` if the term is not valid as one.
    pub(super) fn of(term: &Term) -> Option<Self> {
        Some(match term {
            Term::Binary(text) | Term::Text(text) => Self::Text(text.clone()),
            Term::Integer(number) => Self::Integer(*number),
            Term::Float(number) => Self::Float(*number),
            Term::Atom(name) if **name == *b"true" => Self::Boolean(true),
            Term::Atom(name) if **name == *b"false" => Self::Boolean(false),
            Term::Atom(name) => Self::Text(name.clone()),
            Term::List(elements) if elements.is_empty() => Self::Text(Bytes::new()),
            _ => return None,
        })
    }

    pub(super) const fn text(&self) -> Option<&Bytes> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Compares in the order of Erlang terms, in which numbers are less than text.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        compare_terms(&self.term(), &other.term())
    }

    pub(super) fn printed(&self) -> String {
        crate::print_term(&self.term())
    }

    fn term(&self) -> Term {
        match self {
            Self::Text(text) => Term::Binary(text.clone()),
            Self::Integer(number) => Term::Integer(*number),
            Self::Float(number) => Term::Float(*number),
            Self::Boolean(true) => Term::Atom(Bytes::from_static(b"true")),
            Self::Boolean(false) => Term::Atom(Bytes::from_static(b"false")),
        }
    }
}

pub(super) fn integer(text: &[u8]) -> Option<FilterValue> {
    std::str::from_utf8(text).ok()?.parse().ok().map(FilterValue::Integer)
}

/// Parses a float in Erlang's syntax, with digits on both sides of the dot.
pub(super) fn float(text: &[u8]) -> Option<FilterValue> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.')?;
    let has_digits = whole.ends_with(|letter: char| letter.is_ascii_digit())
        && fraction.starts_with(|letter: char| letter.is_ascii_digit());
    let number: f64 = has_digits.then(|| text.parse().ok())??;
    number.is_finite().then_some(FilterValue::Float(number))
}

pub(super) fn url_decoded(text: &[u8]) -> Bytes {
    // A plus sign encodes a space, as in HTML forms.
    let spaced: Vec<u8> =
        text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    percent_decode(&spaced).collect::<Vec<u8>>().into()
}
