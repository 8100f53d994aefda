//! The end of the log in memory. The log keeps it behind its lock.

use super::disk_reserve::DiskReserve;
use super::key_facts::note_key;
use super::keys::ActiveKeys;
use super::record::{ALIGNMENT_BYTES, RecordHeader};
use super::segment::{SEGMENT_HEADER_BYTES, Segment, SegmentOrigin, SegmentTable};
use crate::error::StoreError;
use crate::index::{Location, SizeClass};
use std::sync::Arc;

/// A segment that takes no more records and waits for its key file.
#[derive(Clone)]
pub(super) struct Sealed {
    pub(super) segment: Arc<Segment>,
    pub(super) keys: Arc<ActiveKeys>,
}

impl Sealed {
    /// True if the segment is closed and the keys are its own.
    pub(super) fn is_sound(&self) -> bool {
        self.segment.is_closed() && self.keys.segment() == self.segment.number
    }
}

/// The end of the log.
pub(super) struct LogEnd {
    /// The segment that takes new records.
    pub(super) active: Arc<Segment>,
    /// Offset at which its records end.
    pub(super) end: u64,
    pub(super) keys: Arc<ActiveKeys>,
    pub(super) next_sequence: u64,
    pub(super) last_number: u32,
    /// Closed segments with bytes that no sync has covered.
    pub(super) unsynced: Vec<Arc<Segment>>,
    /// True if a segment was created since the directory was synced.
    pub(super) directory_changed: bool,
    pub(super) sealed: Vec<Sealed>,
    pub(super) reserve: DiskReserve,
    /// The reason for which no more records are accepted.
    pub(super) refused: Option<StoreError>,
}

impl LogEnd {
    /// Counts a written record, and keeps its key for listings.
    pub(super) fn note(&self, key: &[u8], header: &RecordHeader, offset: u64) -> Location {
        debug_assert!(
            offset + header.padded_bytes() <= self.end,
            "a record is noted after it was written"
        );
        let class = SizeClass::of(header.record_bytes());
        self.active.count_written(class, header.meta.expires_at_secs);
        note_key(&self.keys, key, header, offset);
        Location::new(self.active.number, offset)
            .expect("segments are limited to what locations hold")
    }

    /// Checks what the next append relies on, in builds with assertions.
    pub(super) fn debug_check(&self, table: &SegmentTable) {
        if !cfg!(debug_assertions) {
            return;
        }
        let has_records = self.end >= SEGMENT_HEADER_BYTES;
        let is_aligned = self.end.is_multiple_of(ALIGNMENT_BYTES as u64);
        assert!(has_records && is_aligned, "the log ends where a record may start");
        let active = &self.active;
        assert!(!active.is_closed(), "the active segment takes records");
        assert_eq!(active.origin, SegmentOrigin::Log, "a merge writes no part of the log");
        assert_eq!(self.keys.segment(), active.number, "the keys are those of the active segment");
        assert!(active.first_sequence < self.next_sequence, "no sequence is used twice");
        let known = table.get(active.number);
        let is_known = known.is_some_and(|known| Arc::ptr_eq(known, active));
        assert!(is_known, "readers find the active segment");
    }

    /// Checks the closed segments, in builds with assertions.
    pub(super) fn debug_check_closed(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        assert!(self.sealed.iter().all(Sealed::is_sound), "only closed segments get key files");
        let is_closed = |segment: &Arc<Segment>| segment.is_closed();
        assert!(self.unsynced.iter().all(is_closed), "the active segment is not among the closed");
    }
}
