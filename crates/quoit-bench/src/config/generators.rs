//! Reading the settings of the generators of keys and values.

use std::path::PathBuf;

use super::Config;
use super::error::ConfigError;
use super::settings::Settings;
use crate::keygen::{KeyGenerator, SequenceSettings, notes};
use crate::term::Term;
use crate::valgen::{SOURCE_BYTES_MAX, SourceKind, SourceSettings, ValueGenerator};

/// The generators of keys and values, and the source that values are cut from.
pub(super) struct Generators {
    pub(super) keys: KeyGenerator,
    pub(super) values: ValueGenerator,
    pub(super) source: SourceSettings,
}

impl Generators {
    /// Reads the generators and the settings that belong to them.
    pub(super) fn read(
        settings: &Settings,
        worker_count: u32,
        warnings: &mut Vec<String>,
    ) -> Result<Self, ConfigError> {
        let (mut keys, values) = (read_keys(settings)?, read_values(settings)?);
        keys.configure_sequences(&read_sequences(settings, warnings)?);
        for key in ["key_generator", "value_generator"] {
            let notes = settings.get(key).map(|term| notes(term, worker_count));
            let place = settings.place(key);
            warnings.extend(notes.into_iter().flatten().map(|note| format!("{place}{note}")));
        }
        let source = read_source(settings)?;
        warn_of_small_source(settings, &values, &source, warnings);
        Ok(Self { keys, values, source })
    }
}

impl Config {
    /// The key generator as configured.
    pub(crate) fn key_term(&self) -> Term {
        self.settings.get("key_generator").cloned().unwrap_or_else(default_key_term)
    }

    /// The value generator as configured.
    pub(crate) fn value_term(&self) -> Term {
        self.settings.get("value_generator").cloned().unwrap_or_else(default_value_term)
    }
}

/// The default key generator.
fn default_key_term() -> Term {
    Term::Tuple(vec![Term::atom("uniform_int"), Term::Integer(100_000)])
}

/// The default value generator.
fn default_value_term() -> Term {
    Term::Tuple(vec![Term::atom("fixed_bin"), Term::Integer(100)])
}

fn read_keys(settings: &Settings) -> Result<KeyGenerator, ConfigError> {
    let key = "key_generator";
    let term = settings.get(key).cloned().unwrap_or_else(default_key_term);
    KeyGenerator::parse(&term).map_err(|error| ConfigError::Generator {
        place: settings.place(key),
        key,
        error,
    })
}

fn read_values(settings: &Settings) -> Result<ValueGenerator, ConfigError> {
    let key = "value_generator";
    let term = settings.get(key).cloned().unwrap_or_else(default_value_term);
    ValueGenerator::parse(&term).map_err(|error| ConfigError::Generator {
        place: settings.place(key),
        key,
        error,
    })
}

/// Reads where positions are saved and whether progress is reported. A relative directory is refused with a
/// warning, as basho_bench does, because its meaning would depend on the working directory.
fn read_sequences(
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Result<SequenceSettings, ConfigError> {
    let key = "sequential_int_state_dir";
    let dir = PathBuf::from(settings.text(key, "")?);
    if !dir.as_os_str().is_empty() && dir.is_relative() {
        warnings.push(format!(
            "{}{key} is the relative path {}, and positions are not saved: write an absolute one",
            settings.place(key),
            dir.display()
        ));
    }
    Ok(SequenceSettings {
        state_dir: dir.is_absolute().then_some(dir),
        is_quiet: settings.boolean("disable_sequential_int_progress_report", false)?,
        ..SequenceSettings::default()
    })
}

fn read_source(settings: &Settings) -> Result<SourceSettings, ConfigError> {
    let size_expected = "write a number of bytes from 1 to 17179869184";
    let size_bytes = settings.read("value_generator_source_size", None, size_expected, |term| {
        let size_bytes = u64::try_from(term.as_integer()?).ok()?;
        (1..=SOURCE_BYTES_MAX).contains(&size_bytes).then_some(Some(size_bytes))
    })?;
    let file = settings.read("value_generator_blob_file", None, "write a path", |term| {
        if term.as_atom() == Some("undefined") {
            return Some(None);
        }
        Some(Some(PathBuf::from(term.as_text()?)))
    })?;
    Ok(SourceSettings { size_bytes, file })
}

/// Warns if a value can be as large as the source that it is cut from: every such value would be the whole
/// source.
fn warn_of_small_source(
    settings: &Settings,
    values: &ValueGenerator,
    source: &SourceSettings,
    warnings: &mut Vec<String>,
) {
    let Some(least) = values.least_slice_bytes() else { return };
    if let Some(file) = &source.file {
        // A file that can't be read is reported as an error elsewhere.
        let size_bytes = std::fs::metadata(file).map_or(u64::MAX, |metadata| metadata.len());
        if values.own_source_kind().is_some() && least >= size_bytes {
            warnings.push(format!(
                "{}value_generator: values of {least} bytes and more are cut from the {size_bytes} bytes of \
                 {}, so each is all of them; name a larger file",
                settings.place("value_generator"),
                file.display()
            ));
        }
        return;
    }
    let Some(size_bytes) = source.random_bytes() else { return };
    if values.own_source_kind() == Some(SourceKind::Random) && least >= size_bytes {
        warnings.push(format!(
            "{}value_generator: values of {least} bytes and more are cut from {size_bytes} random \
             bytes, so each is all of them; raise value_generator_source_size",
            settings.place("value_generator")
        ));
    }
}
