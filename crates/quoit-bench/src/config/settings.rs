//! The keys and values of the configuration files, with the place of each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::error::{ConfigError, SettingPlace};
use super::toml_form::{self, TomlEntry};
use crate::term::{
    LocatedTerm, Position, Positions, Term, is_left_out, left_out_remark, parse_bytes_with_repair,
};

/// All keys that the files set. The last setting of a key wins.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    entries: BTreeMap<String, Entry>,
    remarks: Vec<String>,
    /// Keys that were looked up, set or not.
    read: Arc<Mutex<BTreeSet<String>>>,
}

/// The setting of one key.
#[derive(Debug, Clone)]
struct Entry {
    term: Term,
    file: Arc<PathBuf>,
    key_position: Position,
    places: Positions,
    is_toml: bool,
}

impl Entry {
    fn place(&self, position: Position) -> SettingPlace {
        SettingPlace::Line { file: self.file.clone(), line: position.line, column: position.column }
    }

    /// The ways in which the value can be read. An Erlang term has only one.
    fn readings(&self) -> Vec<Term> {
        if self.is_toml {
            toml_form::readings(&self.term).collect()
        } else {
            vec![self.term.clone()]
        }
    }
}

/// Replaces texts within a term. A list of code points is a text as well.
fn replace_texts(term: &mut Term, pairs: &[(String, String)]) {
    if let Some(text) = term.as_text() {
        if let Some((_, new)) = pairs.iter().find(|(old, _)| *old == text) {
            *term = Term::String(new.clone());
        }
        return;
    }
    match term {
        Term::Tuple(parts) | Term::List(parts) => {
            parts.iter_mut().for_each(|part| replace_texts(part, pairs));
        }
        _ => {}
    }
}

/// True for a file that is TOML, by its name, and not Erlang terms.
fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
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

    /// True if no file sets a key.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds the settings of one file, which is TOML if its name ends in `.toml` and Erlang terms otherwise.
    ///
    /// # Errors
    ///
    /// When the bytes do not parse as the format that the name selects.
    pub fn add(&mut self, path: &Path, bytes: &[u8]) -> Result<(), ConfigError> {
        let file = Arc::new(path.to_owned());
        if is_toml(path) {
            let entries = toml_form::read(bytes)
                .map_err(|error| ConfigError::Toml { path: path.to_owned(), error })?;
            for TomlEntry { key, key_position, term, places } in entries {
                let file = file.clone();
                let entry = Entry { term, file, key_position, places, is_toml: true };
                self.entries.insert(key, entry);
            }
            return Ok(());
        }
        let mended = parse_bytes_with_repair(bytes)
            .map_err(|error| ConfigError::Syntax { path: path.to_owned(), error })?;
        let remark = |text: &str| format!("{}: {text}", path.display());
        self.remarks.extend(mended.remarks.iter().map(|text| remark(text)));
        for LocatedTerm { term, places } in mended.terms {
            for_each_other(&term, &places, &mut |other, Position { line, column }| {
                let place = format!("{}:{line}:{column}", path.display());
                let told = format!("{place}: `{other}` is no {{key, value}} and is ignored");
                self.remarks.push(told);
            });
            for_each_pair(term, places, &mut |key, term, key_position, places| {
                if is_left_out(&term) {
                    self.remarks.push(remark(&left_out_remark(&key, key_position)));
                    return;
                }
                let entry =
                    Entry { term, file: file.clone(), key_position, places, is_toml: false };
                self.entries.insert(key, entry);
            });
        }
        Ok(())
    }

    /// Replaces texts in the values of `keys`: each text that is the first of a pair becomes the second.
    pub(super) fn replace_texts(&mut self, keys: &[&str], pairs: &[(String, String)]) {
        for key in keys {
            if let Some(entry) = self.entries.get_mut(*key) {
                replace_texts(&mut entry.term, pairs);
            }
        }
    }

    /// Warnings about faults in the files that were repaired or ignored.
    pub(super) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Every key that is set, in alphabetical order, with its place.
    pub fn keys(&self) -> impl Iterator<Item = (&str, SettingPlace)> {
        self.entries.iter().map(|(key, entry)| (key.as_str(), entry.place(entry.key_position)))
    }

    /// The value of a key as first parsed, if the key is set. A value in TOML can have other readings: see
    /// [`read`](Self::read).
    pub fn get(&self, key: &str) -> Option<&Term> {
        self.note_read(key);
        self.entries.get(key).map(|entry| &entry.term)
    }

    fn note_read(&self, key: &str) {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned());
    }

    /// True if the key was looked up.
    pub(super) fn was_read(&self, key: &str) -> bool {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    /// Place of a key's value.
    pub fn place(&self, key: &str) -> SettingPlace {
        self.place_in(key, &[])
    }

    /// Place of an element of the value. The indices of `path` lead from each element to one inside it.
    pub(crate) fn place_in(&self, key: &str, path: &[usize]) -> SettingPlace {
        self.entries
            .get(key)
            .map_or(SettingPlace::Default, |entry| entry.place(entry.places.at(path)))
    }

    /// A value in the syntax of the file that sets `key`.
    pub(crate) fn spelled(&self, key: &str, value: &Term) -> String {
        match self.entries.get(key) {
            Some(entry) if entry.is_toml => toml_form::write_value(value),
            _ => value.to_string(),
        }
    }

    /// The required form, which is in Erlang's syntax, with a hint if the file that sets `key` is TOML.
    fn spelled_form(&self, key: &str, mut expected: String) -> String {
        let is_toml = self.entries.get(key).is_some_and(|entry| entry.is_toml);
        if is_toml && expected.contains('{') {
            expected.push_str(" (in TOML {name, 1} is [\"name\", 1])");
        }
        expected
    }

    /// The error for a value that does not have the required form.
    pub fn value_error(&self, key: &str, expected: impl Into<String>) -> ConfigError {
        let expected = self.spelled_form(key, expected.into());
        ConfigError::Value {
            place: self.place(key),
            key: key.to_owned(),
            value: self
                .get(key)
                .map_or_else(|| "not set".to_owned(), |value| self.spelled(key, value)),
            expected,
        }
    }

    /// The error for the element at `index` of the list that `key` is set to.
    pub(crate) fn element_error(
        &self,
        key: &str,
        index: usize,
        element: &Term,
        expected: &str,
    ) -> ConfigError {
        ConfigError::Value {
            place: self.place_in(key, &[index]),
            key: format!("an element of {key}"),
            value: self.spelled(key, element),
            expected: self.spelled_form(key, expected.to_owned()),
        }
    }

    /// Reads a value by `read`, which returns `None` if the value does not fit. An unset key gives the
    /// default. A value in TOML is tried in each of its readings.
    ///
    /// # Errors
    ///
    /// When the key is set and no reading of its value fits.
    pub fn read<T>(
        &self,
        key: &str,
        default: T,
        expected: &str,
        read: impl Fn(&Term) -> Option<T>,
    ) -> Result<T, ConfigError> {
        self.note_read(key);
        let Some(entry) = self.entries.get(key) else { return Ok(default) };
        let found = entry.readings().iter().find_map(read);
        found.ok_or_else(|| self.value_error(key, expected))
    }

    /// Reads an integer within a range.
    ///
    /// # Errors
    ///
    /// When the key is set to anything else.
    pub fn integer<T>(
        &self,
        key: &str,
        default: T,
        range: std::ops::RangeInclusive<T>,
    ) -> Result<T, ConfigError>
    where
        T: PartialOrd + std::fmt::Display + TryFrom<i128>,
    {
        let expected = format!("write an integer from {} to {}", range.start(), range.end());
        self.read(key, default, &expected, |term| {
            let value = T::try_from(term.as_integer()?).ok()?;
            range.contains(&value).then_some(value)
        })
    }

    /// Reads a time limit of 1 ms to one day, in milliseconds.
    ///
    /// # Errors
    ///
    /// When the key is set to anything else.
    pub(crate) fn time_limit(&self, key: &str, default: Duration) -> Result<Duration, ConfigError> {
        let default_ms = quoit_number::saturating_u64(default.as_millis());
        self.integer(key, default_ms, 1..=86_400_000).map(Duration::from_millis)
    }

    /// Reads `true` or `false`.
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

    /// Reads a string.
    ///
    /// # Errors
    ///
    /// When the key is set to anything else.
    pub fn text(&self, key: &str, default: &str) -> Result<String, ConfigError> {
        self.read(key, default.to_owned(), "write a string in quotes", Term::as_text)
    }

    /// Reads a binary or a string as bytes.
    ///
    /// # Errors
    ///
    /// When the key is set to anything else.
    pub fn bytes(&self, key: &str, default: &[u8]) -> Result<Vec<u8>, ConfigError> {
        self.read(key, default.to_vec(), "write a binary such as <<\"test\">>", bytes_of)
    }
}

/// Passes to `tell` every term, and every element of a list of terms, that is not a pair of a key and a
/// value.
fn for_each_other(term: &Term, places: &Positions, tell: &mut impl FnMut(&Term, Position)) {
    match term {
        Term::Tuple(elements) if matches!(elements.as_slice(), [Term::Atom(_), _]) => {}
        Term::List(elements) => {
            let place_of = |at: usize| {
                places.inner.get(at).cloned().unwrap_or_else(|| Positions::leaf(places.position))
            };
            for (at, element) in elements.iter().enumerate() {
                for_each_other(element, &place_of(at), tell);
            }
        }
        other => tell(other, places.position),
    }
}

/// Passes every pair of a key and a value to `take`, with the places of both: a pair itself, or the pairs
/// in a list. Other terms are ignored, as basho_bench does.
pub(super) fn for_each_pair(
    term: Term,
    places: Positions,
    take: &mut impl FnMut(String, Term, Position, Positions),
) {
    let position = places.position;
    let mut inner = places.inner.into_iter();
    let mut next = || inner.next().unwrap_or_else(|| Positions::leaf(position));
    match term {
        Term::Tuple(elements) => {
            if let Ok([Term::Atom(key), value]) = <[Term; 2]>::try_from(elements) {
                let key_position = next().position;
                take(key, value, key_position, next());
            }
        }
        Term::List(elements) => {
            for element in elements {
                for_each_pair(element, next(), take);
            }
        }
        _ => {}
    }
}

/// The bytes of a binary, or of a string whose characters are all at most 255.
pub(crate) fn bytes_of(term: &Term) -> Option<Vec<u8>> {
    match term {
        Term::Binary(bytes) => Some(bytes.clone()),
        other => other.as_text()?.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect(),
    }
}
