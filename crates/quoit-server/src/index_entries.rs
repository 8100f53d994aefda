//! Secondary index entries as clients send them: the field's name tells the type of its terms.

use bytes::Bytes;
use quoit_model::object::{IndexEntry, IndexTerm};

/// Why an entry can't be stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum IndexFault {
    /// The field ends neither in `_bin` nor in `_int`.
    UnknownFieldType(Bytes),
    /// The term of an `_int` field is no integer (of 128 bits).
    NotAnInteger {
        /// The field, lower-cased.
        field: Bytes,
        /// What was sent.
        term: Bytes,
    },
}

/// Reads one entry. The field is lower-cased.
pub(crate) fn parse(field: &Bytes, term: Bytes) -> Result<IndexEntry, IndexFault> {
    let field = if field.iter().any(u8::is_ascii_uppercase) {
        Bytes::from(field.to_ascii_lowercase())
    } else {
        field.clone()
    };
    if field.ends_with(b"_bin") {
        return Ok(IndexEntry { field, term: IndexTerm::Binary(term) });
    }
    if !field.ends_with(b"_int") {
        return Err(IndexFault::UnknownFieldType(field));
    }
    let number = std::str::from_utf8(&term).ok().and_then(|text| text.parse::<i128>().ok());
    match number {
        Some(number) => Ok(IndexEntry { field, term: IndexTerm::Integer(number) }),
        None => Err(IndexFault::NotAnInteger { field, term }),
    }
}

/// Sorts entries and drops duplicates, as they are stored.
pub(crate) fn normalize(entries: &mut Vec<IndexEntry>) {
    entries.sort();
    entries.dedup();
}

/// A term as clients see it: integers in decimal.
pub(crate) fn term_text(term: &IndexTerm) -> Bytes {
    match term {
        IndexTerm::Integer(number) => Bytes::from(number.to_string()),
        IndexTerm::Binary(term) => term.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(field: &'static str, term: &'static str) -> Result<IndexEntry, IndexFault> {
        parse(&Bytes::from_static(field.as_bytes()), Bytes::from_static(term.as_bytes()))
    }

    #[test]
    fn integers_lose_leading_zeros_and_fields_their_case() {
        let parsed = entry("N_INT", "007").expect("an integer entry");
        assert_eq!(parsed.field, "n_int");
        assert_eq!(term_text(&parsed.term), "7");
    }

    #[test]
    fn a_field_without_a_type_is_refused_by_name() {
        let fault = entry("colour", "blue").expect_err("no type");
        assert_eq!(fault, IndexFault::UnknownFieldType(Bytes::from_static(b"colour")));
    }

    #[test]
    fn an_integer_field_refuses_text() {
        assert!(matches!(entry("a_int", "old"), Err(IndexFault::NotAnInteger { .. })));
        assert!(matches!(entry("a_int", ""), Err(IndexFault::NotAnInteger { .. })));
    }

    #[test]
    fn entries_are_sorted_and_unique() {
        let mut entries: Vec<_> = [("f_bin", "b"), ("f_bin", "a"), ("f_bin", "b")]
            .map(|(f, t)| entry(f, t).expect("ok"))
            .into();
        normalize(&mut entries);
        let terms: Vec<_> = entries.iter().map(|each| term_text(&each.term)).collect();
        assert_eq!(terms, ["a", "b"]);
    }
}
