//! Parsing of JSON texts directly into terms. Intermediate JSON values would take many times the memory of
//! the terms if a text consists of many short values.

use super::{object_term, text_term};
use bytes::Bytes;
use quoit_model::etf::Term;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Memory of a value in bytes: its term, its place in a list, and its share of an input.
const VALUE_BYTES: usize = 96;

/// Parses a JSON text, with the result of [`super::term_from_json`]. The members of objects keep their
/// order.
pub(crate) fn term_from_text(text: &[u8]) -> Result<Term, serde_json::Error> {
    serde_json::from_slice(text).map(|ReadTerm(term)| term)
}

/// Maximum memory in bytes that parsing a JSON text as a job takes.
pub(crate) fn read_bytes_max(text: &[u8]) -> usize {
    // Each value except the first follows one of these bytes.
    let value_count = text.iter().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count();
    value_count.saturating_add(1).saturating_mul(VALUE_BYTES).saturating_add(2 * text.len())
}

struct ReadTerm(Term);

impl<'de> Deserialize<'de> for ReadTerm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TermVisitor).map(ReadTerm)
    }
}

struct TermVisitor;

impl<'de> Visitor<'de> for TermVisitor {
    type Value = Term;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Term, E> {
        Ok(Term::Atom(Bytes::from_static(b"null")))
    }

    fn visit_bool<E: Error>(self, is_true: bool) -> Result<Term, E> {
        Ok(Term::Atom(Bytes::from_static(if is_true { b"true" } else { b"false" })))
    }

    fn visit_i64<E: Error>(self, integer: i64) -> Result<Term, E> {
        Ok(Term::Integer(integer.into()))
    }

    fn visit_u64<E: Error>(self, integer: u64) -> Result<Term, E> {
        Ok(Term::Integer(integer.into()))
    }

    fn visit_f64<E: Error>(self, float: f64) -> Result<Term, E> {
        Ok(Term::Float(float))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Term, E> {
        Ok(text_term(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Term, A::Error> {
        let mut elements = Vec::new();
        while let Some(ReadTerm(element)) = access.next_element()? {
            elements.push(element);
        }
        elements.shrink_to_fit();
        Ok(Term::List(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Term, A::Error> {
        let mut members = Vec::new();
        while let Some((ReadTerm(name), ReadTerm(value))) = access.next_entry()? {
            members.push(Term::Tuple(vec![name, value]));
        }
        members.shrink_to_fit();
        Ok(object_term(members))
    }
}

#[cfg(test)]
mod tests {
    use super::super::term_from_json;
    use super::*;

    #[test]
    fn a_text_is_read_as_the_term_of_its_value() {
        for text in [
            "null",
            "[true,false,[],{}]",
            r#"{"a":{"b":[1,-2,18446744073709551615,1e300,0.5]},"c":"\u00e4\n"}"#,
            r#""""#,
        ] {
            let value: serde_json::Value = serde_json::from_str(text).expect("JSON");
            let term = term_from_text(text.as_bytes()).expect("JSON");
            assert_eq!(term, term_from_json(&value), "{text}");
        }
        for bad in ["", "{", "[1,]", "{1:2}", "\"\\x\"", "\u{1}", "1 2"] {
            assert!(term_from_text(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(term_from_text("[".repeat(1_000_000).as_bytes()).is_err(), "it is too deep");
    }
}
