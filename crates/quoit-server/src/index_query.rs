//! Parsing of secondary index queries: their terms, patterns and continuations.

use crate::index_entries::{FieldKind, IndexFault, lower_case};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use quoit_core::{IndexQuery, IndexSelection, InvalidContinuation, Pattern, PatternError};
use quoit_model::index_integer::IndexInteger;
use quoit_model::key_bounds::KeyBounds;
use quoit_model::object::IndexTerm;

/// Field whose terms are the keys themselves: a query for a range of keys.
const KEY_FIELD: &[u8] = b"$key";
/// Field that matches every key of a bucket.
const BUCKET_FIELD: &[u8] = b"$bucket";

/// Terms of a query: one term, or a range with both ends included.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Terms {
    One(Bytes),
    Range(Bytes, Bytes),
}

/// Reasons why a query is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum QueryFault {
    /// The field or a term is invalid.
    Entry(IndexFault),
    /// A pattern was given, which matches text, but the terms of the field are integers.
    PatternOfIntegers,
    /// The pattern is invalid.
    Pattern {
        /// The pattern as the client sent it.
        text: Bytes,
        /// Description of the fault.
        reason: String,
        /// Offset in bytes at which the fault was noticed.
        at: usize,
    },
    /// The continuation that the client sent is malformed or belongs to another query.
    Continuation(Bytes),
}

impl From<IndexFault> for QueryFault {
    fn from(fault: IndexFault) -> Self {
        Self::Entry(fault)
    }
}

/// Returns the selection of a query on one field.
///
/// # Errors
///
/// Fields of an unknown type, and terms of an `_int` field that are not integers.
pub(crate) fn selection(field: &Bytes, terms: Terms) -> Result<IndexSelection, IndexFault> {
    let field = lower_case(field);
    if *field == *BUCKET_FIELD {
        return Ok(IndexSelection::Keys(KeyBounds::ALL));
    }
    let (first, last) = match terms {
        Terms::One(term) => (term.clone(), term),
        Terms::Range(first, last) => (first, last),
    };
    if *field == *KEY_FIELD {
        return Ok(IndexSelection::Keys(KeyBounds::between(first, &last)));
    }
    let (min, max) = match FieldKind::of(&field) {
        Some(FieldKind::Binary) => (IndexTerm::Binary(first), IndexTerm::Binary(last)),
        Some(FieldKind::Integer) => (integer(&field, first)?, integer(&field, last)?),
        None => return Err(IndexFault::UnknownFieldType(field)),
    };
    Ok(IndexSelection::Terms { field, min, max })
}

fn integer(field: &Bytes, term: Bytes) -> Result<IndexTerm, IndexFault> {
    IndexInteger::parse(&term)
        .map(IndexTerm::Integer)
        .ok_or(IndexFault::NotAnInteger { field: field.clone(), term })
}

/// True if a query can return terms beside keys when the client asks for them: a range of a field, not of
/// keys.
pub(crate) const fn has_terms(selection: &IndexSelection, is_range: bool) -> bool {
    is_range && matches!(selection, IndexSelection::Terms { .. })
}

/// Adds a pattern to a query.
///
/// # Errors
///
/// A field with integers, and an invalid pattern.
pub(crate) fn set_pattern(query: &mut IndexQuery, text: &[u8]) -> Result<(), QueryFault> {
    if let IndexSelection::Terms { min: IndexTerm::Integer(_), .. } = query.selection {
        return Err(QueryFault::PatternOfIntegers);
    }
    let pattern = Pattern::new(text).map_err(|PatternError { reason, at }| {
        QueryFault::Pattern { text: Bytes::copy_from_slice(text), reason, at }
    })?;
    query.pattern = Some(pattern);
    Ok(())
}

/// A continuation as clients get it: text that is safe in a URL.
pub(crate) fn continuation_text(continuation: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(continuation)
}

/// Makes a query continue from a continuation that a client sent.
///
/// # Errors
///
/// When the continuation is malformed or belongs to another query.
pub(crate) fn continue_after(query: &mut IndexQuery, text: &[u8]) -> Result<(), QueryFault> {
    let continuation = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidContinuation);
    continuation
        .and_then(|continuation| query.continue_after(&continuation))
        .map_err(|InvalidContinuation| QueryFault::Continuation(Bytes::copy_from_slice(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quoit_model::key::BucketRef;

    fn of(field: &'static str, terms: Terms) -> Result<IndexSelection, IndexFault> {
        selection(&Bytes::from_static(field.as_bytes()), terms)
    }

    fn range(first: &'static str, last: &'static str) -> Terms {
        Terms::Range(Bytes::from_static(first.as_bytes()), Bytes::from_static(last.as_bytes()))
    }

    fn bounds(first: &'static str, last: &'static str) -> (String, String) {
        match of("n_int", range(first, last)) {
            Ok(IndexSelection::Terms {
                min: IndexTerm::Integer(min),
                max: IndexTerm::Integer(max),
                ..
            }) => (min.to_string(), max.to_string()),
            other => panic!("no range of integers: {other:?}"),
        }
    }

    const HUGE: &str = "1000000000000000000000000000000000000000000000000";
    const TINY: &str = "-1000000000000000000000000000000000000000000000000";

    #[test]
    fn integers_may_have_any_size() {
        for (first, last, shown) in [
            ("-007", "+9", ("-7", "9")),
            (TINY, HUGE, (TINY, HUGE)),
            ("0", HUGE, ("0", HUGE)),
            (HUGE, TINY, (HUGE, TINY)),
        ] {
            assert_eq!(bounds(first, last), (shown.0.to_owned(), shown.1.to_owned()));
        }
    }

    #[test]
    fn terms_that_are_no_integers_are_named() {
        for term in ["x", "", "-", "+", "1.5", "0x1", "1 ", "--1", "١"] {
            let fault = of("n_int", range("1", term)).expect_err("no integer");
            let (field, term) = ("n_int".into(), Bytes::from_static(term.as_bytes()));
            assert_eq!(fault, IndexFault::NotAnInteger { field, term });
        }
    }

    #[test]
    fn fields_of_no_kind_are_named() {
        for field in ["colour", "_bin", "_int", "", "$keys", "bin"] {
            let fault = of(field, range("a", "b")).expect_err("no field");
            assert_eq!(fault, IndexFault::UnknownFieldType(field.into()));
        }
    }

    #[test]
    fn fields_have_any_case_and_key_and_bucket_are_keys() {
        let one = Terms::One(Bytes::from_static(b"x"));
        let Ok(IndexSelection::Terms { field, .. }) = of("Colour_BIN", one.clone()) else {
            panic!("a field")
        };
        assert_eq!(field, "colour_bin");
        let only = KeyBounds::between("x".into(), b"x");
        assert_eq!(of("$key", one.clone()), Ok(IndexSelection::Keys(only)));
        assert_eq!(of("$bucket", one), Ok(IndexSelection::Keys(KeyBounds::ALL)));
    }

    fn query() -> IndexQuery {
        let all = IndexSelection::Keys(KeyBounds::ALL);
        IndexQuery::new(BucketRef::untyped(b"b"), all)
    }

    proptest! {
        #[test]
        fn any_text_is_refused_as_a_continuation(text: Vec<u8>) {
            let refused = continue_after(&mut query(), &text);
            prop_assert_eq!(refused, Err(QueryFault::Continuation(text.into())));
        }
    }
}
