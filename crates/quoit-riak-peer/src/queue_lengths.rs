//! Lengths of a peer's queue.

/// Numbers of waiting entries of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueLengths {
    /// Entries of folds.
    pub fold: u64,
    /// Entries of full-sync and pushes.
    pub full_sync: u64,
    /// Writes at the time they happened.
    pub real_time: u64,
}
