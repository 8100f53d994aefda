//! Identification of the opening of a store, by which a node finds out that a store was replaced or
//! restored from an old copy.

/// Random id of a store, which it got when it was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreId(pub u64);

/// The last opening of a store that the node has noted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastOpening {
    /// Random id of the store. Nothing is known of a store with another id.
    pub store_id: StoreId,
    /// Number that grows each time the store is opened or closed.
    pub mark: u64,
    /// The store's incarnation.
    pub incarnation: u64,
}

impl LastOpening {
    /// True if `other` is an opening of the same store and earlier than this one.
    #[must_use]
    pub const fn is_later_than(&self, other: &Self) -> bool {
        self.store_id.0 == other.store_id.0 && self.mark > other.mark
    }
}
