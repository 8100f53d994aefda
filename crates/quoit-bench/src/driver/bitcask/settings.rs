//! Settings of the driver, under the names that Erlang's Bitcask gives them.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::{Config, ConfigError, Settings};
use crate::term::Term;

/// Name of the store's directory within `bitcask_dir`.
const STORE_NAME: &str = "test.bitcask";

/// Maximum interval and expiry of a configuration, in seconds.
const SECONDS_MAX: u64 = 1 << 31;

/// Options of Erlang's Bitcask that change nothing here: the store is always created and writable.
const GIVEN_OPTIONS: [&str; 2] = ["read_write", "open_timeout"];

/// Settings of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoreSettings {
    /// Directory of the store.
    pub(super) directory: PathBuf,
    /// True if each write waits for its sync (`o_sync`).
    pub(super) is_synced: bool,
    /// Maximum size of a segment in bytes (`max_file_size`).
    pub(super) max_file_size_bytes: Option<u64>,
    /// Lifetime of a record in seconds (`expiry_secs`).
    pub(super) expiry_secs: Option<u32>,
    /// Interval between syncs of everything written; `None` for no periodic sync.
    pub(super) sync_interval: Option<Duration>,
    /// Names of options that have no effect.
    pub(super) ignored_options: Vec<String>,
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
            ignored_options: Vec::new(),
        };
        let expected = "write a list of options such as o_sync, {max_file_size, Bytes} or \
                        {expiry_secs, Seconds}";
        settings.read("bitcask_flags", store.clone(), expected, |term| {
            let mut store = store.clone();
            term.as_list()?.iter().try_for_each(|option| store.take(option))?;
            Some(store)
        })
    }

    /// Applies an option. Returns `None` if its value is invalid.
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
            (name, _) => self.ignored_options.push(name.to_owned()),
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

/// Reads a number of seconds, at least one.
fn seconds_of(term: &Term) -> Option<u64> {
    u64::try_from(term.as_integer()?).ok().filter(|seconds| (1..=SECONDS_MAX).contains(seconds))
}
