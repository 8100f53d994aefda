//! Keys of the storage engines.

use super::{GB, KB, Key, MB, key};
use crate::config::value::Kind;

/// Every key of an engine.
pub(super) const KEYS: &[Key] = &[
    key(
        "bitcask.sync.strategy",
        Kind::Word(&["none", "o_sync", "interval"]),
        "interval",
        "Riak's setting. It is reported and has no effect unless durability = relaxed; there, \
         none leaves syncing to the operating system.",
    ),
    key(
        "bitcask.sync.interval",
        Kind::Duration(1),
        "1s",
        "Longest time for which writes that no request waits for stay unsynced, on all engines.",
    ),
    key(
        "bitcask.max_file_size",
        Kind::Size(64 * KB, 4 * GB),
        "256MB",
        "Size at which a segment of the log is sealed and the next one begun.",
    ),
    key(
        "bitcask.recent_writes_size",
        Kind::Size(0, 1_024 * GB),
        "256MB",
        "Memory for recent writes, beside the system's page cache: reading them costs no system call. Less \
         than 1MB switches it off.",
    ),
    key(
        "bitcask.snapshot_interval",
        Kind::Size(64 * KB, 1_024 * GB),
        "1GB",
        "Bytes of log after which the index is written out, so that a start after a crash reads \
         little.",
    ),
    key(
        "bitcask.merge.policy",
        Kind::Word(&["always", "never", "window"]),
        "always",
        "When merges may run; window means between bitcask.merge.window.start and .end.",
    ),
    key("bitcask.merge.window.start", Kind::Integer(0, 23), "0", "First hour (UTC) of the window."),
    key("bitcask.merge.window.end", Kind::Integer(0, 23), "23", "Last hour (UTC) of the window."),
    key(
        "bitcask.merge.triggers.fragmentation",
        Kind::Percent,
        "60",
        "A segment with at least this percentage of dead bytes starts a merge.",
    ),
    key(
        "bitcask.merge.triggers.dead_bytes",
        Kind::Size(0, 1_024 * GB),
        "512MB",
        "A segment with at least this many dead bytes starts a merge.",
    ),
    key(
        "bitcask.merge.thresholds.fragmentation",
        Kind::Percent,
        "40",
        "Segments with at least this percentage of dead bytes take part in a merge.",
    ),
    key(
        "bitcask.merge.thresholds.dead_bytes",
        Kind::Size(0, 1_024 * GB),
        "128MB",
        "Segments with at least this many dead bytes take part in a merge.",
    ),
    key(
        "bitcask.merge.thresholds.small_file",
        Kind::Size(0, 1_024 * GB),
        "10MB",
        "Segments smaller than this take part in a merge.",
    ),
    key(
        "bitcask.merge_rate",
        Kind::Size(64 * KB, 1_024 * GB),
        "32MB",
        "Bytes a second that merges may read and write together.",
    ),
    key(
        "bitcask.merge_check_interval",
        Kind::Duration(1000),
        "3m",
        "How often the node looks for segments to merge.",
    ),
    key(
        "bitcask.merge_check_jitter",
        Kind::Percent,
        "30",
        "Random share by which that interval varies.",
    ),
    key(
        "bitcask.expiry",
        Kind::DurationOr("off"),
        "off",
        "Age at which objects expire in buckets that have no property ttl of their own.",
    ),
    key(
        "leveldb.maximum_memory",
        Kind::Size(MB, 1_024 * GB),
        "256MB",
        "Memory of the node for data read from leveldb: three quarters for blocks, one for records.",
    ),
    key(
        "leveldb.write_buffer_size_max",
        Kind::Size(MB, GB),
        "32MB",
        "Size at which recent writes move from memory to a table.",
    ),
    key("leveldb.block.size", Kind::Size(KB, MB), "4KB", "Size of a block of leveldb's tables."),
    key("leveldb.compression", Kind::Flag, "on", "Whether leveldb's tables are compressed (lz4)."),
    key(
        "leveled.maximum_memory",
        Kind::Size(MB, 1_024 * GB),
        "256MB",
        "Memory of the node for data read from leveled: three quarters for blocks, one for records.",
    ),
    key(
        "leveled.compression_method",
        Kind::Word(&["native", "lz4", "zstd", "none"]),
        "lz4",
        "Whether leveled's tables and values are compressed; native and zstd mean lz4 as well.",
    ),
    key(
        "innostore.buffer_pool_size",
        Kind::Size(MB, 1_024 * GB),
        "256MB",
        "Memory of the node for data read from innostore: three quarters for pages, one for records.",
    ),
    key(
        "memory_backend.max_memory_per_vnode",
        Kind::Size(1, 1_024 * GB),
        "",
        "Memory for the records of one partition of the memory engine; beyond it the least recently used \
         records are removed. A node needs as many times that as it holds partitions: ring_size times n_val \
         by the number of nodes, and no more than ring_size. Not set: no bound.",
    ),
    key(
        "memory_backend.ttl",
        Kind::Duration(1000),
        "",
        "Age at which the memory engine drops values. Not set: never.",
    ),
];
