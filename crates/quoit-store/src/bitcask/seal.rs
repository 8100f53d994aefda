//! Worker that writes the key files of closed segments, and the closing of the store.

use super::candidates::closed_segments;
use super::store::LogStore;
use crate::engine::{EngineStats, IoMode};
use crate::error::StoreError;
use crate::store_file::Meta;
use quoit_seam::{NeverPauses, NextStep, Pace, Worker};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Pause after a key file that could not be written, in microseconds.
const RETRY_US: u64 = 10_000_000;

/// Number of segments waiting for a key file beyond which requests write key files themselves. It bounds
/// the memory of the keys of such segments.
const WAITING_SEGMENTS_MAX: u64 = 4;

/// Worker that writes key files.
pub(super) struct Sealer {
    store: Arc<LogStore>,
}

impl Sealer {
    pub(super) fn new(store: Arc<LogStore>) -> Self {
        Self { store }
    }
}

impl Worker for Sealer {
    fn step(&self, _pace: &dyn Pace) -> NextStep {
        match self.store.seal_next() {
            Ok(true) => NextStep::Again,
            Ok(false) => NextStep::WhenWoken,
            Err(error) => {
                tracing::warn!(%error, "a key file could not be written; it is tried again");
                NextStep::AfterUs(RETRY_US)
            }
        }
    }
}

impl LogStore {
    /// Writes the key file of the oldest segment that waits for one. Returns false if no segment waits.
    fn seal_next(&self) -> Result<bool, StoreError> {
        let _one_at_a_time = self.sealing.lock();
        let Some(sealed) = self.log.next_sealed() else {
            return Ok(false);
        };
        // A start does not read a segment with a key file, so the segment must be durable before its key
        // file is.
        self.committer.sync_segment(&sealed.segment)?;
        let keys = sealed.keys.write_file(&*self.disk)?;
        // The key file is added before the keys leave memory, because a listing collects keys in memory
        // first: it finds the keys in at least one of the two.
        let former = self.key_files.lock().insert(sealed.segment.number, keys);
        debug_assert!(former.is_none(), "a segment with a key file does not wait for one");
        self.log.unseal(sealed.segment.number);
        Ok(true)
    }

    /// Writes the key files of all segments that wait for one.
    pub(super) fn seal_all(&self) -> Result<(), StoreError> {
        while self.seal_next()? {}
        Ok(())
    }

    /// Does background work in the caller if it has fallen behind: key files of closed segments, and index
    /// entries that wait to be moved. Returns false if there is such work and the caller must not wait for
    /// it: then the caller must not write.
    pub(super) fn help_background_work(&self, access: IoMode) -> Result<bool, StoreError> {
        let has_sealed = self.log.sealed_count() > WAITING_SEGMENTS_MAX;
        if !has_sealed && !self.indexes.is_full() {
            return Ok(true);
        }
        if access == IoMode::NoWait {
            return Ok(false);
        }
        if has_sealed {
            self.seal_next()?;
        }
        self.relieve_indexes()?;
        Ok(true)
    }

    /// Makes everything durable and marks the stop as clean. Background work has been stopped before.
    pub(super) fn close(&self) -> Result<(), StoreError> {
        self.committer.sync()?;
        self.log.close_active_segment()?;
        self.seal_all()?;
        let checkpointing = self.checkpointing.lock();
        if let Err(error) = self.checkpoint(&[], &NeverPauses) {
            // The next start reads key files instead, which takes longer and loses nothing.
            tracing::warn!(%error, "no snapshot of the index could be written");
        }
        drop(checkpointing);
        let mut meta = self.identity.file();
        let last = meta.meta().clone();
        let closed_segments = closed_segments(&*self.disk, &last.retiring)?;
        let mark = last.mark + 1;
        meta.write(Meta { clean: true, closed_segments, last_created_segment: 0, mark, ..last })
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
