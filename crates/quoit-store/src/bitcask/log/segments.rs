//! Segments of the log: the log closes one and begins the next, and closed segments wait for their key files.

use super::Log;
use crate::bitcask::keys::ActiveKeys;
use crate::bitcask::log_end::{LogEnd, Sealed};
use crate::bitcask::segment::{PreviousSegment, SEGMENT_HEADER_BYTES, Segment, SegmentOrigin};
use crate::bitcask::segment_creator::SegmentCreator;
use crate::error::StoreError;
use quoit_seam::WorkerHandle;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Log {
    /// Sets the workers that are woken when a segment was closed.
    pub(in crate::bitcask) fn set_roll_listeners(&self, followers: Vec<Arc<dyn WorkerHandle>>) {
        assert!(self.followers.set(followers).is_ok(), "followers are attached once");
    }

    /// Closes the active segment and begins another one, unless it has no records.
    pub(in crate::bitcask) fn close_active_segment(&self) -> Result<(), StoreError> {
        let mut tail = self.tail.lock();
        if tail.end > SEGMENT_HEADER_BYTES { self.roll_tail(&mut tail) } else { Ok(()) }
    }

    /// Begins a segment for a merge.
    pub(in crate::bitcask) fn begin_merge_segment(&self) -> Result<Arc<Segment>, StoreError> {
        let mut tail = self.tail.lock();
        self.begin_segment(&mut tail, SegmentOrigin::Merge, None)
    }

    /// Adds a closed segment of a merge to those that wait for their key files.
    pub(in crate::bitcask) fn add_sealed(&self, sealed: Sealed) {
        debug_assert!(sealed.is_sound(), "only closed segments get key files");
        let mut tail = self.tail.lock();
        tail.sealed.push(sealed);
        self.sealed_count.store(tail.sealed.len() as u64, Ordering::Relaxed);
    }

    /// Number of segments that wait for their key files. No lock.
    pub(in crate::bitcask) fn sealed_count(&self) -> u64 {
        self.sealed_count.load(Ordering::Relaxed)
    }

    /// The oldest segment that waits for its key file.
    pub(in crate::bitcask) fn next_sealed(&self) -> Option<Sealed> {
        self.tail.lock().sealed.first().cloned()
    }

    /// Notes that the key file of a segment was written.
    pub(in crate::bitcask) fn unseal(&self, number: u32) {
        let mut tail = self.tail.lock();
        let waiting_count = tail.sealed.len();
        tail.sealed.retain(|sealed| sealed.segment.number != number);
        debug_assert_eq!(waiting_count, tail.sealed.len() + 1, "a segment waits once");
        self.sealed_count.store(tail.sealed.len() as u64, Ordering::Relaxed);
    }

    /// The keys of the segments that have no key file yet; those of the active segment come last.
    pub(in crate::bitcask) fn keys(&self) -> Vec<Arc<ActiveKeys>> {
        let tail = self.tail.lock();
        let sealed = tail.sealed.iter().map(|sealed| Arc::clone(&sealed.keys));
        sealed.chain([Arc::clone(&tail.keys)]).collect()
    }

    /// Removes segments from the table. A reader that holds the former table can still read them.
    pub(in crate::bitcask) fn forget_segments(&self, numbers: &[u32]) {
        // The lock serializes changes of the table.
        let tail = self.tail.lock();
        assert!(!numbers.contains(&tail.active.number), "the active segment stays in the table");
        self.table.store(Arc::new(self.table.load().without(numbers)));
    }

    pub(super) fn roll_tail(&self, tail: &mut LogEnd) -> Result<(), StoreError> {
        let previous = PreviousSegment { number: tail.active.number, end_bytes: tail.end };
        let active = self.begin_segment(tail, SegmentOrigin::Log, Some(previous))?;
        let keys = Arc::new(ActiveKeys::new(active.number));
        let segment = std::mem::replace(&mut tail.active, active);
        let keys = std::mem::replace(&mut tail.keys, keys);
        tail.end = SEGMENT_HEADER_BYTES;
        segment.close();
        tail.unsynced.push(Arc::clone(&segment));
        tail.sealed.push(Sealed { segment, keys });
        self.sealed_count.store(tail.sealed.len() as u64, Ordering::Relaxed);
        tail.debug_check(&self.table.load());
        tail.debug_check_closed();
        self.followers.get().into_iter().flatten().for_each(|follower| follower.wake());
        Ok(())
    }

    fn begin_segment(
        &self,
        tail: &mut LogEnd,
        origin: SegmentOrigin,
        previous: Option<PreviousSegment>,
    ) -> Result<Arc<Segment>, StoreError> {
        let begin = SegmentCreator {
            disk: &*self.disk,
            clock: &*self.clock,
            recent: self.recent.as_ref(),
            identity: self.identity,
        };
        let table = self.table.load();
        // Each segment uses up a sequence, so that no two have the same header.
        let sequence = tail.next_sequence;
        tail.next_sequence += 1;
        let segment = begin.segment(&table, tail.last_number, (origin, previous), sequence)?;
        tail.last_number = segment.number;
        tail.directory_changed = true;
        self.table.store(Arc::new(table.with(Arc::clone(&segment))));
        Ok(segment)
    }
}
