//! The keys and values of the configuration files, with the place of each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{ConfigError, Place};
use crate::term::{LocatedTerm, Term, parse_bytes};

/// All keys that the files set; the last setting of a key wins.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    entries: BTreeMap<String, (Term, Place)>,
}

impl Settings {
    /// Reads files in order.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or parsed.
    pub fn load(paths: &[PathBuf]) -> Result<Self, ConfigError> {
        let mut settings = Self::default();
        for path in paths {
            let bytes = std::fs::read(path)
                .map_err(|error| ConfigError::Read { path: path.clone(), error })?;
            settings.add(path, &bytes)?;
        }
        Ok(settings)
    }

    /// Adds the settings of one file.
    ///
    /// # Errors
    ///
    /// When the bytes are no sequence of Erlang terms.
    pub fn add(&mut self, path: &Path, bytes: &[u8]) -> Result<(), ConfigError> {
        let terms = parse_bytes(bytes)
            .map_err(|error| ConfigError::Syntax { path: path.to_owned(), error })?;
        let file = Arc::new(path.to_owned());
        for LocatedTerm { term, position } in terms {
            self.insert(term, &Place::Line { file: file.clone(), line: position.line });
        }
        Ok(())
    }

    /// Takes a pair, or every pair of a list of them; what is neither is passed over, as
    /// basho_bench does.
    fn insert(&mut self, term: Term, place: &Place) {
        match term {
            Term::Tuple(mut elements) if elements.len() == 2 => {
                let value = elements.pop().expect("the tuple has two elements");
                if let Some(Term::Atom(key)) = elements.pop() {
                    self.entries.insert(key, (value, place.clone()));
                }
            }
            Term::List(elements) => {
                elements.into_iter().for_each(|element| self.insert(element, place));
            }
            _ => {}
        }
    }

    /// Every key that is set, in order.
    pub fn keys(&self) -> impl Iterator<Item = (&str, &Place)> {
        self.entries.iter().map(|(key, (_, place))| (key.as_str(), place))
    }

    /// The value of a key, if it is set.
    pub fn get(&self, key: &str) -> Option<&Term> {
        self.entries.get(key).map(|(value, _)| value)
    }

    /// Where a key is set.
    pub fn place(&self, key: &str) -> Place {
        self.entries.get(key).map_or(Place::Default, |(_, place)| place.clone())
    }

    /// The error for a value that its key cannot have.
    pub fn value_error(&self, key: &str, expected: impl Into<String>) -> ConfigError {
        ConfigError::Value {
            place: self.place(key),
            key: key.to_owned(),
            value: Box::new(self.get(key).cloned().unwrap_or(Term::List(Vec::new()))),
            expected: expected.into(),
        }
    }

    /// A value by a reader that gives nothing when it does not fit; the default when unset.
    ///
    /// # Errors
    ///
    /// When the key is set and the reader gives nothing.
    pub fn read<T>(
        &self,
        key: &str,
        default: T,
        expected: &str,
        read: impl FnOnce(&Term) -> Option<T>,
    ) -> Result<T, ConfigError> {
        match self.get(key) {
            None => Ok(default),
            Some(term) => read(term).ok_or_else(|| self.value_error(key, expected)),
        }
    }

    /// An integer of a range.
    ///
    /// # Errors
    ///
    /// When the key is set to anything else.
    pub fn integer(
        &self,
        key: &str,
        default: u64,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, ConfigError> {
        let expected = format!("write an integer from {} to {}", range.start(), range.end());
        self.read(key, default, &expected, |term| {
            let value = u64::try_from(term.as_integer()?).ok()?;
            range.contains(&value).then_some(value)
        })
    }

    /// `true` or `false`.
    ///
    /// # Errors
    ///
    /// When the key is set to anything else.
    pub fn boolean(&self, key: &str, default: bool) -> Result<bool, ConfigError> {
        self.read(key, default, "write true or false", |term| match term.as_atom()? {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        })
    }

    /// A string.
    ///
    /// # Errors
    ///
    /// When the key is set to anything else.
    pub fn text(&self, key: &str, default: &str) -> Result<String, ConfigError> {
        self.read(key, default.to_owned(), "write a string in quotes", Term::as_text)
    }

    /// The bytes of a binary or a string.
    ///
    /// # Errors
    ///
    /// When the key is set to anything else.
    pub fn bytes(&self, key: &str, default: &[u8]) -> Result<Vec<u8>, ConfigError> {
        self.read(key, default.to_vec(), "write a binary such as <<\"test\">>", bytes_of)
    }
}

/// The bytes of a binary, or of a string of characters up to 255.
pub(crate) fn bytes_of(term: &Term) -> Option<Vec<u8>> {
    match term {
        Term::Binary(bytes) => Some(bytes.clone()),
        other => other.as_text()?.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect(),
    }
}
