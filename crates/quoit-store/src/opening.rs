//! Openings of a store: their progress, and the numbers that detect a store which was rolled back.
//!
//! A store directory that was restored as a whole is consistent, so the store alone cannot notice it. Each
//! opening increments a number in the file `STORE`, and the node keeps that number in another place before
//! it serves. A store with a lower number was rolled back to an older copy.

/// Receives the progress of opening a store. After a kill, reading a large log takes minutes.
pub trait OpeningWatch: Sync + std::fmt::Debug {
    /// `done_bytes` of `total_bytes` of the log were read. Called once for about each [`PROGRESS_BYTES`].
    fn log_read(&self, done_bytes: u64, total_bytes: u64);

    /// Names, index entries and counts were rebuilt from the records of `done_count` of `total_count`
    /// partitions.
    fn partitions_rebuilt(&self, done_count: u64, total_count: u64);
}

/// Number of bytes of the log between two calls of [`OpeningWatch::log_read`].
pub const PROGRESS_BYTES: u64 = 1 << 20;

/// A watch that ignores progress.
#[derive(Debug)]
pub struct IgnoredProgress;

impl OpeningWatch for IgnoredProgress {
    fn log_read(&self, _: u64, _: u64) {}

    fn partitions_rebuilt(&self, _: u64, _: u64) {}
}

/// Reason of a record loss: the store is older than the node's note of its last opening.
pub(crate) const ROLLED_BACK: &str = "the store is older than the node's record of its last opening: it was \
     restored from a copy, or the disk lost writes";
