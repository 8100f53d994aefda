//! Parsing of secondary index entries: the suffix of a field's name gives the type of its terms.

use bytes::Bytes;
use quoit_model::index_integer::IndexInteger;
use quoit_model::object::{IndexEntry, IndexTerm};

/// Reasons why an entry is invalid. Several faults are reported to clients in this order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum IndexFault {
    /// The term of an `_int` field is not an integer, or is too large.
    NotAnInteger {
        /// The field, lower-cased.
        field: Bytes,
        /// The term as the client sent it.
        term: Bytes,
    },
    /// The field's name does not end in `_bin` or `_int`.
    UnknownFieldType(Bytes),
}

/// Parses the entries of a write. Returns them sorted and without duplicates, as they are stored.
///
/// # Errors
///
/// All faults, sorted and without duplicates.
pub(crate) fn parse_all(
    pairs: impl Iterator<Item = (Bytes, Bytes)>,
) -> Result<Vec<IndexEntry>, Vec<IndexFault>> {
    let (mut entries, mut faults) = (Vec::new(), Vec::new());
    for (field, term) in pairs {
        match parse(&field, term) {
            Ok(entry) => entries.push(entry),
            Err(fault) => faults.push(fault),
        }
    }
    entries.sort();
    entries.dedup();
    faults.sort();
    faults.dedup();
    if faults.is_empty() { Ok(entries) } else { Err(faults) }
}

/// Types of fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FieldKind {
    /// `_bin`: terms are bytes.
    Binary,
    /// `_int`: terms are integers.
    Integer,
}

impl FieldKind {
    /// The type that the suffix of a field's name gives, if any. The suffix alone is not a name.
    pub(crate) const fn of(field: &[u8]) -> Option<Self> {
        match field.split_last_chunk() {
            Some(([_, ..], b"_bin")) => Some(Self::Binary),
            Some(([_, ..], b"_int")) => Some(Self::Integer),
            _ => None,
        }
    }
}

/// A field's name as it is stored: in lower case.
pub(crate) fn lower_case(field: &Bytes) -> Bytes {
    if field.iter().any(u8::is_ascii_uppercase) {
        field.to_ascii_lowercase().into()
    } else {
        field.clone()
    }
}

/// Parses one entry. The field is lower-cased.
fn parse(field: &Bytes, term: Bytes) -> Result<IndexEntry, IndexFault> {
    let field = lower_case(field);
    match FieldKind::of(&field) {
        Some(FieldKind::Binary) => {
            return Ok(IndexEntry { field, term: IndexTerm::Binary(term) });
        }
        Some(FieldKind::Integer) => {}
        None => return Err(IndexFault::UnknownFieldType(field)),
    }
    match IndexInteger::parse(&term) {
        Some(number) => Ok(IndexEntry { field, term: IndexTerm::Integer(number) }),
        None => Err(IndexFault::NotAnInteger { field, term }),
    }
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
    fn a_field_without_a_name_or_a_type_is_refused() {
        for field in ["colour", "_bin", "_int", ""] {
            let fault = entry(field, "1").expect_err("no field");
            assert_eq!(fault, IndexFault::UnknownFieldType(Bytes::from_static(field.as_bytes())));
        }
    }

    #[test]
    fn an_integer_field_refuses_text() {
        assert!(matches!(entry("a_int", "old"), Err(IndexFault::NotAnInteger { .. })));
        assert!(matches!(entry("a_int", ""), Err(IndexFault::NotAnInteger { .. })));
    }

    fn all(pairs: &[(&'static str, &'static str)]) -> Result<Vec<IndexEntry>, Vec<IndexFault>> {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        parse_all(pairs.iter().map(|(field, term)| (bytes(field), bytes(term))))
    }

    #[test]
    fn entries_are_sorted_and_unique() {
        let entries = all(&[("f_bin", "b"), ("F_BIN", "a"), ("f_bin", "b")]).expect("entries");
        let terms: Vec<_> = entries.iter().map(|each| term_text(&each.term)).collect();
        assert_eq!(terms, ["a", "b"]);
    }

    #[test]
    fn faults_are_sorted_and_unique_whatever_is_right_beside_them() {
        let pairs = [("z", "1"), ("b_int", "x"), ("f_bin", "b"), ("z", "2"), ("a_int", "y")];
        let not_an_integer = |field: &'static str, term: &'static str| IndexFault::NotAnInteger {
            field: field.into(),
            term: term.into(),
        };
        let expected = [
            not_an_integer("a_int", "y"),
            not_an_integer("b_int", "x"),
            IndexFault::UnknownFieldType("z".into()),
        ];
        assert_eq!(all(&pairs).expect_err("faults"), expected);
    }
}
