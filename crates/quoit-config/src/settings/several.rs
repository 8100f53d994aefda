//! Several named storage engines of one node.

use super::{ConfigError, Settings, Storage};
use crate::keys::key_match::of_named_engine;
use std::collections::BTreeSet;

/// Largest number of engines of a node.
const COUNT_MAX: usize = 32;

/// Largest length of an engine's name in bytes. The name is also that of a directory.
const NAME_BYTES_MAX: usize = 64;

const KEYS: &str = "multi_backend.";
const KIND: &str = ".storage_backend";
const DEFAULT: &str = "multi_backend.default";
/// Names that are not allowed, because the directory of the engines or the converter uses them.
const TAKEN: [&str; 5] = ["ENGINE", "STORE", "ROUTES", "LOCK", "converting"];

/// One of several engines.
#[derive(Clone, Debug)]
pub struct NamedStorage {
    /// Its name.
    pub name: String,
    /// Type of the engine; never `Multi`.
    pub storage: Storage,
    /// The node's settings, with the engine's own settings in place of the general ones.
    pub settings: Settings,
}

impl Settings {
    /// The engines that buckets can choose, by name; empty unless the node has several engines.
    #[must_use]
    pub fn named_storages(&self) -> Vec<NamedStorage> {
        if self.storage() != Storage::Multi {
            return Vec::new();
        }
        let kinds = self.values.iter().filter_map(|(key, entry)| {
            let name = key.strip_prefix(KEYS)?.strip_suffix(KIND)?;
            Some((name, Storage::named(&entry.value)?))
        });
        kinds
            .map(|(name, storage)| NamedStorage {
                name: name.to_owned(),
                storage,
                settings: self.of_engine(name, storage),
            })
            .collect()
    }

    /// The name of the engine for buckets that choose none; empty unless the node has several engines.
    #[must_use]
    pub fn default_storage(&self) -> String {
        self.text(DEFAULT)
    }

    /// The settings of one of several engines.
    fn of_engine(&self, name: &str, storage: Storage) -> Self {
        let mut settings = self.clone();
        let own = self.values.iter().filter_map(|(key, entry)| {
            let (engine, key) = of_named_engine(key)?;
            (engine == name).then(|| (key.to_owned(), entry.clone()))
        });
        settings.values.extend(own);
        if let Some(entry) = settings.values.get_mut("storage_backend") {
            storage.name().clone_into(&mut entry.value);
        }
        settings
    }
}

/// Checks that the engines have valid names, and that the default is one of them.
pub(super) fn check(settings: &Settings) -> Result<(), ConfigError> {
    if settings.storage() != Storage::Multi {
        return Ok(());
    }
    let fault = |text: String| Err(ConfigError::SeveralEngines(text));
    let names: BTreeSet<String> =
        settings.named_storages().into_iter().map(|named| named.name).collect();
    if names.is_empty() {
        return fault(
            "no engine is named; set multi_backend.NAME.storage_backend = bitcask, for instance"
                .into(),
        );
    }
    if names.len() > COUNT_MAX {
        return fault(format!("{} engines are named; {COUNT_MAX} are possible", names.len()));
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if let Some(name) = names.iter().find(|name| TAKEN.contains(&name.as_str())) {
        return fault(format!(
            "`{name}` can't be an engine's name: the directory where engines have theirs has something of \
             its own under it; choose another one than {}",
            TAKEN.join(", ")
        ));
    }
    let is_bad = |name: &&String| name.len() > NAME_BYTES_MAX || !name.bytes().all(is_plain);
    if let Some(name) = names.iter().find(is_bad) {
        return fault(format!(
            "`{name}` can't be an engine's name; use up to {NAME_BYTES_MAX} letters, digits, _ and -"
        ));
    }
    let listed = || names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let default = settings.default_storage();
    if default.is_empty() {
        return fault(format!("{DEFAULT} is not set; set it to one of: {}", listed()));
    }
    if !names.contains(&default) {
        return fault(format!(
            "{DEFAULT} = {default} is not the name of an engine; set it to one of: {}",
            listed()
        ));
    }
    let set = settings.values.keys().filter_map(|key| of_named_engine(key));
    if let Some((name, key)) = set.into_iter().find(|(name, _)| !names.contains(*name)) {
        return fault(format!(
            "multi_backend.{name}.{key} is set, and multi_backend.{name}.storage_backend is not; the engines \
             are: {}",
            listed()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::{Sources, load};
    use super::*;

    fn settings(lines: &[&str]) -> Result<Settings, ConfigError> {
        let command_line = lines.iter().map(|line| (*line).to_owned()).collect();
        load(&Sources { command_line, ..Sources::default() })
    }

    #[test]
    fn engines_have_their_own_settings_before_those_of_the_node() {
        let settings = settings(&[
            "storage_backend = multi",
            "multi_backend.default = small",
            "multi_backend.small.storage_backend = leveldb",
            "multi_backend.large.storage_backend = leveldb",
            "multi_backend.large.leveldb.maximum_memory = 2GB",
            "leveldb.maximum_memory = 8MB",
            "leveldb.compression = off",
        ])
        .unwrap();
        let named = settings.named_storages();
        let told: Vec<_> = named
            .iter()
            .map(|named| {
                let own = &named.settings;
                let memory = own.size_bytes("leveldb.maximum_memory");
                (&*named.name, named.storage, memory, own.flag("leveldb.compression"))
            })
            .collect();
        let expected = [
            ("large", Storage::Leveldb, Some(2 << 30), false),
            ("small", Storage::Leveldb, Some(8 << 20), false),
        ];
        assert_eq!(told, expected);
        assert_eq!(named[0].settings.storage(), Storage::Leveldb);
        assert_eq!(settings.default_storage(), "small");
    }

    #[test]
    fn inconsistent_engine_settings_are_refused() {
        let cases: [(&[&str], &str); 6] = [
            (&[], "no engine is named"),
            (
                &["multi_backend.a.storage_backend = memory"],
                "multi_backend.default is not set; set it to one of: a",
            ),
            (
                &["multi_backend.a.storage_backend = memory", "multi_backend.default = b"],
                "multi_backend.default = b is not the name of an engine; set it to one of: a",
            ),
            (
                &[
                    "multi_backend.a.storage_backend = memory",
                    "multi_backend.default = a",
                    "multi_backend.b.bitcask.merge.policy = never",
                ],
                "multi_backend.b.storage_backend is not",
            ),
            (
                &["multi_backend.a/b.storage_backend = memory", "multi_backend.default = a/b"],
                "use up to 64 letters",
            ),
            (
                &[
                    "multi_backend.converting.storage_backend = memory",
                    "multi_backend.default = converting",
                ],
                "choose another one than ENGINE, STORE, ROUTES, LOCK, converting",
            ),
        ];
        for (lines, expected) in cases {
            let lines = [&["storage_backend = multi"], lines].concat();
            let text = settings(&lines).unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
        }
        let text = settings(&["multi_backend.a.storage_backend = multi"]).unwrap_err().to_string();
        assert!(text.contains("wanted one of bitcask"), "{text}");
    }

    #[test]
    fn names_without_several_engines_mean_nothing_and_stop_nothing() {
        let settings = settings(&["multi_backend.a.storage_backend = memory"]).unwrap();
        assert!(settings.named_storages().is_empty());
    }
}
