//! Openings of a store: how far one is, and the numbers by which the rest of a node knows them.
//!
//! A store directory that was restored as a whole fits itself, so the store can't know. Each opening goes up
//! in a number in `STORE`, and the node keeps that number elsewhere before it serves: a store with a lower
//! one went back in time.

/// Hears how far the opening of a store is. A large log takes minutes to read after a kill.
pub trait OpeningWatch: Sync + std::fmt::Debug {
    /// So many bytes of the log were read, of so many. Told about once for each [`TOLD_BYTES`].
    fn log_read(&self, done_bytes: u64, total_bytes: u64);

    /// Names, index entries and counts were made again from records for so many partitions, of so many.
    fn partitions_rebuilt(&self, done_count: u64, total_count: u64);
}

/// Bytes of a log after which a watch is told how far the opening is.
pub const TOLD_BYTES: u64 = 1 << 20;

/// A watch that does not listen.
#[derive(Debug)]
pub struct Unwatched;

impl OpeningWatch for Unwatched {
    fn log_read(&self, _: u64, _: u64) {}

    fn partitions_rebuilt(&self, _: u64, _: u64) {}
}

/// Why a store has lost records that is older than the node knows.
pub(crate) const OLDER_THAN_THE_NODE: &str = "the store is older than what the node knows of it: \
    it was restored from a copy, or went back in time";
