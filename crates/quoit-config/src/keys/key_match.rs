//! Lookup of names in a configuration: a key of Quoit, a key of Riak without effect, or a mistake.

use super::riak_keys::{is_riaks, riak_keys};
use super::{Key, keys};

/// Aliases of keys: (Riak's name, Quoit's name).
const ALIASES: &[(&str, &str)] =
    &[("log.console.level", "log.level"), ("logger.level", "log.level")];

/// Classification of a name in a configuration file.
pub enum KeyMatch {
    /// A key that has an effect.
    Key(&'static Key),
    /// A key of Riak that has no effect.
    RiakOnly,
    /// Not a key, with the most similar key if there is one.
    Unknown(Option<String>),
}

/// Looks a name up.
pub fn key_match(name: &str) -> KeyMatch {
    if let Some((_, here)) = ALIASES.iter().find(|(riak, _)| *riak == name) {
        return key_match(here);
    }
    if let Some(key) = keys().find(|key| KeyPattern(key.name).matches(name)) {
        return KeyMatch::Key(key);
    }
    if let Some((_, of_engine)) = of_named_engine(name) {
        return match key_match(of_engine) {
            KeyMatch::Unknown(_) => KeyMatch::Unknown(nearest(name)),
            known => known,
        };
    }
    if is_riaks(name) { KeyMatch::RiakOnly } else { KeyMatch::Unknown(nearest(name)) }
}

/// Prefixes of the keys that can be set for one of several engines.
const ENGINES: [&str; 5] = ["bitcask.", "leveldb.", "leveled.", "innostore.", "memory_backend."];

/// Splits a key `multi_backend.NAME.KEY` into the name of an engine and the key that is set for it.
pub(crate) fn of_named_engine(name: &str) -> Option<(&str, &str)> {
    let (engine, key) = name.strip_prefix("multi_backend.")?.split_once('.')?;
    let is_engines = ENGINES.iter().any(|start| key.starts_with(start));
    (!engine.is_empty() && is_engines).then_some((engine, key))
}

/// A key in which a part `$name` stands for a part that the user chooses.
#[derive(Clone, Copy)]
pub(super) struct KeyPattern<'a>(pub(super) &'a str);

impl KeyPattern<'_> {
    /// True if the pattern fits a key. `$name` fits any one part.
    pub(super) fn matches(self, name: &str) -> bool {
        let (mut wanted, mut given) = (self.0.split('.'), name.split('.'));
        loop {
            match (wanted.next(), given.next()) {
                (None, None) => return true,
                (Some("$name"), Some(part)) if !part.is_empty() => {}
                (Some(wanted), Some(given)) if wanted == given => {}
                _ => return false,
            }
        }
    }

    /// The pattern, with `$name` replaced by the part that the user has chosen in a key.
    fn with_chosen_part(self, name: &str) -> String {
        let mut given = name.split('.');
        let parts = self.0.split('.').map(|part| match (part, given.next()) {
            ("$name", Some(chosen)) if !chosen.is_empty() => chosen,
            (part, _) => part,
        });
        parts.collect::<Vec<_>>().join(".")
    }
}

/// The most similar key, including Riak's keys. For a setting of one of several engines, only the part
/// after the engine's name is compared. A part that the user chooses always matches.
fn nearest(name: &str) -> Option<String> {
    if let Some((engine, key)) =
        name.strip_prefix("multi_backend.").and_then(|rest| rest.split_once('.'))
        && let Some(near) = nearest_of(key, ENGINE_KEYS)
    {
        return Some(format!("multi_backend.{engine}.{near}"));
    }
    nearest_of(name, |_| true)
}

/// True if a key can be set for one of several engines.
const ENGINE_KEYS: fn(&str) -> bool =
    |key| key == "storage_backend" || ENGINES.iter().any(|start| key.starts_with(start));

fn nearest_of(name: &str, is_wanted: impl Fn(&str) -> bool) -> Option<String> {
    let all = keys().map(|key| key.name).chain(riak_keys().filter(|name| !name.ends_with('*')));
    let wanted = all.filter(|key| is_wanted(key));
    let filled = wanted.map(|key| KeyPattern(key).with_chosen_part(name));
    filled
        .map(|key| (strsim::damerau_levenshtein(&key, name), key))
        .min()
        .filter(|(distance, _)| *distance <= name.len() / 3 + 1)
        .map(|(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_has_its_keys_form() {
        for key in keys() {
            assert!(
                key.default.is_empty() || key.kind.accepts(key.default),
                "{} = {}",
                key.name,
                key.default
            );
        }
    }

    #[test]
    fn a_part_of_a_name_may_be_chosen() {
        assert!(matches!(key_match("listener.http.internal"), KeyMatch::Key(_)));
        assert!(matches!(key_match("listener.http"), KeyMatch::Unknown(_)));
    }

    #[test]
    fn engines_with_names_have_the_settings_of_their_kind() {
        let KeyMatch::Key(key) = key_match("multi_backend.fast.leveldb.compression") else {
            panic!("a setting of leveldb");
        };
        assert_eq!(key.name, "leveldb.compression");
        let ignored = key_match("multi_backend.fast.bitcask.data_root");
        assert!(matches!(ignored, KeyMatch::RiakOnly));
        for name in
            ["multi_backend.fast.ring_size", "multi_backend.fast", "multi_backend..bitcask.x"]
        {
            assert!(matches!(key_match(name), KeyMatch::Unknown(_)), "{name}");
        }
    }

    #[test]
    fn a_misspelt_key_is_told_the_right_one() {
        for (wrong, right) in [
            ("strage_backend", "storage_backend"),
            ("leveldb.maximum_memry", "leveldb.maximum_memory"),
            ("log.formt", "log.format"),
            ("handoff.inbond", "handoff.inbound"),
            ("anti_entropy.trigger_intervall", "anti_entropy.trigger_interval"),
            ("tictacaae_activ", "tictacaae_active"),
            ("listner.http.main", "listener.http.main"),
            (
                "multi_backend.fast.leveldb.maximum_memry",
                "multi_backend.fast.leveldb.maximum_memory",
            ),
            ("multi_backend.fast.strage_backend", "multi_backend.fast.storage_backend"),
            ("ttaaefs_scpe", "ttaaefs_scope"),
            ("cluster.job.riak_kv.list_keyz", "cluster.job.riak_kv.list_keys"),
        ] {
            let KeyMatch::Unknown(near) = key_match(wrong) else { panic!("{wrong} is no key") };
            assert_eq!(near.as_deref(), Some(right), "{wrong}");
        }
    }

    #[test]
    fn keys_of_riak_without_a_meaning_are_known() {
        for name in ["anti_entropy.tree.expiry", "erlang.max_ports", "tictacaae_rangeboost", "sasl"]
        {
            assert!(matches!(key_match(name), KeyMatch::RiakOnly), "{name}");
        }
    }
}
