//! What a name in a configuration means: a key of ours, one of Riak's without effect, or a mistake.

use super::keys::{Key, keys};

/// Keys of Riak that have no meaning here: accepted, listed once when the node starts. `*` at the end
/// stands for any further text.
pub const IGNORED: &[&str] = &[
    "aae_*",
    "anti_entropy.*",
    "background_manager",
    "backend_pause_ms",
    "bitcask.data_root",
    "bitcask.expiry.grace_time",
    "bitcask.fold.*",
    "bitcask.hintfile_checksums",
    "bitcask.io_mode",
    "bitcask.max_merge_size",
    "bitcask.open_timeout",
    "buckets.default.postcommit",
    "buckets.default.precommit",
    "check_crl",
    "choose_claim_fun",
    "cluster.job.*",
    "conditional_put_mode",
    "cs_version",
    "datatypes.compression_level",
    "distributed_cookie",
    "dollarkey_readtombs",
    "dtrace",
    "eraser_*",
    "erlang.*",
    "full_rebalance_onleave",
    "handoff.*",
    "handoff_*",
    "honor_cipher_order",
    "javascript.*",
    "jmx",
    "legacyformat_tictacaae_tree",
    "leveldb.*",
    "leveled.*",
    "leveled_reload_recalc",
    "listener.https.*",
    "log.*",
    "log_index_fsm",
    "logger.*",
    "mbox_check_enabled",
    "mdc.*",
    "metadata_cache_size",
    "node_worker_pool_size",
    "object.format",
    "participate_in_coverage",
    "platform_bin_dir",
    "platform_etc_dir",
    "platform_lib_dir",
    "platform_log_dir",
    "protobuf.keepalive",
    "protobuf.nagle",
    "read_repair_*",
    "reader_*",
    "reaper_*",
    "repl_*",
    "replrtq_*",
    "retry_put_coordinator_failure",
    "riak_control",
    "riak_control.*",
    "ring.state_dir",
    "runtime_health.*",
    "sasl",
    "search",
    "search.*",
    "secondary_index_json",
    "ssl.*",
    "strong_consistency",
    "target_location_n_val",
    "target_n_val",
    "tictacaae_*",
    "tls_protocols.*",
    "token_request_mode",
    "tombstone_pause",
    "ttaaefs_*",
    "vnode_*",
    "worker_pool_strategy",
    "worker_pool_size",
    "af1_worker_pool_size",
    "af2_worker_pool_size",
    "af3_worker_pool_size",
    "af4_worker_pool_size",
    "be_worker_pool_size",
];

/// Other names of keys: (name of Riak, name here).
const ALIASES: &[(&str, &str)] =
    &[("log.console.level", "log.level"), ("logger.level", "log.level")];

/// What a name in a configuration file means.
pub enum Meaning {
    /// A key that has an effect.
    Key(&'static Key),
    /// A key of Riak that has none.
    Ignored,
    /// No key; perhaps this one was meant.
    Unknown(Option<&'static str>),
}

/// Looks a name up.
pub fn meaning(name: &str) -> Meaning {
    if let Some((_, here)) = ALIASES.iter().find(|(riak, _)| *riak == name) {
        return meaning(here);
    }
    if let Some(key) = keys().find(|key| matches(key.name, name)) {
        return Meaning::Key(key);
    }
    if let Some((_, of_engine)) = of_named_engine(name) {
        return meaning(of_engine);
    }
    let ignored = IGNORED.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => *pattern == name,
    });
    if ignored { Meaning::Ignored } else { Meaning::Unknown(nearest(name)) }
}

/// Starts of the keys that may be set for one of several engines.
const ENGINES: [&str; 5] = ["bitcask.", "leveldb.", "leveled.", "innostore.", "memory_backend."];

/// The name of an engine and the key that is set for it, of a key `multi_backend.NAME.KEY`.
pub(super) fn of_named_engine(name: &str) -> Option<(&str, &str)> {
    let (engine, key) = name.strip_prefix("multi_backend.")?.split_once('.')?;
    let is_engines = ENGINES.iter().any(|start| key.starts_with(start));
    (!engine.is_empty() && is_engines).then_some((engine, key))
}

/// Whether `name` has the parts of `pattern`, where `$name` is any one part.
fn matches(pattern: &str, name: &str) -> bool {
    let (mut wanted, mut given) = (pattern.split('.'), name.split('.'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some("$name"), Some(part)) if !part.is_empty() => {}
            (Some(wanted), Some(given)) if wanted == given => {}
            _ => return false,
        }
    }
}

fn nearest(name: &str) -> Option<&'static str> {
    keys()
        .map(|key| (strsim::damerau_levenshtein(key.name, name), key.name))
        .min()
        .filter(|(distance, _)| *distance <= name.len() / 3 + 1)
        .map(|(_, name)| name)
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
        assert!(matches!(meaning("listener.http.internal"), Meaning::Key(_)));
        assert!(matches!(meaning("listener.http"), Meaning::Unknown(_)));
    }

    #[test]
    fn engines_with_names_have_the_settings_of_their_kind() {
        let Meaning::Key(key) = meaning("multi_backend.fast.leveldb.compression") else {
            panic!("a setting of leveldb");
        };
        assert_eq!(key.name, "leveldb.compression");
        let ignored = meaning("multi_backend.fast.bitcask.data_root");
        assert!(matches!(ignored, Meaning::Ignored));
        for name in
            ["multi_backend.fast.ring_size", "multi_backend.fast", "multi_backend..bitcask.x"]
        {
            assert!(matches!(meaning(name), Meaning::Unknown(_)), "{name}");
        }
    }

    #[test]
    fn a_misspelt_key_is_told_the_right_one() {
        let Meaning::Unknown(Some(near)) = meaning("strage_backend") else {
            panic!("a name that is no key");
        };
        assert_eq!(near, "storage_backend");
    }

    #[test]
    fn keys_of_riak_without_a_meaning_are_known() {
        for name in ["anti_entropy.tree.expiry", "erlang.max_ports", "ttaaefs_scope", "sasl"] {
            assert!(matches!(meaning(name), Meaning::Ignored), "{name}");
        }
    }
}
