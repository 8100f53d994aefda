//! The trait of ordered key-value stores that the adapter uses.

use super::overlay::PendingWrites;
use crate::error::StoreError;
use bytes::Bytes;
use std::ops::ControlFlow;

/// A key space of the store: ordered bytewise, separate from the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Space {
    /// Records, or only their heads, in the order of partitions and hashes.
    Records,
    /// Bodies of records, if they are stored apart from the heads.
    Bodies,
    /// Metadata of each record, in the order of names.
    Names,
    /// Entries of secondary indexes, in their order.
    Indexes,
    /// Summaries of partitions, expiries and dropped partitions, distinguished by their first byte.
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

/// Receives the entries of a scan in ascending order, until it returns `Break`.
pub(crate) type VisitFn<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

/// Statistics of an ordered store.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct StoreStatistics {
    pub(crate) disk_bytes: u64,
    pub(crate) dead_bytes: u64,
    pub(crate) file_count: u64,
    pub(crate) merge_count: u64,
}

/// An ordered key-value store with atomic batches. All calls may wait for the disk.
pub(crate) trait OrderedStore: Send + Sync {
    /// The value of a key.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// Looks up the values of several keys. Each key comes with a number, and `take` gets each value with
    /// that number, in the same order. Ascending keys cost least.
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
    fn scan(&self, space: Space, from: &[u8], visit: &mut VisitFn<'_>) -> Result<(), StoreError>;

    /// Makes all writes of a batch or none, also across a crash. They survive the death of the process.
    /// Called by one thread at a time.
    ///
    /// # Errors
    ///
    /// After [`StoreError::Overloaded`] and [`StoreError::DiskFull`] nothing was written, and the same call
    /// may succeed later. After any other error the store accepts no more writes.
    fn apply(&self, batch: &PendingWrites) -> Result<(), StoreError>;

    /// True if a batch is durable as soon as `apply` returns.
    fn is_durable_when_applied(&self) -> bool;

    /// Makes all applied batches durable.
    fn sync(&self) -> Result<(), StoreError>;

    /// True if the store's own work has fallen behind and no thread does it.
    fn lags(&self) -> bool {
        false
    }

    /// Does a part of that work, if [`lags`](Self::lags) returns true; it may take seconds. Returns true if
    /// it did some. Called by one thread at a time.
    ///
    /// # Errors
    ///
    /// An error loses nothing, and the same call may succeed later.
    fn catch_up(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Replaces parts that reads have found damaged by what can be read of them, if the store can do that.
    /// Returns true if it did: the same read may succeed now, or report which records are lost. May take as
    /// long as reading the whole store, and other calls wait meanwhile.
    ///
    /// # Errors
    ///
    /// An error loses nothing, and the same call may succeed later.
    fn repair(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// True if [`OrderedStore::repair`] may ever repair something.
    fn can_repair(&self) -> bool {
        false
    }

    /// Frees parts that no reader uses any more, which may take tenths of a second. The store would
    /// otherwise do so while all others wait. Returns the number of microseconds after which to call it
    /// again; `None` for a store without such parts. Called by one thread at a time.
    fn release(&self) -> Option<u64> {
        None
    }

    /// Adds the damaged file to an error that reports damage without a location. May read all files.
    fn diagnosed(&self, error: StoreError) -> StoreError {
        error
    }

    /// The damage after which writes have failed permanently, once [`OrderedStore::repair`] has located it.
    fn known_damage(&self) -> Option<StoreError> {
        None
    }

    /// Maximum size of a key in bytes.
    fn key_bytes_max(&self) -> usize;

    fn figures(&self) -> StoreStatistics;
}
