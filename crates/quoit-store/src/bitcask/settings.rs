//! Settings of the engine.

use crate::durability::Durability;
use crate::opening::{IgnoredProgress, OpeningWatch};
use quoit_model::hash::RingSize;
use quoit_model::store_opening::LastOpening;

/// Times at which merges may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MergePolicy {
    /// At any time.
    #[default]
    Always,
    /// Only when asked for by hand.
    Never,
    /// From the beginning of hour `start` to the end of hour `end` of the UTC day, 0 to 23; over midnight
    /// if `start` is later than `end`.
    Window {
        /// First hour.
        start: u8,
        /// Last hour.
        end: u8,
    },
}

/// Settings of merges. Names and defaults are Riak's, except for the budget.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MergeSettings {
    /// Times at which merges may run.
    pub policy: MergePolicy,
    /// A segment starts a merge if at least this percentage of its records is dead.
    pub frag_merge_trigger_percent: u8,
    /// A segment starts a merge if it has at least this many dead bytes.
    pub dead_bytes_merge_trigger_bytes: u64,
    /// A segment takes part in a merge if at least this percentage of its records is dead.
    pub frag_threshold_percent: u8,
    /// A segment takes part in a merge if it has at least this many dead bytes.
    pub dead_bytes_threshold_bytes: u64,
    /// A segment takes part in a merge if it is smaller than this.
    pub small_file_threshold_bytes: u64,
    /// Size of all segments of a merge at which it takes no further ones.
    pub max_merge_size_bytes: u64,
    /// Interval in microseconds at which the engine checks if a merge is due.
    pub check_interval_us: u64,
    /// Random variation of the interval, up or down, in percent.
    pub check_jitter_percent: u8,
    /// Maximum number of bytes that a merge reads and writes in a second.
    pub budget_bytes_per_sec: u64,
}

impl Default for MergeSettings {
    fn default() -> Self {
        Self {
            policy: MergePolicy::Always,
            frag_merge_trigger_percent: 60,
            dead_bytes_merge_trigger_bytes: 512 << 20,
            frag_threshold_percent: 40,
            dead_bytes_threshold_bytes: 128 << 20,
            small_file_threshold_bytes: 10 << 20,
            max_merge_size_bytes: 100 << 30,
            check_interval_us: 180_000_000,
            check_jitter_percent: 30,
            budget_bytes_per_sec: 32 << 20,
        }
    }
}

/// Settings of a Bitcask engine.
#[derive(Clone, Debug)]
pub struct BitcaskSettings {
    /// Random bits: the id of a store that is created. They also vary the interval of merge checks.
    pub entropy: u64,
    /// True if the store must exist already. If it has to be created, that is a loss of records.
    pub is_expected: bool,
    /// The last opening of the store that the node has noted. An older store was rolled back.
    pub last_opening: Option<LastOpening>,
    /// Receives the progress of the opening.
    pub watch: &'static dyn OpeningWatch,
    /// Number of partitions that records may belong to.
    pub ring_size: RingSize,
    /// Moment at which an accepted write counts as durable.
    pub durability: Durability,
    /// Interval in microseconds at which writes are synced that no request waits for.
    pub sync_interval_us: u64,
    /// Size in bytes at which a segment is closed: a record that would exceed it goes to a new segment.
    /// Capped at 4 GiB, the most that the index can address.
    pub max_file_size_bytes: u64,
    /// Memory of a segment's keys, in bytes, at which it is closed too. The keys stay in memory, for
    /// listings, until the segment's key file is written.
    pub key_buffer_bytes: usize,
    /// Memory for entries of secondary indexes that wait to be moved to their file, in bytes. When it is
    /// full, writers of entries wait; when a quarter is full, entries are moved in the background.
    pub entry_buffer_bytes: u64,
    /// Number of logged bytes after which a snapshot of the index is written; twice the size of the index
    /// if that is more. After an unclean stop, a start reads the log since the last snapshot.
    pub snapshot_interval_bytes: u64,
    /// Number of logged records after which a snapshot is written too; a fifth of the number of keys if
    /// that is more.
    pub snapshot_interval_records: u64,
    /// Memory of the cache of recent writes in bytes. Records in it are read without a system call. Less
    /// than one mebibyte turns the cache off.
    pub recent_writes_bytes: u64,
    /// Free space in bytes that records must leave on the disk, because starts, key files and merges need
    /// some. Writes that would leave less are refused. 0 = records may fill the disk.
    pub reserved_disk_bytes: u64,
    /// Settings of merges.
    pub merge: MergeSettings,
}

impl BitcaskSettings {
    /// The defaults, with the random bits for a new store.
    #[must_use]
    pub fn new(entropy: u64) -> Self {
        Self {
            entropy,
            is_expected: false,
            last_opening: None,
            watch: &IgnoredProgress,
            ring_size: RingSize::DEFAULT,
            durability: Durability::Strict,
            sync_interval_us: 1_000_000,
            max_file_size_bytes: 256 << 20,
            key_buffer_bytes: 8 << 20,
            entry_buffer_bytes: 16 << 20,
            snapshot_interval_bytes: 512 << 20,
            snapshot_interval_records: 1_000_000,
            recent_writes_bytes: 0,
            reserved_disk_bytes: 16 << 20,
            merge: MergeSettings::default(),
        }
    }
}
