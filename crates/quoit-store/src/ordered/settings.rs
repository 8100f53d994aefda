//! Settings that all engines on ordered stores share.

use crate::durability::Durability;
use crate::opening::{IgnoredProgress, OpeningWatch};
use quoit_model::hash::RingSize;
use quoit_model::store_opening::LastOpening;

/// Settings of an engine on an ordered store.
#[derive(Clone, Copy, Debug)]
pub struct OrderedSettings {
    /// Random bits: the id of a store that is created.
    pub entropy: u64,
    /// True if the store must exist already. If it has to be created, that is a loss of records.
    pub is_expected: bool,
    /// The last opening of the store that the node has noted. An older store was rolled back.
    pub last_opening: Option<LastOpening>,
    /// Receives the progress of the opening.
    pub watch: &'static dyn OpeningWatch,
    /// Number of partitions that records may belong to.
    pub ring_size: RingSize,
    /// Moment at which an accepted write counts as durable. With [`Durability::Relaxed`] it is the moment
    /// at which it survives the death of the process.
    pub durability: Durability,
    /// Interval in microseconds at which writes are synced that no request waits for.
    pub sync_interval_us: u64,
    /// Maximum number of bytes of writes that wait for the ordered store. Beyond it, writers wait, and are
    /// refused if the store has fallen behind.
    pub waiting_bytes_max: u64,
    /// Memory of the cache of recently read and written records, in bytes. Calls that must not wait are
    /// answered from it. 0 turns it off.
    pub record_cache_bytes: u64,
}

impl OrderedSettings {
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
            waiting_bytes_max: 16 << 20,
            record_cache_bytes: 64 << 20,
        }
    }
}
