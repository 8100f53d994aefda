//! Policies of buckets for concurrent writes.

/// Policy of the store for writes that had not seen each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Both stay (`allow_mult = true`).
    Siblings,
    /// Readers see the later one (`allow_mult = false`).
    Latest,
    /// The later one stays, whatever its writer knew (`last_write_wins = true`).
    LastWriteWins,
    /// Both stay, and no writer knows anything (`write_once = true`).
    WriteOnce,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Siblings, Self::Latest, Self::LastWriteWins, Self::WriteOnce];

    /// Whether readers see one value at most.
    #[must_use]
    pub const fn shows_one(self) -> bool {
        matches!(self, Self::Latest | Self::LastWriteWins)
    }
}
