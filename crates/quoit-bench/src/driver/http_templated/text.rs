//! Texts of paths and bodies: literal, or built from generated values.

use crate::driver::{Inputs, key_bytes};
use crate::keygen::{Exhausted, Format, Key, KeyGenerator, KeyKind};
use crate::term::Term;

/// The generators of a configuration, by name.
pub(super) type NamedGenerators = Vec<(Term, KeyGenerator)>;

/// A template of a text.
#[derive(Debug, Clone)]
pub(super) enum TextTemplate {
    /// The same bytes each time.
    Literal(Vec<u8>),
    /// Output of one generator, by its index.
    Generated(usize),
    /// A format string, with the source of each directive's value.
    Formatted(Format, Vec<DirectiveSource>),
    /// A key of the run's `key_generator`.
    Key,
    /// A value of the run's `value_generator`.
    Value,
}

/// The source of a directive's value.
#[derive(Debug, Clone, Copy)]
pub(super) enum DirectiveSource {
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
    pub(super) named: &'a NamedGenerators,
    /// Kind of the keys of the run's `key_generator`.
    pub(super) key_kind: KeyKind,
}

impl TemplateSources<'_> {
    fn directive_source(self, name: &Term) -> Option<DirectiveSource> {
        match (index_of(name, self.named), name.as_atom()) {
            (Some(index), _) => Some(DirectiveSource::Generator(index)),
            (None, Some("key_generator")) => Some(DirectiveSource::Key),
            (None, Some("value_generator")) => Some(DirectiveSource::Value),
            (None, _) => None,
        }
    }

    #[expect(clippy::indexing_slicing, reason = "fillings have indexes of these generators")]
    fn kind(self, directive_source: DirectiveSource) -> KeyKind {
        match directive_source {
            DirectiveSource::Generator(index) => self.named[index].1.kind(),
            DirectiveSource::Key => self.key_kind,
            DirectiveSource::Value => KeyKind::Binary,
        }
    }
}

/// The index of the element with a name.
pub(super) fn index_of<T>(name: &Term, named: &[(Term, T)]) -> Option<usize> {
    named.iter().position(|(other, _)| other == name)
}

impl TextTemplate {
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
        let directive_sources: Vec<DirectiveSource> =
            names.iter().map(|name| sources.directive_source(name)).collect::<Option<_>>()?;
        let kinds: Vec<KeyKind> = directive_sources
            .iter()
            .map(|directive_source| sources.kind(*directive_source))
            .collect();
        Some(Self::Formatted(Format::parse(&format.as_text()?, &kinds).ok()?, directive_sources))
    }

    /// Reads what [`of_term`](Self::of_term) reads, or the name of a generator, including the run's own
    /// generators.
    pub(super) fn of_value(term: &Term, sources: TemplateSources<'_>) -> Option<Self> {
        match sources.directive_source(term) {
            Some(DirectiveSource::Generator(index)) => Some(Self::Generated(index)),
            Some(DirectiveSource::Key) => Some(Self::Key),
            Some(DirectiveSource::Value) => Some(Self::Value),
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
    key_kind: KeyKind,
}

impl Writer {
    /// Creates a writer. The generators must have been started for its worker.
    pub(super) fn new(generators: Vec<KeyGenerator>, key_kind: KeyKind) -> Self {
        Self { generators, keys: Vec::new(), key_kind }
    }

    /// Appends a text to `out`.
    #[expect(clippy::indexing_slicing, reason = "texts have indexes of the worker's generators")]
    pub(super) fn write(
        &mut self,
        text: &TextTemplate,
        inputs: &mut Inputs,
        out: &mut Vec<u8>,
    ) -> Result<(), Exhausted> {
        match text {
            TextTemplate::Literal(bytes) => out.extend_from_slice(bytes),
            TextTemplate::Key => {
                out.extend_from_slice(&key_bytes(self.key_kind, inputs.next_key()?))
            }
            TextTemplate::Value => out.extend_from_slice(inputs.next_bytes()?),
            TextTemplate::Generated(index) => {
                let mut key = Key::default();
                let generator = &mut self.generators[*index];
                generator.generate(inputs.random(), &mut key)?;
                out.extend_from_slice(&key_bytes(generator.kind(), &key));
            }
            TextTemplate::Formatted(format, directive_sources) => {
                self.keys.resize_with(directive_sources.len(), Key::default);
                for (key, directive_source) in self.keys.iter_mut().zip(directive_sources) {
                    match directive_source {
                        DirectiveSource::Generator(index) => {
                            self.generators[*index].generate(inputs.random(), key)?;
                        }
                        DirectiveSource::Key => key.clone_from(inputs.next_key()?),
                        DirectiveSource::Value => {
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
