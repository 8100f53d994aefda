//! Effective settings, from the entries of all sources.

mod replication;
mod security;
mod server;
mod several;
mod store;

pub use security::UnmetSecuritySetting;
pub use several::NamedStorage;

use crate::keys::key_match::{KeyMatch, key_match, of_named_engine};
use crate::keys::riak_keys::{KeyValue, unsupported_effect};
use crate::keys::{Key, keys};
use crate::parse::{self, ConfigLine, Entry, Origin, ParseError};
use crate::variables::Variable;
use crate::{value, variables};
use quoit_cluster::{InternodeTlsMode, VersionRange};
use quoit_tls::nodes::{SharedSecret, WeakSecret};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Reasons for which a configuration is refused.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A file can't be read, or a line is not a setting.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// No key has this name.
    #[error("{origin}: unknown key `{key}`{hint}")]
    UnknownKey {
        /// Source of the entry.
        origin: Origin,
        /// The name.
        key: String,
        /// A suggestion with the most similar name, or empty.
        hint: String,
    },
    /// A value does not have its key's type.
    #[error("{origin}: `{key} = {value}`: wanted {valid_form}")]
    BadValue {
        /// Source of the entry.
        origin: Origin,
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// Valid form.
        valid_form: String,
    },
    /// The settings of several engines contradict each other.
    #[error("storage_backend = multi: {0}")]
    SeveralEngines(String),
}

/// Sources of settings.
#[derive(Debug, Default)]
pub struct Sources {
    /// A configuration file.
    pub file: Option<PathBuf>,
    /// Variables of the environment, all of them.
    pub environment: Vec<(String, String)>,
    /// `key=value` arguments of the command line.
    pub command_line: Vec<String>,
    /// Keys that have flags of their own on the command line, with their values.
    pub flags: Vec<(String, String)>,
}

impl Sources {
    /// The variables of this process. Bytes that are not UTF-8 are replaced, so that the value is refused.
    #[must_use]
    pub fn process_environment() -> Vec<(String, String)> {
        let text = |words: OsString| words.to_string_lossy().into_owned();
        std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
    }
}

/// The configured storage engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    /// A log and an index in memory.
    Bitcask,
    /// Log-structured merge tree.
    Leveldb,
    /// Log-structured merge trees, with values apart from their metadata.
    Leveled,
    /// B+tree.
    Innostore,
    /// Memory only; records end with the process.
    Memory,
    /// Several of the other engines.
    Multi,
}

impl Storage {
    /// All engines.
    pub const ALL: [Self; 6] =
        [Self::Bitcask, Self::Leveldb, Self::Leveled, Self::Innostore, Self::Memory, Self::Multi];

    /// The engine that a value of the setting names.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|storage| storage.name() == name)
    }

    /// The value of the setting.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bitcask => "bitcask",
            Self::Leveldb => "leveldb",
            Self::Leveled => "leveled",
            Self::Innostore => "innostore",
            Self::Memory => "memory",
            Self::Multi => "multi",
        }
    }
}

/// The effective settings.
#[derive(Clone, Debug)]
pub struct Settings {
    values: BTreeMap<String, Entry>,
    /// Keys that were set and have no effect.
    pub ignored: Vec<Entry>,
    /// Environment variables with the prefix of settings that are not similar to any key: other programs
    /// may have set them.
    pub foreign_variables: Vec<String>,
}

/// Reads all sources. A later source takes precedence, and within a source the last duplicate.
///
/// # Errors
///
/// The first line that can't be parsed, unknown key or bad value.
pub fn load(sources: &Sources) -> Result<Settings, ConfigError> {
    let mut entries = match &sources.file {
        Some(path) => parse::file(path)?,
        None => Vec::new(),
    };
    for (name, value) in &sources.environment {
        let Some(key) = Variable { name, value }.key() else { continue };
        let origin = Origin::Environment(name.clone());
        entries.push(Entry { key, value: value.trim().to_owned(), origin });
    }
    for text in &sources.command_line {
        match parse::setting(text, Origin::CommandLine)? {
            Some(ConfigLine::Setting(entry)) => entries.push(entry),
            Some(ConfigLine::Include(_)) | None => {
                let line = text.clone();
                return Err(ParseError::NotASetting { origin: Origin::CommandLine, line }.into());
            }
        }
    }
    for (key, value) in &sources.flags {
        let (key, value) = (key.clone(), value.clone());
        entries.push(Entry { key, value, origin: Origin::CommandLine });
    }
    settings_of(entries)
}

/// The settings of a list of entries; the last duplicate takes precedence.
///
/// # Errors
///
/// The first unknown key or bad value.
pub fn settings_of(entries: Vec<Entry>) -> Result<Settings, ConfigError> {
    let mut settings =
        Settings { values: BTreeMap::new(), ignored: Vec::new(), foreign_variables: Vec::new() };
    for entry in entries {
        settings.take(entry)?;
    }
    several::check(&settings)?;
    Ok(settings)
}

impl Settings {
    fn take(&mut self, entry: Entry) -> Result<(), ConfigError> {
        match key_match(&entry.key) {
            KeyMatch::RiakOnly => self.ignored.push(entry),
            KeyMatch::Unknown(nearest) => {
                if nearest.is_none()
                    && let Origin::Environment(name) = entry.origin
                {
                    self.foreign_variables.push(name);
                    return Ok(());
                }
                let hint = nearest.map_or_else(
                    || "; `quoit config describe` lists all keys".to_owned(),
                    |near| match &entry.origin {
                        Origin::Environment(_) => {
                            let variable = variables::name(&near);
                            format!("; did you mean `{near}` (variable {variable})?")
                        }
                        _ => format!("; did you mean `{near}`?"),
                    },
                );
                return Err(ConfigError::UnknownKey { origin: entry.origin, key: entry.key, hint });
            }
            KeyMatch::Key(key) => {
                check(key, &entry)?;
                let is_chosen = key.name.contains('$') || of_named_engine(&entry.key).is_some();
                let name = if is_chosen { entry.key.as_str() } else { key.name };
                self.values.insert(name.to_owned(), entry);
            }
        }
        Ok(())
    }

    /// Settings of a riak.conf that promise a behaviour that Quoit does not have, each with the reason as
    /// text.
    pub fn unsupported_settings(&self) -> impl Iterator<Item = (&Entry, &'static str)> {
        let told = |entry: &Entry| {
            // A setting of one of several engines promises the same as the setting for all.
            let key = of_named_engine(&entry.key).map_or(entry.key.as_str(), |(_, key)| key);
            unsupported_effect(KeyValue { key, value: &entry.value })
        };
        self.ignored.iter().filter_map(move |entry| Some((entry, told(entry)?)))
    }

    /// The value of a key, or its default; `None` if it has neither.
    pub fn get(&self, name: &str) -> Option<&str> {
        if let Some(entry) = self.values.get(name) {
            return Some(&entry.value);
        }
        let default = keys().find(|key| key.name == name)?.default;
        (!default.is_empty()).then_some(default)
    }

    /// The source of a key's value; `None` if it has its default.
    pub fn origin(&self, name: &str) -> Option<&Origin> {
        self.values.get(name).map(|entry| &entry.origin)
    }

    /// Values of the keys `prefix.NAME`, or the default of the family.
    pub fn family(&self, prefix: &str) -> Vec<String> {
        let start = format!("{prefix}.");
        let given: Vec<String> = self
            .values
            .range(start.clone()..)
            .take_while(|(name, _)| name.starts_with(&start))
            .map(|(_, entry)| entry.value.clone())
            .collect();
        if given.is_empty() {
            return self.get(&format!("{prefix}.$name")).map(str::to_owned).into_iter().collect();
        }
        given
    }

    /// Removes all members of a family except the key `kept`.
    pub fn keep_only(&mut self, kept: &str) {
        let family = kept.rsplit_once('.').map_or(kept, |(family, _)| family);
        let is_member =
            |name: &str| name.strip_prefix(family).is_some_and(|member| member.starts_with('.'));
        self.values.retain(|name, _| !is_member(name) || name == kept);
    }

    /// Address of the internode listener. Riak's `handoff.ip` and `handoff.port` apply if
    /// `listener.internode` is not set.
    #[must_use]
    pub fn internode(&self) -> String {
        let address = self.text("listener.internode");
        let (ip, port) = (self.get("handoff.ip"), self.get("handoff.port"));
        let is_set = self.origin("listener.internode").is_some();
        if is_set || (ip.is_none() && port.is_none()) {
            return address;
        }
        let (ip_default, port_default) = address.rsplit_once(':').unwrap_or((&address, "0"));
        let (ip, port) = (ip.unwrap_or(ip_default), port.unwrap_or(port_default));
        // A port after an IPv6 address requires brackets.
        if ip.contains(':') && !ip.starts_with('[') {
            format!("[{ip}]:{port}")
        } else {
            format!("{ip}:{port}")
        }
    }

    /// All explicit settings, sorted by name.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.values.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    /// The value of a key as text; empty if it has none.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_owned()
    }

    /// The value of a flag; `false` if it has none.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(value::flag).unwrap_or_default()
    }

    /// The value of a number; `None` if it has none.
    #[must_use]
    pub fn integer(&self, name: &str) -> Option<i64> {
        self.get(name)?.parse().ok()
    }

    /// The value of a size in bytes; `None` if it has none.
    #[must_use]
    pub fn size_bytes(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(value::size_bytes)
    }

    /// The value of a duration; `None` if it has none, or the word that switches it off.
    #[must_use]
    pub fn duration(&self, name: &str) -> Option<Duration> {
        self.get(name).and_then(value::duration)
    }

    /// The value of a percentage; 0 if it has none.
    #[must_use]
    pub fn percent(&self, name: &str) -> u8 {
        self.get(name).and_then(value::percent).unwrap_or_default()
    }

    /// Level of the least important messages that are logged.
    #[must_use]
    pub fn log_level(&self) -> &'static str {
        self.get("log.level").and_then(value::level).unwrap_or("info")
    }

    /// The configured storage engine.
    pub fn storage(&self) -> Storage {
        self.get("storage_backend").and_then(Storage::named).unwrap_or(Storage::Bitcask)
    }

    /// Internode addresses of other nodes of the cluster that this node belongs to.
    #[must_use]
    pub fn seeds(&self) -> Vec<Arc<str>> {
        let given = self.get("cluster.seeds").unwrap_or_default().split(',').map(str::trim);
        given.filter(|address| !address.is_empty()).map(Arc::from).collect()
    }

    /// TLS mode of connections between nodes.
    #[must_use]
    pub fn link_mode(&self) -> InternodeTlsMode {
        self.get("internode.tls").and_then(InternodeTlsMode::from_word).unwrap_or_default()
    }

    /// The secret that all nodes share (`distributed_cookie`), if it is strong enough. Its only use is that
    /// a node without a certificate can get one with it.
    ///
    /// # Errors
    ///
    /// [`WeakSecret`] for the default, and for a secret that can be guessed.
    pub fn shared_secret(&self) -> Result<Option<SharedSecret>, WeakSecret> {
        let entry = self.ignored.iter().rev().find(|entry| entry.key == "distributed_cookie");
        entry.map(|entry| SharedSecret::of(&entry.value)).transpose()
    }

    /// Versions of the internode protocol that the node supports.
    pub fn versions(&self) -> VersionRange {
        let newest = self.integer("internode.version.maximum");
        let newest = newest.and_then(|newest| u32::try_from(newest).ok());
        newest.map_or(VersionRange::CURRENT, VersionRange::up_to)
    }
}

fn check(key: &Key, entry: &Entry) -> Result<(), ConfigError> {
    let bad = |valid_form: String| ConfigError::BadValue {
        origin: entry.origin.clone(),
        key: entry.key.clone(),
        value: entry.value.clone(),
        valid_form,
    };
    if !key.kind.accepts(&entry.value) {
        return Err(bad(key.kind.valid_form()));
    }
    let power_of_two = entry.value.parse::<u64>().is_ok_and(u64::is_power_of_two);
    if key.name == "ring_size" && !power_of_two {
        return Err(bad("a power of two from 8 to 4096".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_line(line: &str) -> Result<Settings, ConfigError> {
        load(&Sources { command_line: vec![line.to_owned()], ..Sources::default() })
    }

    #[test]
    fn the_command_line_wins_over_the_environment() {
        let sources = Sources {
            environment: vec![("QUOIT_RING_SIZE".into(), "128".into())],
            command_line: vec!["ring_size = 32".into()],
            ..Sources::default()
        };
        assert_eq!(load(&sources).expect("a good configuration").get("ring_size"), Some("32"));
    }

    #[test]
    fn a_variable_of_a_wrong_name_is_refused_with_the_nearest_right_one() {
        let environment = vec![("QUOIT_STORAGE_BACKND".into(), "memory".into())];
        let fault =
            load(&Sources { environment, ..Sources::default() }).expect_err("bad").to_string();
        assert_eq!(
            fault,
            "environment variable QUOIT_STORAGE_BACKND: unknown key `storage_backnd`; did you mean \
             `storage_backend` (variable QUOIT_STORAGE_BACKEND)?"
        );
    }

    #[test]
    fn a_variable_that_resembles_no_key_is_told_and_refuses_nothing() {
        let environment = vec![("QUOIT_BINARY".into(), "/usr/bin/quoit".into())];
        let settings = load(&Sources { environment, ..Sources::default() }).expect("it starts");
        assert_eq!(settings.foreign_variables, ["QUOIT_BINARY"]);
        assert!(settings.values.is_empty() && settings.ignored.is_empty());
    }

    #[test]
    fn promises_of_a_riak_conf_that_are_broken_are_told_apart() {
        let command_line = vec!["log.syslog = on".into(), "erlang.async_threads = 64".into()];
        let settings = load(&Sources { command_line, ..Sources::default() }).expect("good");
        let told: Vec<&str> =
            settings.unsupported_settings().map(|(entry, _)| &*entry.key).collect();
        assert_eq!((told, settings.ignored.len()), (vec!["log.syslog"], 2));
    }

    #[test]
    fn riaks_handoff_address_is_that_for_other_nodes_unless_ours_is_set() {
        let of = |lines: &[&str]| {
            let command_line = lines.iter().map(|line| (*line).to_owned()).collect();
            let sources = Sources { command_line, ..Sources::default() };
            load(&sources).expect("a good configuration").internode()
        };
        assert_eq!(of(&[]), "127.0.0.1:8099");
        assert_eq!(of(&["handoff.port = 9000"]), "127.0.0.1:9000");
        assert_eq!(of(&["handoff.ip = ::", "handoff.port = 9000"]), "[::]:9000");
        assert_eq!(of(&["handoff.ip = 0.0.0.0"]), "0.0.0.0:8099");
        let ours = "listener.internode = 10.0.0.1:1";
        assert_eq!(of(&[ours, "handoff.ip = 0.0.0.0"]), "10.0.0.1:1");
    }

    #[test]
    fn errors_name_place_value_and_remedy() {
        let text = |line| from_line(line).expect_err("bad").to_string();
        assert_eq!(
            text("ring_size = 65"),
            "command line: `ring_size = 65`: wanted a power of two from 8 to 4096"
        );
        assert!(text("strage_backend = x").contains("did you mean `storage_backend`?"));
        assert!(text("nonsense").contains("is not of the form `key = value`"));
    }

    #[test]
    fn a_file_names_its_line_and_the_last_duplicate_wins() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("quoit.conf");
        let write = |text: &str| std::fs::write(&path, text).expect("a file");
        let sources = Sources { file: Some(path.clone()), ..Sources::default() };
        write("# comment\nring_size = 16\nring_size = 32\nsasl = off\n");
        let settings = load(&sources).expect("a good configuration");
        assert_eq!(settings.get("ring_size"), Some("32"));
        assert_eq!(settings.ignored.len(), 1);
        write("ring_size = 16\n\nobject.size.maximum = big\n");
        let fault = load(&sources).expect_err("bad").to_string();
        assert!(fault.contains("quoit.conf:3: `object.size.maximum = big`"), "{fault}");
    }
}
