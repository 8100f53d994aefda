//! A riak.conf as Riak's packages install it starts a node without a warning.
use quoit_config::{parse_text, settings_of};

/// Settings of the riak.conf that Riak 2.0 to 2.9 installs.
const SECOND: &str = "
log.console = file
log.console.level = info
log.console.file = $(platform_log_dir)/console.log
log.error.file = $(platform_log_dir)/error.log
log.syslog = off
log.crash = on
log.crash.file = $(platform_log_dir)/crash.log
log.crash.maximum_message_size = 64KB
log.crash.size = 10MB
log.crash.rotation = $D0
log.crash.rotation.keep = 5
nodename = riak@127.0.0.1
distributed_cookie = riak
erlang.async_threads = 64
erlang.max_ports = 65536
erlang.schedulers.force_wakeup_interval = 500
erlang.schedulers.compaction_of_load = false
dtrace = off
platform_bin_dir = /usr/sbin
platform_data_dir = /var/lib/riak
platform_etc_dir = /etc/riak
platform_lib_dir = /usr/lib/riak/lib
platform_log_dir = /var/log/riak
listener.http.internal = 127.0.0.1:8098
listener.protobuf.internal = 127.0.0.1:8087
anti_entropy = active
storage_backend = bitcask
object.format = 1
object.size.warning_threshold = 5MB
object.size.maximum = 50MB
object.siblings.warning_threshold = 25
object.siblings.maximum = 100
bitcask.data_root = $(platform_data_dir)/bitcask
bitcask.io_mode = erlang
riak_control = off
riak_control.auth.mode = off
riak_control.auth.user.admin.password = pass
leveldb.maximum_memory.percent = 70
search = off
search.solr.start_timeout = 30s
search.solr.port = 8093
search.solr.jmx_port = 8985
search.solr.jvm_options = -d64 -Xms1g -Xmx1g -XX:+UseStringCache -XX:+UseCompressedOops
cluster.job.riak_kv.map_reduce = enabled
mdc.data_root = $(platform_data_dir)/riak_repl
mdc.cluster_manager = 127.0.0.1:9080
mdc.fullsync_on_connect = true
";

/// Settings that the riak.conf of Riak 3.0 to 3.4 has in addition to these or instead of them.
const THIRD: &str = "
logger.level = info
logger.file = $(platform_log_dir)/console.log
logger.max_files = 10
logger.max_file_size = 1MB
syslogger.enabled = off
syslogger.level = notice
nodename = riak@127.0.0.1
distributed_cookie = riak
erlang.async_threads = 64
erlang.distribution_buffer_size = 32MB
platform_data_dir = /var/lib/riak
listener.http.internal = 127.0.0.1:8098
listener.protobuf.internal = 127.0.0.1:8087
anti_entropy = active
tictacaae_active = passive
aae_tokenbucket = enabled
tictacaae_dataroot = $(platform_data_dir)/tictac_aae
eraser_dataroot = $(platform_data_dir)/kv_eraser
reaper_dataroot = $(platform_data_dir)/kv_reaper
reader_dataroot = $(platform_data_dir)/kv_reader
replrtq_dataroot = $(platform_data_dir)/kv_replrtqsrc
tictacaae_parallelstore = leveled_ko
tictacaae_rebuildwait = 336
tictacaae_rebuilddelay = 345600
tictacaae_storeheads = disabled
worker_pool_strategy = dscp
worker_pool_size = 5
node_worker_pool_size = 4
backend_pause_ms = 10
tombstone_pause = 2
participate_in_coverage = enabled
storage_backend = bitcask
conditional_put_mode = api_only
token_request_mode = primary_consensus
bitcask.data_root = $(platform_data_dir)/bitcask
bitcask.io_mode = erlang
leveldb.maximum_memory.percent = 70
leveldb.compression = on
leveldb.compression.algorithm = lz4
leveled.data_root = $(platform_data_dir)/leveled
leveled.sync_strategy = none
leveled.compression_method = native
leveled.compression_point = on_receipt
leveled.log_level = info
leveled.journal_size = 1000000000
leveled.compaction_runs_perday = 24
leveled.max_run_length = 4
ttaaefs_scope = disabled
ttaaefs_queuename = q1_ttaaefs
ttaaefs_maxresults = 32
ttaaefs_allcheck.policy = always
ttaaefs_autocheck = 24
replrtq_enablesrc = disabled
replrtq_enablesink = disabled
replrtq_srcqueue = q1_ttaaefs:block_rtq
repl_reap = disabled
leveled_reload_recalc = enabled
read_repair_primaryonly = disabled
handoff_deletes = disabled
secondary_index_timeout = 0
secondary_index_json = otp
dollarkey_readtombs = enabled
";

#[test]
fn a_riak_conf_as_it_was_installed_starts_a_node_without_a_warning() {
    for text in [SECOND, THIRD] {
        let entries = parse_text("riak.conf".as_ref(), text.as_bytes(), &mut |_| unreachable!());
        let settings = settings_of(entries.unwrap()).unwrap();
        let warned: Vec<&str> =
            settings.unsupported_settings().map(|(entry, _)| &*entry.key).collect();
        assert_eq!(warned, Vec::<&str>::new());
    }
}
