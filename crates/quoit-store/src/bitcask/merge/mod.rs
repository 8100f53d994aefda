//! Merges: copy the live records of old segments together, and remove those segments.
//!
//! A merge has these steps:
//!
//! 1. It copies the live records of its victims into new segments, a slice at a time, and changes the index
//!    entries after each slice. An entry that was changed meanwhile stays as it is. Readers and writers
//!    wait only for the moment in which an entry changes.
//! 2. When all records are copied and durable, it writes a snapshot of the index that does not refer to the
//!    victims.
//! 3. It notes the victims' numbers as retired in `STORE`, and removes their files.
//!
//! A crash before the note leaves the victims beside the copies; a crash after it leaves files that the
//! next start removes. Either way every live record is in one of the segments.

mod copy;
mod pauses;
mod policy;

use super::planted;
use super::store::LogStore;
use crate::error::StoreError;
use crate::index::IndexEntry;
use crate::store_file::Meta;
use copy::Copier;
use parking_lot::Mutex;
use pauses::MergePauses;
use policy::{MergeCandidate, MergeCandidates};
use quoit_planted::PlantedFault;
use quoit_seam::{NextStep, Pace, Worker};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Percentage of the bytes read that a merge must free at least; otherwise it counts as futile.
const GAIN_PERCENT_MIN: u64 = 10;

/// Number of entries up to which the index of a partition is checked at the end of a merge, in builds with
/// assertions.
const CHECKED_ENTRIES: u64 = 1_000;

/// Worker that merges.
pub(super) struct Merger {
    store: Arc<LogStore>,
    check_count: AtomicU64,
    pauses: Mutex<MergePauses>,
}

impl Merger {
    pub(super) fn new(store: Arc<LogStore>) -> Self {
        Self { store, check_count: AtomicU64::new(0), pauses: Mutex::new(MergePauses::default()) }
    }

    /// Time to the next check in microseconds, varied so that the nodes of a cluster do not merge all at
    /// once.
    fn interval_us(&self) -> u64 {
        let settings = &self.store.settings.merge;
        let interval = settings.check_interval_us;
        let spread = interval / 100 * u64::from(settings.check_jitter_percent.min(100));
        let count = self.check_count.fetch_add(1, Ordering::Relaxed);
        let random = xxh3_64(&(self.store.settings.entropy ^ count).to_le_bytes());
        interval - spread + random % (2 * spread + 1)
    }

    /// Runs a merge if one is worthwhile. Returns false if there is nothing more to do now, or the worker
    /// was told to stop.
    fn merge(&self, pace: &dyn Pace) -> Result<bool, StoreError> {
        let store = &*self.store;
        store.identity.file().remove_retired(&*store.disk)?;
        let now_secs = store.clock.unix_secs();
        if !policy::is_allowed(store.settings.merge.policy, now_secs) {
            return Ok(false);
        }
        let mut candidates = store.merge_candidates()?;
        let now_us = store.clock.monotonic_us();
        let pauses = self.pauses.lock();
        candidates.retain(|candidate| !pauses.is_paused(candidate.number, now_us));
        drop(pauses);
        let candidates =
            MergeCandidates { list: &candidates, oldest_sequence: store.oldest_sequence() };
        let chosen = policy::choose(candidates, &store.settings.merge, now_secs);
        if chosen.is_empty() {
            return Ok(false);
        }
        let victims: Vec<u32> = chosen.iter().map(|candidate| candidate.number).collect();
        tracing::info!(?victims, "merging");
        store.wait_for_writes();
        let mut copier = Copier::new(store, &victims, pace);
        // The last target must be completed even if copying has failed or was stopped.
        let copied = copier.copy_all();
        let finished = copier.finish();
        if !copied? {
            return Ok(false);
        }
        let output = finished?;
        match store.retire(&victims, pace)? {
            RetiredSegments::All => {
                let read_bytes: u64 = chosen.iter().map(|candidate| candidate.size_bytes).sum();
                let gained_bytes = read_bytes.saturating_sub(output.size_bytes);
                let is_futile = gained_bytes * 100 < read_bytes * GAIN_PERCENT_MIN;
                if is_futile {
                    self.pause(&victims, &output.segments, "a merge gained little");
                }
                Ok(!is_futile)
            }
            RetiredSegments::KeptDamaged { referred } => {
                self.pause(&referred, &referred, "segments with damaged records are kept");
                Ok(referred.len() < victims.len())
            }
            RetiredSegments::NotNow => Ok(false),
        }
    }

    /// Pauses merges of segments after a futile merge of `victims`, longer each time. Logs the first pause.
    fn pause(&self, victims: &[u32], segments: &[u32], reason: &str) {
        let mut pauses = self.pauses.lock();
        let futile_count = pauses.futile_count(victims).saturating_add(1);
        let now_us = self.store.clock.monotonic_us();
        let first_pause = Duration::from_micros(self.store.settings.merge.check_interval_us);
        pauses.begin(segments, futile_count, first_pause, now_us);
        let table = self.store.table.load();
        pauses.retain(|number| table.get(number).is_some());
        if futile_count == 1 {
            tracing::warn!(?segments, "{reason}; merges leave them alone for longer and longer");
        }
    }
}

impl Worker for Merger {
    fn step(&self, pace: &dyn Pace) -> NextStep {
        match self.merge(pace) {
            Ok(true) => NextStep::Again,
            Ok(false) => NextStep::AfterUs(self.interval_us()),
            Err(error) if self.store.repair(&error) => NextStep::Again,
            Err(error) => {
                tracing::warn!(%error, "a merge was given up; it is tried again");
                NextStep::AfterUs(self.interval_us())
            }
        }
    }
}

/// Outcome of retiring segments whose records were copied.
enum RetiredSegments {
    /// They were removed.
    All,
    /// All are kept, because the index still refers to records of these, which are damaged.
    KeptDamaged { referred: Vec<u32> },
    /// All are kept, because the worker was told to stop or another snapshot is being written.
    NotNow,
}

impl LogStore {
    /// The lowest sequence of a record in any segment.
    fn oldest_sequence(&self) -> u64 {
        let table = self.table.load();
        let sequences = table.all().iter().map(|other| other.sequence_min.load(Ordering::Relaxed));
        sequences.min().unwrap_or(u64::MAX)
    }

    /// Closed segments that have a key file.
    fn merge_candidates(&self) -> Result<Vec<MergeCandidate>, StoreError> {
        let keyed: Vec<u32> = self.key_files.lock().keys().copied().collect();
        let table = self.table.load();
        let mut candidates = Vec::new();
        for segment in table.all() {
            if segment.is_closed() && keyed.binary_search(&segment.number).is_ok() {
                candidates.push(MergeCandidate {
                    number: segment.number,
                    size_bytes: segment.file.size_bytes()?,
                    sequence_min: segment.sequence_min.load(Ordering::Relaxed),
                    counts: segment.counts(),
                });
            }
        }
        Ok(candidates)
    }

    /// Waits for writes that have appended a record and have not changed the index yet. Such a write holds
    /// its stripe. Without this wait, the copying could take the record for a dead one, and the index could
    /// refer to it when its segment is removed.
    fn wait_for_writes(&self) {
        self.stripes.iter().for_each(|stripe| drop(stripe.upgradable_read()));
    }

    /// Removes segments whose records have all been copied.
    fn retire(&self, victims: &[u32], pace: &dyn Pace) -> Result<RetiredSegments, StoreError> {
        assert!(self.are_closed(victims), "a segment that takes records is not removed");
        if !planted::has(PlantedFault::LeavesIndexBehind) {
            let referred = self.referred(victims);
            if !referred.is_empty() {
                // All victims are kept together: removals were dropped on the condition that all victims
                // go.
                return Ok(RetiredSegments::KeptDamaged { referred });
            }
        }
        // The snapshot also makes the log durable: the writes that replaced records of the victims must
        // survive when the victims do not.
        let checkpointing = self.checkpointing.try_lock_for(CHECKPOINT_WAIT);
        let is_safe = planted::has(PlantedFault::RetiresTooEarly)
            || checkpointing.is_some() && self.checkpoint(victims, pace)?;
        if !is_safe {
            return Ok(RetiredSegments::NotNow);
        }
        self.debug_check_unreferred(victims);
        let mut meta = self.identity.file();
        let retired_sequence = self.counters.checkpointed_sequence.load(Ordering::Relaxed);
        let retiring = victims.to_vec();
        let retiring = Meta { retiring, retired_sequence, ..meta.meta().clone() };
        meta.write(retiring)?;
        drop(meta);
        {
            let mut key_files = self.key_files.lock();
            victims.iter().for_each(|number| {
                key_files.remove(number);
            });
        }
        self.log.forget_segments(victims);
        self.counters.merges.fetch_add(1, Ordering::Relaxed);
        self.identity.file().remove_retired(&*self.disk)?;
        Ok(RetiredSegments::All)
    }

    fn are_closed(&self, numbers: &[u32]) -> bool {
        let table = self.table.load();
        numbers.iter().all(|number| table.get(*number).is_some_and(|segment| segment.is_closed()))
    }

    /// Checks that the index does not refer to segments that are about to be removed, in builds with
    /// assertions. Leaves out large partitions.
    fn debug_check_unreferred(&self, victims: &[u32]) {
        if !cfg!(debug_assertions) || planted::has(PlantedFault::LeavesIndexBehind) {
            return;
        }
        for stripe in &self.stripes {
            let index = stripe.read();
            let is_small = index.entry_count() <= CHECKED_ENTRIES;
            let refers = |entry: IndexEntry| victims.contains(&entry.location.segment());
            assert!(!is_small || !index.iter().any(refers), "no entry refers to a removed segment");
        }
    }

    /// The victims that the index still refers to. Their records are damaged.
    fn referred(&self, victims: &[u32]) -> Vec<u32> {
        let table = self.table.load_full();
        let segments: Vec<_> = victims.iter().filter_map(|number| table.get(*number)).collect();
        if segments.iter().all(|segment| segment.counts().live_count == 0) {
            return Vec::new();
        }
        // The counts may lag behind the index, so the index decides.
        let mut referred = BTreeSet::new();
        for stripe in &self.stripes {
            let index = stripe.read();
            let numbers = index.iter().map(|entry| entry.location.segment());
            referred.extend(numbers.filter(|number| victims.contains(number)));
        }
        referred.into_iter().collect()
    }
}

/// Maximum time that a merge waits for a snapshot that is being written. After that, the merge is repeated
/// later.
const CHECKPOINT_WAIT: Duration = Duration::from_secs(60);
