//! Settings that every engine on an ordered store has.

use crate::durability::Durability;
use crate::opening::{OpeningWatch, Unwatched};
use quoit_model::hash::RingSize;
use quoit_model::store_opening::LastOpening;

/// Settings of an engine on an ordered store.
#[derive(Clone, Copy, Debug)]
pub struct OrderedSettings {
    /// Random bits: the id of a store that is made new.
    pub entropy: u64,
    /// Whether the store is known to have been there before: that it has to be made new is a loss.
    pub is_expected: bool,
    /// The last opening of the store that the node knows of: an older store went back in time.
    pub last_opening: Option<LastOpening>,
    /// Hears how far the opening is.
    pub watch: &'static dyn OpeningWatch,
    /// Number of partitions that records may belong to.
    pub ring_size: RingSize,
    /// When an accepted write counts as durable. With [`Durability::Relaxed`], when it survives the death of
    /// the process.
    pub durability: Durability,
    /// Writes that no request waits for are synced this often.
    pub sync_interval_us: u64,
    /// Bytes of writes that may wait for the ordered store; then writers wait, and are refused when it has
    /// fallen behind.
    pub waiting_bytes_max: u64,
    /// Memory for records that were read or written lately, in bytes: calls that must not wait are answered
    /// with them. 0 for none.
    pub record_cache_bytes: u64,
}

impl OrderedSettings {
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
            waiting_bytes_max: 16 << 20,
            record_cache_bytes: 64 << 20,
        }
    }
}
