//! Keys of the storage engines.

use super::{GB, KB, Key, KeyDefault, MB, key};
use crate::value::ValueType;

/// Every key of an engine.
pub(super) const KEYS: &[Key] = &[
    key(
        "bitcask.sync.strategy",
        ValueType::Word(&["none", "o_sync", "interval"]),
        KeyDefault("interval"),
        "Riak's setting. With durability = relaxed, none leaves syncing to the operating system for all \
         engines; interval and o_sync both mean bitcask.sync.interval. With durability = strict it has no \
         effect, and the node logs a warning if it is set.",
    ),
    key(
        "bitcask.sync.interval",
        ValueType::Duration(1),
        KeyDefault("1s"),
        "Longest time before the node syncs writes that no request waits for, with any engine on disk. A \
         power failure can lose the writes of this time.",
    ),
    key(
        "bitcask.max_file_size",
        ValueType::Size(64 * KB, 4 * GB),
        KeyDefault("256MB"),
        "Size at which the node closes a segment of the log and begins the next one.",
    ),
    key(
        "bitcask.recent_writes_size",
        ValueType::Size(0, 1_024 * GB),
        KeyDefault("256MB"),
        "Memory for a cache of recent writes, in addition to the system's page cache. The node reads records \
         in the cache without a system call. Less than 1MB turns it off.",
    ),
    key(
        "bitcask.snapshot_interval",
        ValueType::Size(64 * KB, 1_024 * GB),
        KeyDefault("1GB"),
        "Most bytes of log between two snapshots of the index, or twice the size of the index if that is \
         more. A start after a crash reads the log since the last snapshot: the larger the value, the longer \
         such a start takes.",
    ),
    key(
        "bitcask.merge.policy",
        ValueType::Word(&["always", "never", "window"]),
        KeyDefault("always"),
        "When the node may merge segments: always, never, or in a window of hours \
         (bitcask.merge.window.start and .end). Without merges the disk space of deleted and overwritten \
         records is not freed.",
    ),
    key(
        "bitcask.merge.window.start",
        ValueType::Integer(0, 23),
        KeyDefault("0"),
        "First hour (UTC) of the merge window.",
    ),
    key(
        "bitcask.merge.window.end",
        ValueType::Integer(0, 23),
        KeyDefault("23"),
        "Last hour (UTC) of the merge window, included. It can be before the first one: the window then \
         extends past midnight.",
    ),
    key(
        "bitcask.merge.triggers.fragmentation",
        ValueType::Percent,
        KeyDefault("60"),
        "A segment starts a merge if at least this percentage of its records is dead: overwritten, deleted \
         or expired.",
    ),
    key(
        "bitcask.merge.triggers.dead_bytes",
        ValueType::Size(0, 1_024 * GB),
        KeyDefault("512MB"),
        "A segment starts a merge if it has at least this many bytes of dead records.",
    ),
    key(
        "bitcask.merge.thresholds.fragmentation",
        ValueType::Percent,
        KeyDefault("40"),
        "When a merge starts, segments take part in it if at least this percentage of their records is dead.",
    ),
    key(
        "bitcask.merge.thresholds.dead_bytes",
        ValueType::Size(0, 1_024 * GB),
        KeyDefault("128MB"),
        "When a merge starts, segments take part in it if they have at least this many bytes of dead \
         records.",
    ),
    key(
        "bitcask.merge.thresholds.small_file",
        ValueType::Size(0, 1_024 * GB),
        KeyDefault("10MB"),
        "When a merge starts, segments smaller than this take part in it.",
    ),
    key(
        "bitcask.merge_rate",
        ValueType::Size(64 * KB, 1_024 * GB),
        KeyDefault("32MB"),
        "Bytes per second that a merge reads and writes, both together. If it is too low, dead records use \
         up the disk faster than merges free it.",
    ),
    key(
        "bitcask.merge_check_interval",
        ValueType::Duration(1000),
        KeyDefault("3m"),
        "Interval at which the node checks if segments should be merged.",
    ),
    key(
        "bitcask.merge_check_jitter",
        ValueType::Percent,
        KeyDefault("30"),
        "Largest random change of bitcask.merge_check_interval, up or down, so that nodes do not merge at \
         the same time.",
    ),
    key(
        "bitcask.expiry",
        ValueType::DurationOr("off"),
        KeyDefault("off"),
        "Time after its last write at which an object expires, in buckets without the property ttl, with any \
         engine. A change affects later writes only.",
    ),
    key(
        "leveldb.maximum_memory",
        ValueType::Size(MB, 1_024 * GB),
        KeyDefault("256MB"),
        "Memory for cached data of leveldb: three quarters for blocks of tables, one quarter for records.",
    ),
    key(
        "leveldb.write_buffer_size_max",
        ValueType::Size(MB, GB),
        KeyDefault("32MB"),
        "Size at which recent writes move from memory to a table on disk. The engine has three or four \
         trees, each with up to four such buffers in memory.",
    ),
    key(
        "leveldb.block.size",
        ValueType::Size(KB, MB),
        KeyDefault("4KB"),
        "Approximate size of a block in leveldb's tables.",
    ),
    key(
        "leveldb.compression",
        ValueType::Flag,
        KeyDefault("on"),
        "Whether leveldb compresses its tables (lz4), except those of the first two levels.",
    ),
    key(
        "leveled.maximum_memory",
        ValueType::Size(MB, 1_024 * GB),
        KeyDefault("256MB"),
        "Memory for cached data of leveled: three quarters for blocks of tables, one quarter for records.",
    ),
    key(
        "leveled.compression_method",
        ValueType::Word(&["native", "lz4", "zstd", "none"]),
        KeyDefault("lz4"),
        "Compression of leveled's tables and large values: lz4 or none. native and zstd are accepted and \
         mean lz4.",
    ),
    key(
        "innostore.buffer_pool_size",
        ValueType::Size(MB, 1_024 * GB),
        KeyDefault("256MB"),
        "Memory for cached data of innostore: three quarters for pages, one quarter for records.",
    ),
    key(
        "memory_backend.max_memory_per_vnode",
        ValueType::Size(1, 1_024 * GB),
        KeyDefault(""),
        "Memory for the records of one partition in the memory engine. Beyond it, the node removes the least \
         recently used records. A node needs this memory for each of its partitions: about ring_size times \
         n_val divided by the number of nodes, at most ring_size. Not set: no limit.",
    ),
    key(
        "memory_backend.ttl",
        ValueType::Duration(1000),
        KeyDefault(""),
        "Time after its last write at which a record of the memory engine expires. Not set: never.",
    ),
];
