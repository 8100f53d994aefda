//! Maintenance: what background work and operators do to an engine as a whole.

use super::{DataPlace, Ticket, Verified};
use crate::error::StoreError;
use crate::index_activity::IndexActivity;
use crate::tag::Tag;
use quoit_model::hash::Partition;

/// Figures of an engine.
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
    /// Bytes in them that no key refers to any more.
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
    /// Whether writes are refused for lack of room.
    pub disk_full: bool,
    /// Why all writes are refused until the engine is opened again, where an ordered store has failed for
    /// good.
    pub write_failure: Option<WriteFailure>,
}

/// Why an engine takes no more writes until it is opened again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteFailure {
    /// The engine's directory.
    pub directory: String,
    /// Description of the failure, with the file if it is known.
    pub reason: String,
    /// Whether a file is known to be damaged: to open the engine again is no remedy then.
    pub is_damage: bool,
}

impl EngineStats {
    /// Bytes that what is stored takes: of the files, or of memory where there are none.
    #[must_use]
    pub const fn live_bytes(&self) -> u64 {
        match self.disk_bytes {
            0 => self.index_bytes,
            disk_bytes => disk_bytes.saturating_sub(self.dead_bytes),
        }
    }
}

/// Verification, removal of partitions, figures, and the end.
pub trait Maintenance: Send + Sync {
    /// Makes everything written so far durable and waits for it.
    fn sync(&self) -> Result<(), StoreError>;

    /// Removes all records of a partition; they stay removed after a crash once the ticket is durable.
    fn drop_partition(&self, partition: Partition) -> Result<Ticket, StoreError>;

    /// Reads a piece of the data on disk, of about `limit_bytes`, and compares checksums. `from` is where the
    /// last piece ended, `None` at the beginning. May wait for the disk. An engine without one has nothing to
    /// read.
    fn verify(&self, _from: Option<DataPlace>, _limit_bytes: u64) -> Result<Verified, StoreError> {
        Ok(Verified::default())
    }

    /// Damaged records that requests, listings and background work have met since the last call. An engine
    /// need not tell of records for which a request has failed: its caller knows them.
    fn take_found_damage(&self) -> Vec<(Partition, Tag)> {
        Vec::new()
    }

    /// Figures for `/stats` and operators.
    fn stats(&self) -> EngineStats;

    /// Counts of the changes that writes made to entries of secondary indexes. Costs a few loads; a write
    /// costs a few additions if its record has entries or had some.
    fn index_activity(&self) -> IndexActivity;

    /// Stops background work, syncs, and writes what makes the next start fast. Later calls fail.
    fn close(&self) -> Result<(), StoreError>;
}
