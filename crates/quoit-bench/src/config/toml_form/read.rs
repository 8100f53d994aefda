//! Conversion from TOML to terms.

use std::ops::Range;

use thiserror::Error;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::{is_atom_text, is_tuple};
use crate::term::{Position, Positions, Term};

/// A fault of a text that should be a configuration in TOML, with its position.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}:{}: {message}", .position.line, .position.column)]
pub struct TomlError {
    /// Position where the fault was found.
    pub position: Position,
    /// Description of the fault.
    pub message: String,
}

/// A key of the file.
#[derive(Debug)]
pub(in crate::config) struct TomlEntry {
    pub(in crate::config) key: String,
    pub(in crate::config) key_position: Position,
    pub(in crate::config) term: Term,
    pub(in crate::config) places: Positions,
}

/// Reads every key of a file.
pub(in crate::config) fn read(bytes: &[u8]) -> Result<Vec<TomlEntry>, TomlError> {
    let text = std::str::from_utf8(bytes).map_err(|_| {
        let before = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let position = TextLines::of(before).position(before.len());
        TomlError { position, message: "the file is not UTF-8, as TOML has to be".to_owned() }
    })?;
    let lines = TextLines::of(text);
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        TomlError { position: lines.position(at), message: error.message().to_owned() }
    })?;
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let key: &Spanned<std::borrow::Cow<'_, str>> = key;
        let (term, places) = lines.term(value)?;
        let key_position = lines.position(key.span().start);
        Ok(TomlEntry { key: key.get_ref().to_string(), key_position, term, places })
    };
    table.get_ref().iter().map(entry).collect()
}

/// A text with an index of its lines, which turns byte offsets into lines and columns.
struct TextLines<'a> {
    text: &'a str,
    /// Offset of the first byte of each line.
    starts: Vec<usize>,
}

impl<'a> TextLines<'a> {
    fn of(text: &'a str) -> Self {
        let after_newlines = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(after_newlines).collect() }
    }

    fn position(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = line.checked_sub(1).and_then(|index| self.starts.get(index)).copied();
        let before = start.and_then(|start| self.text.get(start..offset.min(self.text.len())));
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Position { line: number(line), column: number(before.unwrap_or("").chars().count() + 1) }
    }

    fn error(&self, span: Range<usize>, message: impl Into<String>) -> TomlError {
        TomlError { position: self.position(span.start), message: message.into() }
    }

    fn term(&self, value: &Spanned<DeValue<'_>>) -> Result<(Term, Positions), TomlError> {
        let mut places = Positions::leaf(self.position(value.span().start));
        let number_error = || self.error(value.span(), "the number does not fit");
        let term = match value.get_ref() {
            DeValue::String(text) if is_atom_text(text) => Term::atom(text),
            DeValue::String(text) => Term::String(text.to_string()),
            DeValue::Boolean(value) => Term::atom(if *value { "true" } else { "false" }),
            DeValue::Integer(integer) => {
                let parsed = i128::from_str_radix(integer.as_str(), integer.radix());
                Term::Integer(parsed.map_err(|_| number_error())?)
            }
            DeValue::Float(float) => {
                let parsed = float.as_str().parse().ok().filter(|value: &f64| value.is_finite());
                Term::Float(parsed.ok_or_else(number_error)?)
            }
            DeValue::Datetime(_) => {
                let message =
                    "a date can't be a value of a configuration: write a text or a number";
                return Err(self.error(value.span(), message));
            }
            DeValue::Array(array) => {
                let elements;
                (elements, places.inner) = self.elements(array)?;
                if is_tuple(&elements) { Term::Tuple(elements) } else { Term::List(elements) }
            }
            DeValue::Table(table) => {
                let term;
                (term, places.inner) = self.table(table, value.span())?;
                term
            }
        };
        Ok((term, places))
    }

    fn elements(&self, array: &DeArray<'_>) -> Result<(Vec<Term>, Vec<Positions>), TomlError> {
        let elements: Result<Vec<_>, _> = array.iter().map(|element| self.term(element)).collect();
        Ok(elements?.into_iter().unzip())
    }

    /// Converts a table: a table with one of the reserved names states the kind of its value, and any other
    /// table is a list of pairs.
    fn table(
        &self,
        table: &DeTable<'_>,
        span: Range<usize>,
    ) -> Result<(Term, Vec<Positions>), TomlError> {
        let entries: Vec<_> =
            table.iter().map(|(key, value)| (key.get_ref().as_ref(), value)).collect();
        match entries.as_slice() {
            [(tag @ ("atom" | "string" | "binary" | "tuple" | "list" | "map"), value)] => {
                self.tagged(tag, value)
            }
            [("list", list), ("tail", tail)] => {
                let (elements, mut places) = self.elements(self.array(list)?)?;
                if elements.is_empty() {
                    return Err(self.error(span, "a list with a tail has an element"));
                }
                let (tail, place) = self.term(tail)?;
                places.push(place);
                Ok((Term::ImproperList(elements, Box::new(tail)), places))
            }
            pairs => {
                let mut list = (Vec::new(), Vec::new());
                for (name, value) in pairs {
                    let (term, places) = self.term(value)?;
                    let position = places.position;
                    list.0.push(Term::Tuple(vec![Term::atom(name), term]));
                    list.1.push(Positions {
                        position,
                        inner: vec![Positions::leaf(position), places],
                    });
                }
                Ok((Term::List(list.0), list.1))
            }
        }
    }

    fn tagged(
        &self,
        tag: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(Term, Vec<Positions>), TomlError> {
        if let "tuple" | "list" | "map" = tag {
            let (elements, places) = self.elements(self.array(value)?)?;
            let term = match tag {
                "tuple" => Term::Tuple(elements),
                "list" => Term::List(elements),
                _ => self.map(elements, value.span())?,
            };
            return Ok((term, places));
        }
        let term = match (tag, value.get_ref()) {
            ("atom", DeValue::String(text)) => Term::atom(text),
            ("string", DeValue::String(text)) => Term::String(text.to_string()),
            ("binary", DeValue::String(text)) => Term::Binary(text.as_bytes().to_vec()),
            ("binary", DeValue::Array(array)) => {
                let (elements, _) = self.elements(array)?;
                let byte_of = |term: &Term| u8::try_from(term.as_integer()?).ok();
                let bytes: Option<Vec<u8>> = elements.iter().map(byte_of).collect();
                let message = "bytes are integers from 0 to 255";
                Term::Binary(bytes.ok_or_else(|| self.error(value.span(), message))?)
            }
            _ => return Err(self.error(value.span(), format!("{tag} needs a text in quotes"))),
        };
        Ok((term, Vec::new()))
    }

    fn array<'v>(&self, value: &'v Spanned<DeValue<'v>>) -> Result<&'v DeArray<'v>, TomlError> {
        match value.get_ref() {
            DeValue::Array(array) => Ok(array),
            _ => Err(self.error(value.span(), "an array was expected")),
        }
    }

    /// Converts an array of pairs to a map. If a key occurs twice, the last value counts.
    fn map(&self, elements: Vec<Term>, span: Range<usize>) -> Result<Term, TomlError> {
        let mut pairs = std::collections::BTreeMap::new();
        for element in elements {
            let (Term::Tuple(pair) | Term::List(pair)) = element else {
                return Err(self.error(span, "a map is an array of [key, value]"));
            };
            let Ok([key, value]) = <[Term; 2]>::try_from(pair) else {
                return Err(self.error(span, "a map is an array of [key, value]"));
            };
            pairs.insert(key, value);
        }
        Ok(Term::Map(pairs.into_iter().collect()))
    }
}
