//! Report of what opening a store found.

use crate::error::StoreError;
use crate::record_loss::RecordLoss;
use xxhash_rust::xxh3::xxh3_64;

/// So many damages are told one by one; all are counted.
const DAMAGES_TOLD_MAX: usize = 100;

/// Losses and damage that opening a store found, and what was done about them.
#[derive(Clone, Debug, Default)]
pub struct OpenReport {
    /// Whether the store was made new.
    pub created: bool,
    /// Whether the store was closed in good order before (also true of a new one).
    pub clean: bool,
    /// Whether records turned out to be lost although it was, which had not been known.
    pub lost_after_clean_stop: bool,
    /// Records that were durable and are gone; found now, or before by a node that has not made up for it.
    pub loss: Option<RecordLoss>,
    /// Whether the file that says who the store is was missing or damaged, and was made again from the
    /// segments.
    pub meta_rebuilt: bool,
    /// Random id of the store.
    pub store_id: u64,
    /// 1 at creation, one more after each stop that was not in good order, and when records turn out to be
    /// lost after one that was, once for each loss.
    pub incarnation: u64,
    /// Whether the index came from a snapshot.
    pub from_snapshot: bool,
    /// Segments found.
    pub segment_count: u64,
    /// Segments whose records had to be read one by one, in whole or in part.
    pub scanned_segment_count: u64,
    /// Bytes of records read one by one.
    pub scanned_bytes: u64,
    /// Records in the store, tombstones included.
    pub key_count: u64,
    /// Damages: what can't be used any more. At most 100 are told.
    pub damages: Vec<StoreError>,
    /// All damages.
    pub damage_count: u64,
    /// Bytes at the ends of segments that were cut short when the store was stopped.
    pub torn_bytes: u64,
    /// Files that are none of ours. They are left alone.
    pub foreign_files: Vec<String>,
    /// How long it took, in microseconds.
    pub elapsed_us: u64,
}

/// A digest of what is lost in segments, whatever the order in which it was found. Segments that were there
/// when a store is opened are never written again: what is lost in the same place was lost before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses(u64);

/// A digest of the segments of a store: their numbers, headers and sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentsDigest(u64);

impl Default for SegmentsDigest {
    fn default() -> Self {
        // 0 stands for "not known".
        Self(1)
    }
}

impl SegmentsDigest {
    /// Adds a segment.
    pub(super) fn add(&mut self, number: u32, uid: u64, size_bytes: u64) {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        bytes[4..12].copy_from_slice(&uid.to_le_bytes());
        bytes[12..].copy_from_slice(&size_bytes.to_le_bytes());
        self.0 ^= xxh3_64(&bytes);
    }

    /// The digest; never 0.
    pub(super) const fn get(self) -> u64 {
        if self.0 == 0 { 1 } else { self.0 }
    }
}

impl Losses {
    /// Bytes of a segment that hold no usable record.
    pub(super) fn note(&mut self, segment: u32, start: u64, end: u64) {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&segment.to_le_bytes());
        bytes[4..12].copy_from_slice(&start.to_le_bytes());
        bytes[12..].copy_from_slice(&end.to_le_bytes());
        self.0 ^= xxh3_64(&bytes);
    }

    /// 0 = nothing is lost.
    pub(super) const fn digest(self) -> u64 {
        self.0
    }
}

impl OpenReport {
    pub(super) fn note_damage(&mut self, damage: StoreError) {
        tracing::warn!(%damage, "damage found while the store was opened");
        self.damage_count += 1;
        if self.damages.len() < DAMAGES_TOLD_MAX {
            self.damages.push(damage);
        }
    }
}
