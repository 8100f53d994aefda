//! The trait of ordered key-value stores that the adapter uses.

use super::overlay::PendingWrites;
use crate::error::StoreError;
use bytes::Bytes;
use std::ops::ControlFlow;

/// A key space of the store: ordered bytewise, apart from the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Space {
    /// Records, or only their heads, in the order of partitions and hashes.
    Records,
    /// Bodies of records, where they are kept apart from the heads.
    Bodies,
    /// Metadata of each record, in the order of names.
    Names,
    /// Entries of secondary indexes, in their order.
    Indexes,
    /// Sums, expiries and dropped partitions, told apart by their first byte.
    Side,
}

impl Space {
    pub(crate) const ALL: [Self; 5] =
        [Self::Records, Self::Bodies, Self::Names, Self::Indexes, Self::Side];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Records => "records",
            Self::Bodies => "bodies",
            Self::Names => "names",
            Self::Indexes => "indexes",
            Self::Side => "side",
        }
    }
}

/// Gets entries of a scan in ascending order, until it breaks off.
pub(crate) type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

/// Figures of an ordered store.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Figures {
    pub(crate) disk_bytes: u64,
    pub(crate) dead_bytes: u64,
    pub(crate) file_count: u64,
    pub(crate) merge_count: u64,
}

/// An ordered key-value store with atomic batches. All calls may wait for the disk.
pub(crate) trait OrderedStore: Send + Sync {
    /// The value of a key.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// Looks up values of keys, each with its place, and hands them over with those places, in the same
    /// order. Ascending keys cost least.
    fn get_each(
        &self,
        space: Space,
        keys: &mut dyn Iterator<Item = (usize, &Bytes)>,
        take: &mut dyn FnMut(usize, Option<Bytes>),
    ) -> Result<(), StoreError> {
        for (place, key) in keys {
            take(place, self.get(space, key)?);
        }
        Ok(())
    }

    /// Shows the entries from a key on.
    fn scan(&self, space: Space, from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError>;

    /// Makes all writes of a batch, or none of them, also across a crash; they survive the death of the
    /// process. Called by one thread at a time.
    ///
    /// [`StoreError::Overloaded`] and [`StoreError::DiskFull`] say that nothing was written and that the
    /// same call may succeed later; after any other error the store takes no more writes.
    fn apply(&self, batch: &PendingWrites) -> Result<(), StoreError>;

    /// Whether what is applied is durable by that.
    fn is_durable_when_applied(&self) -> bool;

    /// Makes what was applied durable.
    fn sync(&self) -> Result<(), StoreError>;

    /// Whether the store is behind with its own work, and no thread does it.
    fn lags(&self) -> bool {
        false
    }

    /// Does a piece of that work, if [`lags`](Self::lags) says so, which may take seconds; whether it did.
    /// Called by one thread at a time.
    ///
    /// # Errors
    ///
    /// Nothing is lost by one, and the same call may succeed later.
    fn catch_up(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Puts what can be read in the place of what reads have shown to be damaged, where the store can do
    /// that. Whether it did: the same read may succeed now, or say what is lost. May take as long as reading
    /// the whole store, and others wait for it.
    ///
    /// # Errors
    ///
    /// Nothing is lost by one, and the same call may succeed later.
    fn mend(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Whether [`OrderedStore::mend`] may ever do something.
    fn can_mend(&self) -> bool {
        false
    }

    /// Frees parts that no reader uses any more, which may take tenths of a second, where the store would do
    /// so with all others waiting. After how many microseconds to do so again; `None` where there is no such
    /// thing. Called by one thread at a time.
    fn release(&self) -> Option<u64> {
        None
    }

    /// Says which file is damaged, if an error tells of damage and not where. May read all files.
    fn diagnosed(&self, error: StoreError) -> StoreError {
        error
    }

    /// The damage that has ended writes, once [`OrderedStore::mend`] has looked for it.
    fn known_damage(&self) -> Option<StoreError> {
        None
    }

    /// Largest key that it takes.
    fn key_bytes_max(&self) -> usize;

    fn figures(&self) -> Figures;
}
