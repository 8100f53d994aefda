//! Policies of buckets for concurrent writes.

/// Policy of a bucket for concurrent writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Both values stay (`allow_mult = true`).
    Siblings,
    /// Readers see the later value (`allow_mult = false`).
    Latest,
    /// The value with the later time stays, whatever its writer had seen (`last_write_wins = true`).
    LastWriteWins,
    /// Both values stay, and contexts of writers are ignored (`write_once = true`).
    WriteOnce,
    /// As [`Policy::Latest`], in the default bucket type: a node knows it even while it is a cluster of
    /// its own.
    DefaultType,
}

impl Policy {
    /// The policies with bucket types of their own.
    pub const TYPED: [Self; 4] =
        [Self::Siblings, Self::Latest, Self::LastWriteWins, Self::WriteOnce];

    /// True if readers see at most one value.
    #[must_use]
    pub const fn shows_one(self) -> bool {
        matches!(self, Self::Latest | Self::LastWriteWins | Self::DefaultType)
    }
}
