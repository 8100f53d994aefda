//! Merges: what still counts in old segments is copied together, and the segments are removed.
//!
//! A merge copies the records of its victims to which the index refers into new segments, a slice at a
//! time, and tells the index of each slice: an entry that was changed meanwhile stays as it is. Readers and
//! writers go on; nobody waits but for the moment in which an entry changes. When all is copied and
//! durable, a snapshot of the index is written that no longer refers to the victims, their numbers are
//! noted as retired, and they are removed. A crash at any moment leaves either the victims, or all that
//! replaces them.

mod copy;
mod policy;

use super::meta::Meta;
use super::planted::{self, Planted};
use super::store::Store;
use crate::error::StoreError;
use crate::seam::{Next, Pace, Worker};
use copy::Copier;
use policy::Candidate;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// Merges in the background.
pub(super) struct Merger {
    store: Arc<Store>,
    check_count: AtomicU64,
}

impl Merger {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self { store, check_count: AtomicU64::new(0) }
    }

    /// Time to the next check, varied so that the nodes of a cluster don't merge all at once.
    fn interval_us(&self) -> u64 {
        let settings = &self.store.settings.merge;
        let interval = settings.check_interval_us;
        let spread = interval / 100 * u64::from(settings.check_jitter_percent.min(100));
        let count = self.check_count.fetch_add(1, Ordering::Relaxed);
        let random = xxh3_64(&(self.store.settings.entropy ^ count).to_le_bytes());
        interval - spread + random % (2 * spread + 1)
    }
}

impl Worker for Merger {
    fn step(&self, pace: &dyn Pace) -> Next {
        match self.store.merge(pace) {
            Ok(true) => Next::Again,
            Ok(false) => Next::AfterUs(self.interval_us()),
            Err(error) => {
                tracing::warn!(%error, "a merge was given up; it is tried again");
                Next::AfterUs(self.interval_us())
            }
        }
    }
}

impl Store {
    /// Merges once if it is worth it. False when there was nothing to do, or it was told to stop.
    fn merge(&self, pace: &dyn Pace) -> Result<bool, StoreError> {
        self.meta.lock().remove_retired(&*self.disk)?;
        let now_secs = self.clock.unix_secs();
        if !policy::is_allowed(self.settings.merge.policy, now_secs) {
            return Ok(false);
        }
        let candidates = self.merge_candidates()?;
        let chosen = policy::choose(&candidates, &self.settings.merge, now_secs);
        if chosen.is_empty() {
            return Ok(false);
        }
        let victims: Vec<u32> = chosen.iter().map(|candidate| candidate.number).collect();
        tracing::info!(?victims, "merging");
        let mut copier = Copier::new(self, &victims, pace);
        // What it found, or that it was told to stop, counts only after the last target is complete.
        let copied = copier.copy_all();
        let finished = copier.finish();
        if !copied? {
            return Ok(false);
        }
        finished?;
        self.retire(victims, pace)
    }

    /// Closed segments that have a key file.
    fn merge_candidates(&self) -> Result<Vec<Candidate>, StoreError> {
        let keyed: Vec<u32> = self.key_files.lock().keys().copied().collect();
        let table = self.table.load();
        let mut candidates = Vec::new();
        for segment in table.all() {
            let is_whole = segment.is_closed() && keyed.binary_search(&segment.number).is_ok();
            if is_whole && !segment.is_spoiled() {
                candidates.push(Candidate {
                    number: segment.number,
                    size_bytes: segment.file.size_bytes()?,
                    sequence_min: segment.sequence_min.load(Ordering::Relaxed),
                    counts: segment.counts(),
                });
            }
        }
        Ok(candidates)
    }

    /// Lets go of segments whose records have all been copied.
    fn retire(&self, victims: Vec<u32>, pace: &dyn Pace) -> Result<bool, StoreError> {
        let checks = !planted::has(Planted::LeavesIndexBehind);
        if checks && self.spoil_referred(&victims) {
            // All or none: removals were dropped on the promise that all victims go.
            return Ok(true);
        }
        // The snapshot makes all that was written durable as well: what made records of the victims
        // useless must survive if they don't.
        let checkpointing = self.checkpointing.try_lock_for(CHECKPOINT_WAIT);
        let is_safe = planted::has(Planted::RetiresTooEarly)
            || checkpointing.is_some() && self.checkpoint(&victims, pace)?;
        if !is_safe {
            return Ok(false);
        }
        let mut meta = self.meta.lock();
        let retiring = Meta { retiring: victims.clone(), ..meta.meta().clone() };
        meta.write(retiring)?;
        drop(meta);
        {
            let mut key_files = self.key_files.lock();
            victims.iter().for_each(|number| {
                key_files.remove(number);
            });
        }
        self.log.forget_segments(&victims);
        self.counters.merges.fetch_add(1, Ordering::Relaxed);
        self.meta.lock().remove_retired(&*self.disk)?;
        Ok(true)
    }

    /// Marks those of the victims that the index still refers to: their records are damaged. Whether there
    /// are such.
    fn spoil_referred(&self, victims: &[u32]) -> bool {
        let table = self.table.load_full();
        let victims: Vec<_> = victims.iter().filter_map(|number| table.get(*number)).collect();
        if victims.iter().all(|victim| victim.counts().live_count == 0) {
            return false;
        }
        // The counts may lag behind; the index doesn't.
        let mut is_spoiled = false;
        for stripe in &self.stripes {
            for entry in stripe.read().iter() {
                let number = entry.location.segment();
                if let Some(victim) = victims.iter().find(|victim| victim.number == number) {
                    victim.spoil();
                    is_spoiled = true;
                }
            }
        }
        if is_spoiled {
            tracing::warn!("segments with damaged records are kept");
        }
        is_spoiled
    }
}

/// A merge waits so long for a snapshot that is being written; longer ones let it start again later.
const CHECKPOINT_WAIT: std::time::Duration = std::time::Duration::from_secs(60);
