//! Settings of the engine.

use crate::durability::Durability;
use crate::opening::{OpeningWatch, Unwatched};
use quoit_model::hash::RingSize;
use quoit_model::store_opening::LastOpening;

/// When merges may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MergePolicy {
    /// At any time.
    #[default]
    Always,
    /// Only when asked for by hand.
    Never,
    /// From the hour `start` to the end of the hour `end` of the UTC day, 0 to 23; over midnight when
    /// `start` is the later one.
    Window {
        /// First hour.
        start: u8,
        /// Last hour.
        end: u8,
    },
}

/// When and how merges run. Names and defaults are Riak's, but for the budget.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MergeSettings {
    /// When merges may run.
    pub policy: MergePolicy,
    /// A segment with at least so many percent of its records dead starts a merge.
    pub frag_merge_trigger_percent: u8,
    /// A segment with at least so many dead bytes starts a merge.
    pub dead_bytes_merge_trigger_bytes: u64,
    /// Segments with at least so many percent of their records dead take part in it.
    pub frag_threshold_percent: u8,
    /// Segments with at least so many dead bytes take part in it.
    pub dead_bytes_threshold_bytes: u64,
    /// Segments smaller than this take part in it.
    pub small_file_threshold_bytes: u64,
    /// A merge takes no more segments once they are so large together.
    pub max_merge_size_bytes: u64,
    /// Whether a merge is due is looked at this often.
    pub check_interval_us: u64,
    /// The interval is varied by up to so many percent, up and down.
    pub check_jitter_percent: u8,
    /// A merge reads and writes no more than so many bytes a second.
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
    /// Random bits: the id of a store that is made new. Also varies the merge check.
    pub entropy: u64,
    /// Whether the store is known to have been there before: that it has to be made new is a loss.
    pub is_expected: bool,
    /// The last opening of the store that the node knows of: an older store went back in time.
    pub last_opening: Option<LastOpening>,
    /// Hears how far the opening is.
    pub watch: &'static dyn OpeningWatch,
    /// Number of partitions that records may belong to.
    pub ring_size: RingSize,
    /// When an accepted write counts as durable.
    pub durability: Durability,
    /// Writes that no request waits for are synced this often.
    pub sync_interval_us: u64,
    /// A segment is closed and a new one begun when a record would make it larger than this. Capped at
    /// 4 GiB, the most that the index can address.
    pub max_file_size_bytes: u64,
    /// A segment is also closed when its keys take so much memory: they are kept, for listings, until
    /// its key file is written.
    pub key_buffer_bytes: usize,
    /// Memory for entries of secondary indexes that wait to be moved to their file, in bytes. Writers of
    /// entries wait when it is full; a quarter of it is moved in the background.
    pub entry_buffer_bytes: u64,
    /// A snapshot of the index is written when so many bytes were logged since the last one, or twice
    /// the size of the index if that is more. What was logged since is read when the store is opened after
    /// a stop that was not in good order.
    pub snapshot_interval_bytes: u64,
    /// A snapshot is also written when so many records were logged, or a fifth of the number of keys if that
    /// is more.
    pub snapshot_interval_records: u64,
    /// Memory for what was written lately, in bytes: records in it are read without a system call. Less
    /// than a mebibyte is none.
    pub recent_writes_bytes: u64,
    /// Records are refused while the disk would have less room than this beside them, in bytes: a start after
    /// any stop, key files and merges need some. 0 = they may take all of it.
    pub kept_room_bytes: u64,
    /// When and how merges run.
    pub merge: MergeSettings,
}

impl BitcaskSettings {
    /// The defaults, with the random bits that a new store is made from.
    #[must_use]
    pub fn new(entropy: u64) -> Self {
        Self {
            entropy,
            is_expected: false,
            last_opening: None,
            watch: &Unwatched,
            ring_size: RingSize::DEFAULT,
            durability: Durability::Strict,
            sync_interval_us: 1_000_000,
            max_file_size_bytes: 256 << 20,
            key_buffer_bytes: 32 << 20,
            entry_buffer_bytes: 16 << 20,
            snapshot_interval_bytes: 512 << 20,
            snapshot_interval_records: 1_000_000,
            recent_writes_bytes: 0,
            kept_room_bytes: 16 << 20,
            merge: MergeSettings::default(),
        }
    }
}
