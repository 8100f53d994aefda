//! Maintenance: operations of background work and of operators on an engine as a whole.

use super::{DataLocation, Ticket, Verified};
use crate::error::StoreError;
use crate::index_activity::IndexActivity;
use crate::tag::Tag;
use quoit_model::hash::Partition;

/// Statistics of an engine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EngineStats {
    /// Records stored, tombstones included.
    pub key_count: u64,
    /// Tombstones among them.
    pub tombstone_count: u64,
    /// Memory of the index, in bytes.
    pub index_bytes: u64,
    /// Bytes of the files on disk.
    pub disk_bytes: u64,
    /// Bytes in the files that no key refers to any more.
    pub dead_bytes: u64,
    /// Number of data files.
    pub segment_count: u64,
    /// Device or file syncs made.
    pub sync_count: u64,
    /// Writes that those syncs made durable.
    pub synced_write_count: u64,
    /// Merges completed.
    pub merge_count: u64,
    /// Bytes that merges have written.
    pub merged_bytes: u64,
    /// Records skipped because their bytes were damaged.
    pub corrupt_record_count: u64,
    /// True while writes are refused because the disk is full.
    pub disk_full: bool,
    /// Reason for which all writes are refused until the engine is opened again. Set after an ordered store
    /// has failed permanently.
    pub write_failure: Option<WriteFailure>,
}

/// The failure after which an engine takes no more writes until it is opened again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteFailure {
    /// The engine's directory.
    pub directory: String,
    /// Description of the failure, with the file if it is known.
    pub reason: String,
    /// True if a file is known to be damaged. Opening the engine again does not help then.
    pub is_damage: bool,
}

impl EngineStats {
    /// Bytes that the stored records take: on disk, or in memory for an engine without files.
    #[must_use]
    pub const fn live_bytes(&self) -> u64 {
        match self.disk_bytes {
            0 => self.index_bytes,
            disk_bytes => disk_bytes.saturating_sub(self.dead_bytes),
        }
    }
}

/// Verification, removal of partitions, statistics, and closing.
pub trait Maintenance: Send + Sync {
    /// Makes everything written so far durable and waits for it.
    fn sync(&self) -> Result<(), StoreError>;

    /// Removes all records of a partition; they stay removed after a crash once the ticket is durable.
    fn drop_partition(&self, partition: Partition) -> Result<Ticket, StoreError>;

    /// Reads about `limit_bytes` of the data on disk and compares checksums. `from` is the `next` of the
    /// previous call, `None` at the beginning. May wait for the disk. The default implementation is for
    /// engines without checksums of their own, and reads nothing.
    fn verify(
        &self,
        _from: Option<DataLocation>,
        _limit_bytes: u64,
    ) -> Result<Verified, StoreError> {
        Ok(Verified::default())
    }

    /// Takes the damaged records that requests, listings and background work have met since the last call.
    /// An engine may leave out records for which it failed a request, because the caller knows them.
    fn take_found_damage(&self) -> Vec<(Partition, Tag)> {
        Vec::new()
    }

    /// Statistics for `/stats` and operators.
    fn stats(&self) -> EngineStats;

    /// Counts of index entries that writes have added and removed. Costs a few atomic loads; a write pays a
    /// few additions if its record has index entries or had some.
    fn index_activity(&self) -> IndexActivity;

    /// Stops background work, syncs, and writes the files that make the next start fast. Later calls fail.
    fn close(&self) -> Result<(), StoreError>;
}
