//! Report of what opening a store found.

use crate::error::StoreError;
use crate::record_loss::RecordLoss;
use quoit_model::store_opening::StoreId;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// Maximum number of damages that a report lists; it counts all of them.
const DAMAGES_TOLD_MAX: usize = 100;

/// Result of opening a store: losses, damage, and the work that was done.
#[derive(Clone, Debug, Default)]
pub struct OpenReport {
    /// True if the store was created by this opening.
    pub created: bool,
    /// True if the last stop was clean, and for a new store.
    pub clean: bool,
    /// True if records turned out to be lost although the last stop was clean, and no earlier start had
    /// found that loss.
    pub lost_after_clean_stop: bool,
    /// Loss of durable records, found by this opening or by an earlier one, that the node has not repaired
    /// yet.
    pub loss: Option<RecordLoss>,
    /// True if the file `STORE` was missing or damaged, and was rebuilt from the headers of segments.
    pub meta_rebuilt: bool,
    /// Random id of the store.
    pub store_id: StoreId,
    /// Number of the incarnation: 1 at creation, incremented after each unclean stop, and once for each
    /// loss of records after a clean stop.
    pub incarnation: u64,
    /// True if the index was loaded from a snapshot.
    pub from_snapshot: bool,
    /// Number of segments.
    pub segment_count: u64,
    /// Number of segments of which at least a part was read record by record.
    pub scanned_segment_count: u64,
    /// Bytes that were read record by record.
    pub scanned_bytes: u64,
    /// Records in the store, tombstones included.
    pub key_count: u64,
    /// Unusable files and parts of files, at most 100.
    pub damages: Vec<StoreError>,
    /// Number of all damages.
    pub damage_count: u64,
    /// Bytes of torn writes at the ends of segments.
    pub torn_bytes: u64,
    /// Names of files that do not belong to the store. They are left alone.
    pub foreign_files: Vec<String>,
    /// Duration of the opening in microseconds.
    pub elapsed_us: u64,
}

/// A digest of the unusable ranges of segments, independent of the order in which they were found. Segments
/// that exist when a store is opened are never written again, so an equal digest means that an earlier
/// start found the same losses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossDigest(u64);

/// A digest of the segments of a store: their numbers, headers and sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentsDigest(u64);

impl Default for SegmentsDigest {
    fn default() -> Self {
        // 0 stands for "unknown".
        Self(1)
    }
}

/// The facts about a segment that are in the digest.
#[derive(Clone, Copy, Debug)]
pub(super) struct DigestedSegment {
    pub(super) number: u32,
    /// Digest of the header; 0 for a damaged one.
    pub(super) uid: u64,
    pub(super) size_bytes: u64,
}

impl SegmentsDigest {
    /// Adds a segment.
    pub(super) fn add(&mut self, segment: DigestedSegment) {
        let DigestedSegment { number, uid, size_bytes } = segment;
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

impl LossDigest {
    /// Adds a range of bytes of a segment without usable records.
    pub(super) fn note(&mut self, segment: u32, range: Range<u64>) {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&segment.to_le_bytes());
        bytes[4..12].copy_from_slice(&range.start.to_le_bytes());
        bytes[12..].copy_from_slice(&range.end.to_le_bytes());
        self.0 ^= xxh3_64(&bytes);
    }

    /// The digest; 0 = nothing is lost.
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
