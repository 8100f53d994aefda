//! Texts of paths and bodies: literal, or built from generated values.

use crate::driver::{Inputs, key_bytes};
use crate::keygen::{Exhausted, Format, Key, KeyGenerator, Kind};
use crate::term::Term;

/// The generators of a configuration, by name.
pub(super) type Named = Vec<(Term, KeyGenerator)>;

/// A template of a text.
#[derive(Debug, Clone)]
pub(super) enum Text {
    /// The same bytes each time.
    Literal(Vec<u8>),
    /// Output of one generator, by its index.
    Generated(usize),
    /// A format string, with the source of each directive's value.
    Formatted(Format, Vec<Filling>),
    /// A key of the run's `key_generator`.
    Key,
    /// A value of the run's `value_generator`.
    Value,
}

/// The source of a directive's value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Filling {
    /// A named generator, by its index.
    Generator(usize),
    /// The run's `key_generator`.
    Key,
    /// The run's `value_generator`.
    Value,
}

/// The generators that templates can name.
#[derive(Debug, Clone, Copy)]
pub(super) struct TemplateSources<'a> {
    pub(super) named: &'a Named,
    /// Kind of the keys of the run's `key_generator`.
    pub(super) key_kind: Kind,
}

impl TemplateSources<'_> {
    fn filling(self, name: &Term) -> Option<Filling> {
        match (index_of(name, self.named), name.as_atom()) {
            (Some(index), _) => Some(Filling::Generator(index)),
            (None, Some("key_generator")) => Some(Filling::Key),
            (None, Some("value_generator")) => Some(Filling::Value),
            (None, _) => None,
        }
    }

    fn kind(self, filling: Filling) -> Kind {
        match filling {
            Filling::Generator(index) => self.named[index].1.kind(),
            Filling::Key => self.key_kind,
            Filling::Value => Kind::Binary,
        }
    }
}

/// The index of the element with a name.
pub(super) fn index_of<T>(name: &Term, named: &[(Term, T)]) -> Option<usize> {
    named.iter().position(|(other, _)| other == name)
}

impl Text {
    /// Reads a literal, or `{Format, [Generator, ...]}`, in which a single generator needs no list. `None`
    /// for anything else.
    pub(super) fn of_term(term: &Term, sources: TemplateSources<'_>) -> Option<Self> {
        let Some(parts) = term.as_tuple() else {
            return crate::config::bytes_of(term).map(Self::Literal);
        };
        let [format, names] = parts else { return None };
        let names = match names {
            Term::Atom(_) => vec![names.clone()],
            list => list.as_list()?,
        };
        let fillings: Vec<Filling> =
            names.iter().map(|name| sources.filling(name)).collect::<Option<_>>()?;
        let kinds: Vec<Kind> = fillings.iter().map(|filling| sources.kind(*filling)).collect();
        Some(Self::Formatted(Format::parse(&format.as_text()?, &kinds).ok()?, fillings))
    }

    /// Reads what [`of_term`](Self::of_term) reads, or the name of a generator, including the run's own
    /// generators.
    pub(super) fn of_value(term: &Term, sources: TemplateSources<'_>) -> Option<Self> {
        match sources.filling(term) {
            Some(Filling::Generator(index)) => Some(Self::Generated(index)),
            Some(Filling::Key) => Some(Self::Key),
            Some(Filling::Value) => Some(Self::Value),
            None => Self::of_term(term, sources),
        }
    }
}

/// Writes the texts of one worker's requests.
#[derive(Debug)]
pub(super) struct Writer {
    generators: Vec<KeyGenerator>,
    keys: Vec<Key>,
    /// Kind of the run's keys.
    key_kind: Kind,
}

impl Writer {
    /// Creates a writer. The generators must have been started for its worker.
    pub(super) fn new(generators: Vec<KeyGenerator>, key_kind: Kind) -> Self {
        Self { generators, keys: Vec::new(), key_kind }
    }

    /// Appends a text to `out`.
    pub(super) fn write(
        &mut self,
        text: &Text,
        inputs: &mut Inputs,
        out: &mut Vec<u8>,
    ) -> Result<(), Exhausted> {
        match text {
            Text::Literal(bytes) => out.extend_from_slice(bytes),
            Text::Key => out.extend_from_slice(&key_bytes(self.key_kind, inputs.next_key()?)),
            Text::Value => out.extend_from_slice(inputs.next_bytes()?),
            Text::Generated(index) => {
                let mut key = Key::default();
                let generator = &mut self.generators[*index];
                generator.generate(inputs.random(), &mut key)?;
                out.extend_from_slice(&key_bytes(generator.kind(), &key));
            }
            Text::Formatted(format, fillings) => {
                self.keys.resize_with(fillings.len(), Key::default);
                for (key, filling) in self.keys.iter_mut().zip(fillings) {
                    match filling {
                        Filling::Generator(index) => {
                            self.generators[*index].generate(inputs.random(), key)?;
                        }
                        Filling::Key => key.clone_from(inputs.next_key()?),
                        Filling::Value => {
                            key.replace(inputs.next_bytes()?.iter().copied());
                        }
                    }
                }
                format.write(&self.keys, out);
            }
        }
        Ok(())
    }
}
