//! The settings of the driver, with the names that Erlang's Bitcask gives them.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::{Config, ConfigError, Settings};
use crate::term::Term;

/// Directory of the store within `bitcask_dir`.
const STORE_NAME: &str = "test.bitcask";

/// Longest interval and expiry that a configuration may name.
const SECONDS_MAX: u64 = 1 << 31;

/// Options of Erlang's Bitcask that need nothing here: the store is made and written anyway.
const GIVEN_OPTIONS: [&str; 2] = ["read_write", "open_timeout"];

/// Settings of the store from the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoreSettings {
    /// Directory of the store.
    pub(super) directory: PathBuf,
    /// Each write waits for its sync (`o_sync`).
    pub(super) is_synced: bool,
    /// Largest size of a segment (`max_file_size`).
    pub(super) max_file_size_bytes: Option<u64>,
    /// Life of a record (`expiry_secs`).
    pub(super) expiry_secs: Option<u32>,
    /// How often everything written is synced; never when absent.
    pub(super) sync_interval: Option<Duration>,
    /// Options that have no effect.
    pub(super) passed_over: Vec<String>,
}

impl StoreSettings {
    /// Reads the settings.
    pub(super) fn read(config: &Config) -> Result<Self, ConfigError> {
        let settings = &config.settings;
        let base = PathBuf::from(settings.text("bitcask_dir", ".")?);
        let store = Self {
            directory: config.run_directory.join(base).join(STORE_NAME),
            is_synced: false,
            max_file_size_bytes: None,
            expiry_secs: None,
            sync_interval: read_interval(settings)?,
            passed_over: Vec::new(),
        };
        let expected = "write a list of options such as o_sync, {max_file_size, Bytes} or \
                        {expiry_secs, Seconds}";
        settings.read("bitcask_flags", store.clone(), expected, |term| {
            let mut store = store.clone();
            term.as_list()?.iter().try_for_each(|option| store.take(option))?;
            Some(store)
        })
    }

    /// Takes an option; nothing when its value cannot be.
    fn take(&mut self, option: &Term) -> Option<()> {
        let (name, value) = match option {
            Term::Tuple(parts) => match parts.as_slice() {
                [name, value] => (name.as_atom()?, Some(value)),
                _ => return None,
            },
            other => (other.as_atom()?, None),
        };
        match (name, value) {
            ("o_sync", None) => self.is_synced = true,
            ("sync_strategy", Some(strategy)) => self.take_strategy(strategy)?,
            ("max_file_size", Some(size)) => {
                let size = u64::try_from(size.as_integer()?).ok().filter(|size| *size > 0)?;
                self.max_file_size_bytes = Some(size);
            }
            ("expiry_secs", Some(Term::Integer(-1))) => self.expiry_secs = None,
            ("expiry_secs", Some(seconds)) => {
                self.expiry_secs = Some(u32::try_from(seconds_of(seconds)?).ok()?);
            }
            (name, _) if GIVEN_OPTIONS.contains(&name) => {}
            (name, _) => self.passed_over.push(name.to_owned()),
        }
        Some(())
    }

    fn take_strategy(&mut self, strategy: &Term) -> Option<()> {
        match strategy {
            Term::Atom(name) if name == "none" => self.is_synced = false,
            Term::Atom(name) if name == "o_sync" => self.is_synced = true,
            Term::Tuple(parts) => match parts.as_slice() {
                [Term::Atom(name), seconds] if name == "seconds" => {
                    self.sync_interval = Some(Duration::from_secs(seconds_of(seconds)?));
                }
                _ => return None,
            },
            _ => return None,
        }
        Some(())
    }
}

fn read_interval(settings: &Settings) -> Result<Option<Duration>, ConfigError> {
    let expected = "write infinity or a number of seconds";
    settings.read("bitcask_sync_interval", None, expected, |term| match term.as_atom() {
        Some("infinity") => Some(None),
        _ => Some(Some(Duration::from_secs(seconds_of(term)?))),
    })
}

/// A number of seconds, at least one.
fn seconds_of(term: &Term) -> Option<u64> {
    u64::try_from(term.as_integer()?).ok().filter(|seconds| (1..=SECONDS_MAX).contains(seconds))
}
