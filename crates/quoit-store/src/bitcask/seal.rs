//! Writes the key files of closed segments, and closes the store.

use super::candidates::closed_segments;
use super::store::LogStore;
use crate::engine::{Access, EngineStats};
use crate::error::StoreError;
use crate::store_file::Meta;
use quoit_seam::{Next, Pace, Unpaced, Worker};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// When a key file can't be written, it is tried again after this time.
const RETRY_US: u64 = 10_000_000;

/// Requesters write key files themselves once so many segments wait for one: it bounds the memory that
/// the keys of such segments take.
const WAITING_SEGMENTS_MAX: u64 = 4;

/// Writes key files in the background.
pub(super) struct Sealer {
    store: Arc<LogStore>,
}

impl Sealer {
    pub(super) fn new(store: Arc<LogStore>) -> Self {
        Self { store }
    }
}

impl Worker for Sealer {
    fn step(&self, _pace: &dyn Pace) -> Next {
        match self.store.seal_next() {
            Ok(true) => Next::Again,
            Ok(false) => Next::WhenWoken,
            Err(error) => {
                tracing::warn!(%error, "a key file could not be written; it is tried again");
                Next::AfterUs(RETRY_US)
            }
        }
    }
}

impl LogStore {
    /// Writes the key file of the oldest segment that waits for one. False when there is none.
    fn seal_next(&self) -> Result<bool, StoreError> {
        let _one_at_a_time = self.sealing.lock();
        let Some(sealed) = self.log.next_sealed() else {
            return Ok(false);
        };
        // A segment with a key file is not read when the store is opened: it must be whole by then.
        self.committer.sync_segment(&sealed.segment)?;
        let keys = sealed.keys.write_file(&*self.disk)?;
        // First here, then there: a listing looks there first.
        self.key_files.lock().insert(sealed.segment.number, keys);
        self.log.unseal(sealed.segment.number);
        Ok(true)
    }

    /// Writes the key files of all segments that wait for one.
    pub(super) fn seal_all(&self) -> Result<(), StoreError> {
        while self.seal_next()? {}
        Ok(())
    }

    /// Helps when closed segments wait for their key files, or entries of secondary indexes for being moved,
    /// faster than those are written. Whether the caller may write: not if it would have to wait for that,
    /// and may not.
    pub(super) fn relieve(&self, access: Access) -> Result<bool, StoreError> {
        let has_sealed = self.log.sealed_count() > WAITING_SEGMENTS_MAX;
        if !has_sealed && !self.indexes.is_full() {
            return Ok(true);
        }
        if access == Access::NoWait {
            return Ok(false);
        }
        if has_sealed {
            self.seal_next()?;
        }
        self.relieve_indexes()?;
        Ok(true)
    }

    /// Makes everything durable and leaves the mark of good order. Background work has stopped.
    pub(super) fn close(&self) -> Result<(), StoreError> {
        self.committer.sync()?;
        self.log.roll_to_close()?;
        self.seal_all()?;
        let checkpointing = self.checkpointing.lock();
        if let Err(error) = self.checkpoint(&[], &Unpaced) {
            // The next start reads key files instead, which takes longer and loses nothing.
            tracing::warn!(%error, "no snapshot of the index could be written");
        }
        drop(checkpointing);
        let mut meta = self.identity.file();
        let last = meta.meta().clone();
        let closed_segments = closed_segments(&*self.disk, &last.retiring)?;
        let mark = last.mark + 1;
        meta.write(Meta { clean: true, closed_segments, begun_segment: 0, mark, ..last })
    }

    pub(super) fn stats(&self) -> EngineStats {
        let mut stats = EngineStats::default();
        for stripe in &self.stripes {
            let index = stripe.read();
            stats.key_count += index.key_count();
            stats.tombstone_count += index.tombstone_count();
            stats.index_bytes += index.memory_bytes();
        }
        for segment in self.table.load().all() {
            let counts = segment.counts();
            stats.segment_count += 1;
            stats.disk_bytes += segment.file.size_bytes().unwrap_or(0);
            stats.dead_bytes += counts.record_bytes.saturating_sub(counts.live_bytes);
        }
        let (sync_count, synced_write_count) = self.committer.counts();
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        EngineStats {
            sync_count,
            synced_write_count,
            merge_count: count(&self.counters.merges),
            merged_bytes: count(&self.counters.merged_bytes),
            corrupt_record_count: count(&self.counters.corrupt_records),
            disk_full: self.log.disk_full(),
            ..stats
        }
    }
}
