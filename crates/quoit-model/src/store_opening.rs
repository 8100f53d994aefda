//! The numbers by which the rest of a node knows the opening of a store.

/// The last opening of a store that the node knows of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastOpening {
    /// Random id of the store. One with another id is another store, and nothing is known of it.
    pub store_id: u64,
    /// How often the store was opened and closed.
    pub mark: u64,
    /// The store's incarnation.
    pub incarnation: u64,
}

impl LastOpening {
    /// Whether a store that was opened as `other` is older than this.
    #[must_use]
    pub const fn is_later_than(&self, other: &Self) -> bool {
        self.store_id == other.store_id && self.mark > other.mark
    }
}
