//! The keys that a configuration may have, and the warnings about keys without effect.

use super::error::ConfigError;
use super::settings::Settings;
use crate::names::nearest;
use crate::term::Term;

/// Keys that the run or a driver reads, and keys of drivers that are not offered here. A file that several
/// programs share may hold the latter.
const KEYS: &[&str] = &[
    "mode",
    "verify",
    "expect",
    "abort_early",
    "watch",
    "events",
    "trace",
    "trace_speed",
    "session",
    "warmup",
    "duration",
    "concurrent",
    "driver",
    "operations",
    "key_generator",
    "value_generator",
    "report_interval",
    "rng_seed",
    "rng",
    "log_level",
    "shutdown_on_error",
    "test_dir",
    "stats",
    "value_generator_source_size",
    "value_generator_blob_file",
    "client_threads",
    "test_id",
    "code_paths",
    "source_dir",
    "pre_hook",
    "post_hook",
    "measurement_driver",
    "measurements",
    "agents",
    "distribute_work",
    "remote_nodes",
    "app_run_mode",
    "sequential_int_state_dir",
    "disable_sequential_int_progress_report",
    "http_raw_ips",
    "http_raw_port",
    "http_raw_path",
    "http_raw_params",
    "http_raw_request_timeout",
    "http_raw_append_headers",
    "http_raw_disconnect_frequency",
    "http_use_ssl",
    "http_solr_path",
    "http_search_generator",
    "file_dir",
    "riakc_pb_ips",
    "riakc_pb_port",
    "riakc_pb_replies",
    "riakc_pb_r",
    "riakc_pb_w",
    "riakc_pb_dw",
    "riakc_pb_rw",
    "riakc_pb_pr",
    "riakc_pb_pw",
    "riakc_pb_bucket",
    "riakc_pb_content_type",
    "riakc_pb_replica_aware",
    "riakc_pb_repeat_overload",
    "riakc_pb_keylist_length",
    "riakc_pb_preloaded_keys",
    "secondary_indexes",
    "riakc_pb_search_queries",
    "query_step_interval",
    "pb_connect_options",
    "pb_timeout_general",
    "pb_timeout_read",
    "pb_timeout_write",
    "pb_timeout_listkeys",
    "pb_timeout_mapreduce",
    "pb_ips",
    "pb_port",
    "replpb_ips",
    "http_ips",
    "http_port",
    "http_timeout_general",
    "fold_timeout_general",
    "node_name",
    "alwaysget",
    "unique",
    "record_bucket",
    "document_bucket",
    "record_sync",
    "document_sync",
    "node_confirms",
    "postcode_indexcount",
    "enforce_keyrange",
    "generators",
    "values",
    "headers",
    "targets",
    "http_disconnect_frequency",
    "http_request_timeout",
    "http_append_headers",
    "riakc_dt_bucket",
    "riakc_dt_ips",
    "riakc_dt_port",
    "riakc_dt_pb_ips",
    "riakc_dt_pb_port",
    "riakc_dt_pb_bucket",
    "riakc_dt_pb_sets_batchsize",
    "riakc_dt_preload_sets",
    "riakc_dt_preload_sets_num",
    "riakc_dt_max_vals_for_preload",
    "riakc_dt_run_one_set",
    "riakc_dt_run_one_map",
    "riakc_dt_map_multi_ops",
    "riakclient_nodes",
    "riakclient_cookie",
    "riakclient_pb_port",
    "riakclient_bucket",
    "riakclient_mynode",
    "riakclient_replies",
    "be_backend_mod",
    "be_config",
    "be_disable_uses_r_object",
    "bitcask_dir",
    "bitcask_flags",
    "bitcask_sync_interval",
    "engine_sync",
    "innostore_dir",
    "leveled_dir",
    "bucket_name",
    "cookie",
    "dets_file",
    "eleveldb_config",
    "eleveldb_dir",
    "eleveldb_num_instances",
    "innostore_bucket",
    "innostore_config",
    "memcached_default_port",
    "memcached_ips",
    "memcached_timeout",
    "mynode",
    "nodes",
    "redis_ips",
    "redis_port",
    "redis_timeout",
    "retries",
    "retry_delay",
    "shortcut_backend",
    "shortcut_backend_flags",
    "shortcut_bucket",
    "shortcut_data_dir",
    "shortcut_n_val",
    "shortcut_ring_creation_size",
    "shortcut_store_riak_object",
];

/// Keys that have an effect in basho_bench but not here, each with the warning for a file that sets it.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("measurement_driver", "measurements of other processes are not taken"),
    ("measurements", "measurements of other processes are not taken"),
    ("riakc_pb_search_queries", "the driver has no search operations"),
];

/// True for a value that requests nothing: `false`, `undefined`, `none`, an empty list or an empty text.
fn asks_nothing(value: &Term) -> bool {
    match value {
        Term::Atom(name) => matches!(name.as_str(), "false" | "undefined" | "none"),
        other => other.as_list().is_some_and(|elements| elements.is_empty()),
    }
}

/// Endings of keys that determine the servers and buckets that a driver uses.
const TARGET_KEY_SUFFIXES: [&str; 4] = ["_ips", "_port", "_bucket", "_hosts"];

/// Keys of other versions' drivers that change which requests are sent.
const KEYS_OF_REQUESTS: [&str; 1] = ["crdts"];

/// Known keys that change the load if they are misspelt, besides the keys with [`TARGET_KEY_SUFFIXES`].
const KEYS_OF_LOADS: [&str; 7] = [
    "driver",
    "operations",
    "key_generator",
    "value_generator",
    "http_raw_path",
    "http_raw_params",
    "riakclient_nodes",
];

/// Largest edit distance, in letters, between a misspelt key and the known key that it stands for.
const MISSPELT_LETTERS_MAX: usize = 2;

/// The ending of a key that determines the target of the load. `_hosts` counts as `_ips`, its synonym.
fn ending_of_place(key: &str) -> Option<&'static str> {
    let ending = TARGET_KEY_SUFFIXES.into_iter().find(|ending| key.ends_with(ending))?;
    Some(if ending == "_hosts" { "_ips" } else { ending })
}

/// True for a key that must not be ignored, because the load would go to other servers or send other
/// requests.
fn changes_the_load(key: &str) -> bool {
    KEYS_OF_REQUESTS.contains(&key) || ending_of_place(key).is_some()
}

/// The known key that decides the load and that an unknown key misspells.
fn misspelt(key: &str) -> Option<&'static str> {
    let key = key.to_ascii_lowercase();
    let known = KEYS
        .iter()
        .filter(|known| changes_the_load(known) || KEYS_OF_LOADS.contains(known))
        .map(|known| (strsim::damerau_levenshtein(&key, known), *known));
    let (letters, known) = known.min()?;
    (letters <= MISSPELT_LETTERS_MAX).then_some(known)
}

/// The known key that an unknown key most likely means. A key with an ending of a place is only matched
/// with keys of the same ending.
fn meant(key: &str) -> Option<&'static str> {
    let Some(ending) = ending_of_place(key) else { return nearest(key, KEYS) };
    let known: Vec<&'static str> =
        KEYS.iter().copied().filter(|known| known.ends_with(ending)).collect();
    let key = match key.strip_suffix("_hosts") {
        Some(start) => format!("{start}_ips"),
        None => key.to_owned(),
    };
    nearest(&key, &known)
}

/// One warning for each key that is unknown or has no effect.
///
/// # Errors
///
/// When an unknown key names servers, a port, a bucket or the requests to send, or misspells a key that
/// does. If it were ignored, the run would measure something else.
pub(super) fn warnings(settings: &Settings) -> Result<Vec<String>, ConfigError> {
    let mut warnings = Vec::new();
    for (key, place) in settings.keys() {
        if let Some((_, effect)) = WITHOUT_EFFECT.iter().find(|(known, _)| *known == key) {
            if !settings.get(key).is_some_and(asks_nothing) {
                warnings.push(format!("{place}{key} has no effect: {effect}"));
            }
        } else if !KEYS.contains(&key) {
            let misspelt = misspelt(key);
            let hint = match misspelt.or_else(|| meant(key)) {
                Some(name) => format!(": did you mean `{name}`?"),
                None => String::new(),
            };
            if misspelt.is_some() || changes_the_load(key) {
                return Err(ConfigError::UnknownKey { place, key: key.to_owned(), hint });
            }
            warnings.push(format!("{place}the key `{key}` is not known and is ignored{hint}"));
        }
    }
    Ok(warnings)
}

/// Warnings about keys of servers, ports and buckets that the driver has not read. A key only gets a
/// warning if the driver read no key with the same ending: the load then goes to the driver's defaults,
/// which the author of such a key hardly intended.
pub(crate) fn unread_target_keys(settings: &Settings, driver: &str) -> Vec<String> {
    let of_places = || settings.keys().filter(|(key, _)| ending_of_place(key).is_some());
    let is_read = |ending| {
        let mut same = of_places().filter(|(key, _)| ending_of_place(key) == Some(ending));
        same.any(|(key, _)| settings.was_read(key))
    };
    let unread = of_places().filter(|(key, _)| ending_of_place(key).is_some_and(|it| !is_read(it)));
    unread
        .map(|(key, place)| {
            format!("{place}{key} is a key of other drivers: {driver} does not read it")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        let mut settings = Settings::default();
        settings.add("a.config".as_ref(), text.as_bytes()).expect("terms");
        warnings(&settings).expect_err(text).to_string()
    }

    #[test]
    fn every_key_is_listed_once() {
        let distinct: std::collections::BTreeSet<_> = KEYS.iter().collect();
        assert_eq!(distinct.len(), KEYS.len());
    }

    #[test]
    fn an_unknown_key_that_decides_where_the_load_goes_is_an_error() {
        let told = error("{mode, max}.\n{http_raw_ip_ips, [\"10.0.0.1\"]}.");
        let expected = "a.config:2:2: the key `http_raw_ip_ips` is not known";
        assert!(
            told.starts_with(expected) && told.contains("did you mean `http_raw_ips`?"),
            "{told}"
        );
        for key in ["riakc_pb_prt_port", "some_bucket", "http_hosts", "crdts"] {
            assert!(error(&format!("{{{key}, [1]}}.")).contains(key));
        }
        // The suggestion is right even if the ending is misspelt, and never a key of another kind.
        for (key, meant) in [
            ("riakc_pb_ip", Some("riakc_pb_ips")),
            ("riakc_pb_prot", Some("riakc_pb_port")),
            ("riakc_pb_buckt", Some("riakc_pb_bucket")),
            ("'HTTP_RAW_IPS'", Some("http_raw_ips")),
            ("http_raw_pth", Some("http_raw_path")),
            ("operation", Some("operations")),
            ("http_hosts", Some("http_ips")),
            ("cassandra_port", None),
        ] {
            let told = error(&format!("{{{key}, [1]}}."));
            match meant {
                Some(meant) => {
                    assert!(told.contains(&format!("did you mean `{meant}`?")), "{told}")
                }
                None => assert!(!told.contains("did you mean"), "{told}"),
            }
        }
    }
}
