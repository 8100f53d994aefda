//! Paths and bodies: written out, or made of what generators give.

use crate::driver::{Inputs, key_bytes};
use crate::keygen::{Exhausted, Format, Key, KeyGenerator, Kind};
use crate::term::Term;

/// The generators of a configuration, by name.
pub(super) type Named = Vec<(Term, KeyGenerator)>;

/// Something to send.
#[derive(Debug, Clone)]
pub(super) enum Text {
    /// Always the same.
    Literal(Vec<u8>),
    /// Text of one generator; an index of the generators.
    Generated(usize),
    /// A format string with what generators give.
    Formatted(Format, Vec<usize>),
    /// A key of the run's `key_generator`.
    Key,
    /// A value of the run's `value_generator`.
    Value,
}

/// The index of a name.
pub(super) fn index_of<T>(name: &Term, named: &[(Term, T)]) -> Option<usize> {
    named.iter().position(|(other, _)| other == name)
}

impl Text {
    /// A literal, or `{Format, [Generator, ...]}`; nothing for anything else.
    pub(super) fn of_term(term: &Term, generators: &Named) -> Option<Self> {
        let Some(parts) = term.as_tuple() else {
            return crate::config::bytes_of(term).map(Self::Literal);
        };
        let [format, names] = parts else { return None };
        let indexes: Option<Vec<usize>> =
            names.as_list()?.iter().map(|name| index_of(name, generators)).collect();
        let indexes = indexes?;
        let kinds: Vec<Kind> = indexes.iter().map(|index| generators[*index].1.kind()).collect();
        Some(Self::Formatted(Format::parse(&format.as_text()?, &kinds).ok()?, indexes))
    }

    /// As [`of_term`](Self::of_term), or the name of a generator, or the run's own generators.
    pub(super) fn of_value(term: &Term, generators: &Named) -> Option<Self> {
        match (term.as_atom(), index_of(term, generators)) {
            (_, Some(index)) => Some(Self::Generated(index)),
            (Some("key_generator"), None) => Some(Self::Key),
            (Some("value_generator"), None) => Some(Self::Value),
            (_, None) => Self::of_term(term, generators),
        }
    }
}

/// Writes the texts of one worker.
#[derive(Debug)]
pub(super) struct Writer {
    generators: Vec<KeyGenerator>,
    keys: Vec<Key>,
    /// Kind of the run's keys.
    key_kind: Kind,
}

impl Writer {
    /// A writer with generators that are started for its worker.
    pub(super) fn new(generators: Vec<KeyGenerator>, key_kind: Kind) -> Self {
        Self { generators, keys: Vec::new(), key_kind }
    }

    /// Appends a text.
    pub(super) fn write(
        &mut self,
        text: &Text,
        inputs: &mut Inputs,
        out: &mut Vec<u8>,
    ) -> Result<(), Exhausted> {
        match text {
            Text::Literal(bytes) => out.extend_from_slice(bytes),
            Text::Key => out.extend_from_slice(&key_bytes(self.key_kind, inputs.next_key()?)),
            Text::Value => out.extend_from_slice(inputs.next_bytes()),
            Text::Generated(index) => {
                let mut key = Key::default();
                let generator = &mut self.generators[*index];
                generator.generate(inputs.random(), &mut key)?;
                out.extend_from_slice(&key_bytes(generator.kind(), &key));
            }
            Text::Formatted(format, indexes) => {
                self.keys.resize_with(indexes.len(), Key::default);
                for (key, index) in self.keys.iter_mut().zip(indexes) {
                    self.generators[*index].generate(inputs.random(), key)?;
                }
                format.write(&self.keys, out);
            }
        }
        Ok(())
    }
}
