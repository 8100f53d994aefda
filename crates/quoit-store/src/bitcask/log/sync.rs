//! How far the log is durable.

use super::Log;
use super::position::packed;
use crate::bitcask::record::{ALIGNMENT_BYTES, Position};
use crate::bitcask::segment::Segment;
use crate::bitcask::synced::SyncedDistance;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Files and data that a commit has to sync.
pub(in crate::bitcask) struct Unsynced {
    /// The highest sequence in them.
    pub(in crate::bitcask) sequence: u64,
    pub(in crate::bitcask) segments: Vec<Arc<Segment>>,
    pub(in crate::bitcask) directory: bool,
    /// Number of the active segment, the last in the list.
    pub(in crate::bitcask) active: u32,
    /// Offset at which its records end.
    pub(in crate::bitcask) end: u64,
}

impl Unsynced {
    /// The position up to which the log is durable afterwards, as [`packed`].
    const fn position(&self) -> u64 {
        packed(self.active, self.end)
    }
}

impl Log {
    /// Takes everything that is not durable yet. The caller has to make it durable.
    pub(in crate::bitcask) fn take_unsynced(&self) -> Unsynced {
        let mut tail = self.tail.lock();
        let mut segments = std::mem::take(&mut tail.unsynced);
        segments.push(Arc::clone(&tail.active));
        let directory = std::mem::take(&mut tail.directory_changed);
        tail.debug_check_closed();
        let (sequence, active, end) = (tail.next_sequence - 1, tail.active.number, tail.end);
        Unsynced { sequence, segments, directory, active, end }
    }

    /// Notes that the log is durable up to the end that `unsynced` names.
    pub(in crate::bitcask) fn note_synced(&self, unsynced: &Unsynced) {
        let (before, now) = (self.synced.load(Ordering::Relaxed), unsynced.position());
        debug_assert!(
            before >> 32 != now >> 32 || before <= now,
            "the durable part of a segment does not shrink"
        );
        self.synced.store(now, Ordering::Release);
    }

    /// The distance from the durable end of the segment to a record that is about to be written.
    pub(super) fn synced_before(&self, position: &Position) -> SyncedDistance {
        let synced = self.synced.load(Ordering::Acquire);
        match synced.checked_sub(packed(position.segment, 0)) {
            Some(end) if end < packed(1, 0) => {
                let end = end * ALIGNMENT_BYTES as u64;
                debug_assert!(end <= position.offset, "nothing after the log's end is durable");
                SyncedDistance::of(position.offset - end)
            }
            _ => SyncedDistance::UNKNOWN,
        }
    }
}
