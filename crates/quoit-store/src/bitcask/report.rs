//! What was found when a store was opened.

use crate::error::StoreError;

/// So many damages are told one by one; all are counted.
const DAMAGES_TOLD_MAX: usize = 100;

/// What was found when a store was opened, and what was done about it.
#[derive(Clone, Debug, Default)]
pub struct OpenReport {
    /// Whether the store was made new.
    pub created: bool,
    /// Whether the store was closed in good order before (also true of a new one).
    pub clean: bool,
    /// Whether the file that says who the store is was missing or damaged, and was made again from the
    /// segments.
    pub meta_rebuilt: bool,
    /// Random id of the store.
    pub store_id: u64,
    /// 1 at creation, one more after each stop that was not in good order, and when damage is found after
    /// one that was.
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

impl OpenReport {
    pub(super) fn note_damage(&mut self, damage: StoreError) {
        tracing::warn!(%damage, "damage found while the store was opened");
        self.damage_count += 1;
        if self.damages.len() < DAMAGES_TOLD_MAX {
            self.damages.push(damage);
        }
    }
}
