//! Keys of Riak 1.4 to 3.4 that have no effect here. They are accepted so that a riak.conf starts a node.
//!
//! A part `$name` of a name stands for any one part. A name that ends in `.*` stands for a family in which
//! Quoit has no key of its own, so that a misspelt name in it can't hide a setting.

use super::key_match::KeyPattern;

/// Keys whose absence does not change any behaviour that users rely on.
const WITHOUT_PROMISE: &[&str] = &[
    "aae_fetchclocks_repair",
    "aae_tokenbucket",
    "af1_worker_pool_size",
    "af2_worker_pool_size",
    "af3_worker_pool_size",
    "af4_worker_pool_size",
    "anti_entropy.bloomfilter",
    "anti_entropy.data_dir",
    "anti_entropy.max_open_files",
    "anti_entropy.throttle",
    "anti_entropy.throttle.$name.delay",
    "anti_entropy.throttle.$name.mailbox_size",
    "anti_entropy.tree.build_limit.number",
    "anti_entropy.tree.build_limit.per_timespan",
    "anti_entropy.tree.expiry",
    "anti_entropy.use_background_manager",
    "anti_entropy.write_buffer_size",
    "async.enable.$name",
    "background_manager",
    "backend_pause_ms",
    "be_worker_pool_size",
    "bitcask.expiry.grace_time",
    "bitcask.fold.max_age",
    "bitcask.fold.max_puts",
    "bitcask.hintfile_checksums",
    "bitcask.io_mode",
    "bitcask.max_merge_size",
    "bitcask.open_timeout",
    "choose_claim_fun",
    "cluster.job.yokozuna.query",
    "conditional_put_mode",
    "cs_version",
    "datatypes.compression_level",
    "dollarkey_readtombs",
    "dtrace",
    "eraser_dataroot",
    "eraser_overflow_limit",
    "erlang.*",
    "forced_ownership_handoff",
    "full_rebalance_onleave",
    "handoff.max_rejects",
    "handoff.use_background_manager",
    "handoff_acksync_threshold",
    "handoff_batch_threshold_count",
    "handoff_deletes",
    "handoff_receive_timeout",
    "handoff_receive_vnode_timeout",
    "handoff_timeout",
    "javascript.*",
    "jmx",
    "legacyformat_tictacaae_tree",
    "leveldb.block.restart_interval",
    "leveldb.block.size_steps",
    "leveldb.block_cache_threshold",
    "leveldb.bloomfilter",
    "leveldb.cache_object_warming",
    "leveldb.compaction.trigger.tombstone_count",
    "leveldb.compression.algorithm",
    "leveldb.expiration.mode",
    "leveldb.expiration.retention_time",
    "leveldb.fadvise_willneed",
    "leveldb.limited_developer_mem",
    "leveldb.sync_on_write",
    "leveldb.threads",
    "leveldb.tiered.mounts.fast",
    "leveldb.tiered.mounts.slow",
    "leveldb.tiered.path.fast",
    "leveldb.tiered.path.slow",
    "leveldb.verify_checksums",
    "leveldb.verify_compaction",
    "leveldb.write_buffer_size",
    "leveldb.write_buffer_size_min",
    "leveled.cache_multiple",
    "leveled.cache_size",
    "leveled.compaction_low_hour",
    "leveled.compaction_runs_perday",
    "leveled.compaction_scores_perday",
    "leveled.compaction_top_hour",
    "leveled.compression_level",
    "leveled.compression_point",
    "leveled.journal_objectcount",
    "leveled.journal_size",
    "leveled.ledger_compression",
    "leveled.ledger_pagecachelevel",
    "leveled.log_level",
    "leveled.max_run_length",
    "leveled.maxrunlength_compactionpercentage",
    "leveled.penciller_cache_size",
    "leveled.singlefile_compactionpercentage",
    "leveled.snapshot_timeout_long",
    "leveled.snapshot_timeout_short",
    "leveled.stats_logfrequency",
    "leveled.stats_percentage",
    "leveled.sync_strategy",
    "leveled_reload_recalc",
    "log.console",
    "log.console.file",
    "log.crash",
    "log.crash.file",
    "log.crash.maximum_message_size",
    "log.crash.rotation",
    "log.crash.rotation.keep",
    "log.crash.size",
    "log.error.file",
    "log.error.messages_per_second",
    "log.error.redirect",
    "log.syslog.facility",
    "log.syslog.ident",
    "log.syslog.level",
    "log_index_fsm",
    "logger.file",
    "logger.format",
    "logger.max_file_size",
    "logger.max_files",
    "mbox_check_enabled",
    "mdc.*",
    "metadata.format",
    "metadata_cache_size",
    "node_worker_pool_size",
    "object.format",
    "platform_bin_dir",
    "platform_etc_dir",
    "platform_lib_dir",
    "platform_log_dir",
    "protobuf.keepalive",
    "protobuf.nagle",
    "read_repair_log",
    "read_repair_primaryonly",
    "reader_dataroot",
    "reader_overflow_limit",
    "reaper_dataroot",
    "reaper_overflow_limit",
    "repair_deferred",
    "repair_span",
    "replrtq_srcqueuelimit",
    "retry_put_coordinator_failure",
    "riak_control.*",
    "ring.state_dir",
    "runtime_health.thresholds.busy_ports",
    "runtime_health.thresholds.busy_processes",
    "runtime_health.triggers.distribution_port",
    "runtime_health.triggers.port",
    "runtime_health.triggers.process.garbage_collection",
    "runtime_health.triggers.process.heap_size",
    "runtime_health.triggers.process.long_schedule",
    "sasl",
    "search.*",
    "secondary_index_json",
    "syslogger.facility",
    "syslogger.format",
    "syslogger.level",
    "target_location_n_val",
    "target_n_val",
    "tictacaae_backendcompression",
    "tictacaae_backendloglevel",
    "tictacaae_dataroot",
    "tictacaae_exchangetick",
    "tictacaae_loglevel",
    "tictacaae_maxresults",
    "tictacaae_parallelstore",
    "tictacaae_primaryonly",
    "tictacaae_rangeboost",
    "tictacaae_rebuild_blocktime",
    "tictacaae_rebuilddelay",
    "tictacaae_rebuildtick",
    "tictacaae_rebuildwait",
    "tictacaae_repairloops",
    "tictacaae_storeheads",
    "token_request_mode",
    "tombstone_pause",
    "ttaaefs_buckettype",
    "vnode_check_interval",
    "vnode_check_request_interval",
    "vnode_inactivity_timeout",
    "vnode_management_timer",
    "vnode_overload_threshold",
    "vnode_parallel_start",
    "vnode_rolling_start",
    "worker_pool_size",
    "worker_pool_strategy",
];

/// A key of Riak whose effect Quoit lacks.
#[derive(Debug)]
struct UnsupportedSetting {
    name: &'static str,
    /// The value in the riak.conf of a fresh installation, which the user has not chosen.
    shipped_value: &'static str,
    broken: &'static str,
}

const OTHER_CERTIFICATES: &str =
    "nodes get their certificates by internode.tls, not from files: see docs/secure-a-cluster.md";
const NO_HOOKS: &str = "commit hooks are not run";
const OTHER_DIRECTORY: &str = "data lie below platform_data_dir, not there";
const NO_SYSLOG: &str = "log lines go to standard error, not to syslog";

/// Keys that cause a warning when they are set.
const UNSUPPORTED_SETTINGS: &[UnsupportedSetting] = &[
    UnsupportedSetting { name: "bitcask.data_root", shipped_value: "", broken: OTHER_DIRECTORY },
    UnsupportedSetting { name: "buckets.default.postcommit", shipped_value: "", broken: NO_HOOKS },
    UnsupportedSetting { name: "buckets.default.precommit", shipped_value: "", broken: NO_HOOKS },
    UnsupportedSetting {
        name: "distributed_cookie",
        shipped_value: "riak",
        broken: "with internode.tls = both or required a node gets its certificate by it, if it has 128 bits \
                 and is no default; it keeps nobody out otherwise: keep listener.internode inside the \
                 network of the cluster",
    },
    UnsupportedSetting {
        name: "handoff.ssl.certfile",
        shipped_value: "",
        broken: OTHER_CERTIFICATES,
    },
    UnsupportedSetting {
        name: "handoff.ssl.keyfile",
        shipped_value: "",
        broken: OTHER_CERTIFICATES,
    },
    UnsupportedSetting {
        name: "leveldb.expiration",
        shipped_value: "off",
        broken: "records of leveldb do not expire by it: give buckets the property ttl",
    },
    UnsupportedSetting { name: "leveldb.data_root", shipped_value: "", broken: OTHER_DIRECTORY },
    UnsupportedSetting {
        name: "leveldb.maximum_memory.percent",
        shipped_value: "70",
        broken: "leveldb's memory is leveldb.maximum_memory, not a part of the machine's",
    },
    UnsupportedSetting {
        name: "leveldb.tiered",
        shipped_value: "off",
        broken: "all tables of leveldb lie below platform_data_dir",
    },
    UnsupportedSetting { name: "leveled.data_root", shipped_value: "", broken: OTHER_DIRECTORY },
    UnsupportedSetting { name: "log.syslog", shipped_value: "off", broken: NO_SYSLOG },
    UnsupportedSetting {
        name: "participate_in_coverage",
        shipped_value: "enabled",
        broken: "the node takes part in listings and index queries all the same",
    },
    UnsupportedSetting {
        name: "riak_control",
        shipped_value: "off",
        broken: "there is no Riak Control",
    },
    UnsupportedSetting { name: "search", shipped_value: "off", broken: "there is no search" },
    UnsupportedSetting {
        name: "strong_consistency",
        shipped_value: "off",
        broken: "there are no strongly consistent buckets: see docs/design/conditional-writes.md",
    },
    UnsupportedSetting { name: "syslogger.enabled", shipped_value: "off", broken: NO_SYSLOG },
];

/// Values that switch a feature off, so that no effect is missing.
const OFF: [&str; 6] = ["off", "disabled", "false", "no", "none", "unlimited"];

/// All names, sorted within each of the two lists.
pub fn riak_keys() -> impl Iterator<Item = &'static str> {
    WITHOUT_PROMISE.iter().copied().chain(UNSUPPORTED_SETTINGS.iter().map(|promise| promise.name))
}

/// True if Riak has a key with this name that has no effect here.
pub(super) fn is_riaks(name: &str) -> bool {
    riak_keys().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => KeyPattern(pattern).matches(name),
    })
}

/// A key and the value that is set for it.
#[derive(Clone, Copy, Debug)]
pub struct KeyValue<'a> {
    /// The key.
    pub key: &'a str,
    /// Its value as text.
    pub value: &'a str,
}

/// The effect of a setting that Quoit lacks, as text. `None` if no effect is missing, for example because
/// the value switches the feature off or is the one of a fresh installation.
#[must_use]
pub fn unsupported_effect(setting: KeyValue<'_>) -> Option<&'static str> {
    let KeyValue { key, value } = setting;
    let promise =
        UNSUPPORTED_SETTINGS.iter().find(|promise| KeyPattern(promise.name).matches(key))?;
    let is_chosen = !OFF.contains(&value)
        && value != promise.shipped_value
        // The directories in the riak.conf of a fresh installation are given by these variables.
        && !value.starts_with("$(platform_");
    is_chosen.then_some(promise.broken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyMatch, key_match, keys};

    #[test]
    fn no_key_of_riak_without_effect_is_one_that_has_an_effect() {
        for key in keys() {
            assert!(!is_riaks(key.name), "{} has an effect", key.name);
        }
        for name in riak_keys() {
            let said = key_match(name);
            assert!(matches!(said, KeyMatch::RiakOnly), "{name}");
        }
    }

    #[test]
    fn a_promise_is_broken_by_a_value_that_somebody_chose() {
        let broken = |key, value| unsupported_effect(KeyValue { key, value });
        assert_eq!(broken("log.syslog", "on"), Some(NO_SYSLOG));
        assert!(broken("handoff.ssl.certfile", "/cert.pem").is_some());
        for (key, value) in [
            ("log.syslog", "off"),
            ("distributed_cookie", "riak"),
            ("bitcask.data_root", "$(platform_data_dir)/bitcask"),
            ("erlang.async_threads", "64"),
        ] {
            assert_eq!(broken(key, value), None, "{key} = {value}");
        }
    }
}
