//! Settings of Riak that no node reports over the network. They are read from Riak's configuration files.

use crate::advanced_config::advanced_settings;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name of the second configuration file, in the directory of riak.conf.
const ADVANCED_FILE: &str = "advanced.config";

/// Settings of one node of Riak.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct RiakConf {
    /// The settings by name. Those of advanced.config have the names that they have there, without the
    /// application.
    settings: BTreeMap<String, String>,
}

impl RiakConf {
    /// Reads a riak.conf, and an advanced.config: the given one, or the one in the same directory if it
    /// exists.
    pub(super) fn read(conf: &Path, advanced: Option<&Path>) -> Result<Self> {
        let read =
            |path: &Path| std::fs::read_to_string(path).with_context(|| path.display().to_string());
        let beside = conf.with_file_name(ADVANCED_FILE);
        let advanced = advanced.map(Path::to_owned);
        let advanced: Option<PathBuf> = advanced.or_else(|| beside.is_file().then_some(beside));
        let advanced = advanced.as_deref().map(read).transpose()?;
        let settings = Self::of(&read(conf)?);
        match advanced {
            Some(advanced) => settings.with_advanced(&advanced),
            None => Ok(settings),
        }
    }

    /// The settings in the text of a riak.conf.
    pub(super) fn of(conf: &str) -> Self {
        let mut settings = BTreeMap::new();
        for line in conf.lines() {
            let line = line.split('#').next().unwrap_or_default();
            if let Some((key, value)) = line.split_once('=') {
                settings.insert(key.trim().to_owned(), value.trim().to_owned());
            }
        }
        Self { settings }
    }

    /// Adds the settings in the text of an advanced.config.
    fn with_advanced(mut self, advanced: &str) -> Result<Self> {
        for setting in advanced_settings(advanced)? {
            self.settings.insert(setting.key, setting.value);
        }
        Ok(self)
    }

    /// The value of a setting.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(String::as_str)
    }

    /// The delete mode, or Riak's default if it is not set.
    pub(super) fn delete_mode(&self) -> &str {
        self.get("delete_mode").unwrap_or("3000")
    }

    /// True if reaps are sent to other clusters.
    pub(super) fn sends_reaps(&self) -> bool {
        self.get("repl_reap").is_some_and(|value| ["enabled", "on", "true"].contains(&value))
    }

    /// The settings by which an engine expires old records, as `name = value`.
    pub(super) fn expiry(&self) -> Vec<String> {
        let is_expiry = |key: &str| {
            let engines = ["bitcask.expiry", "leveldb.expiration", "memory_backend.ttl"];
            let is_one = |name: &str| key == name || key.ends_with(&format!(".{name}"));
            engines.into_iter().any(is_one) || key == "expiry_secs" || key == "ttl"
        };
        let is_on = |value: &str| !["off", "-1", "0", "unlimited", "disabled"].contains(&value);
        let found = self.settings.iter();
        found
            .filter(|(key, value)| is_expiry(key) && is_on(value))
            .map(|(key, value)| format!("{key} = {value}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_to_remove_tombstones_and_advanced_config_wins() {
        let conf = RiakConf::of("ring_size = 64\n");
        assert_eq!(conf.delete_mode(), "3000");
        let advanced = "[{riak_kv, [{delete_mode, keep}]}].";
        let conf =
            RiakConf::of("# delete_mode = 7\nring_size = 64 # words\n").with_advanced(advanced);
        let conf = conf.expect("settings");
        assert_eq!((conf.delete_mode(), conf.get("ring_size")), ("keep", Some("64")));
    }

    #[test]
    fn expiry_of_any_engine_is_found_and_off_is_off() {
        let text = "bitcask.expiry = off\nmulti_backend.a.bitcask.expiry = 1d\n\
            leveldb.expiration = on\nmemory_backend.ttl = 10s\n";
        let advanced = "[{bitcask, [{expiry_secs, -1}]}].";
        let found = RiakConf::of(text).with_advanced(advanced).expect("settings");
        let expected = [
            "leveldb.expiration = on",
            "memory_backend.ttl = 10s",
            "multi_backend.a.bitcask.expiry = 1d",
        ];
        assert_eq!(found.expiry(), expected);
    }
}
