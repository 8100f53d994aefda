//! Reaping: tombstones that everybody has seen are removed.
//!
//! A tombstone is due some time after it was written (`delete_mode`). Those written while the node runs
//! wait in a queue; what does not fit the queue, and what was there when the node started, is found by a
//! scan of the index for tombstones. A record is removed only if it is still the very tombstone that was
//! noted, decided in one step with the removal.
//!
//! Where there are several nodes, the first primary of a record has it reaped, once all primaries are
//! up, only one layout is live, all of them hold the tombstone or nothing, and no member has strays of
//! its partition.

mod agreement;

use crate::replica::Place;
use crate::store::{ReplicatedStore, decode};
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::hash::{Identity, Partition};
use quoit_store::engine::{Record, RecordAt};
use quoit_store::error::StoreError;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Tombstones that wait in memory; further ones are found by the next scan.
const QUEUE_COUNT_MAX: usize = 100_000;
/// How often the reaper looks for what is due.
const TICK: Duration = Duration::from_millis(200);
/// Records that a scan takes from the engine at once.
const SCAN_PAGE: usize = 1_000;

/// How soon after its writing a tombstone is reaped (`delete_mode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeleteMode {
    /// Never.
    Keep,
    /// With the write that makes it.
    Immediate,
    /// After so many milliseconds.
    AfterMs(u64),
}

impl DeleteMode {
    /// Milliseconds that a tombstone lives at least; `None` = for ever.
    const fn delay_ms(self) -> Option<u64> {
        match self {
            Self::Keep => None,
            Self::Immediate => Some(0),
            Self::AfterMs(delay_ms) => Some(delay_ms),
        }
    }
}

impl Default for DeleteMode {
    fn default() -> Self {
        Self::AfterMs(3_000)
    }
}

/// A tombstone that will be reaped if it is still there when it is due.
struct Noted {
    due_us: u64,
    encoded: Bytes,
    partition: Partition,
    digest: u64,
}

/// The queue of noted tombstones, by the time when they are due.
pub(crate) struct Reaper {
    queue: Mutex<VecDeque<Noted>>,
    scan_needed: AtomicBool,
}

impl Default for Reaper {
    fn default() -> Self {
        // Tombstones of the former run are known to the index alone.
        Self { queue: Mutex::default(), scan_needed: AtomicBool::new(true) }
    }
}

impl Reaper {
    pub(crate) fn reap_at_once(&self, mode: DeleteMode) -> bool {
        mode == DeleteMode::Immediate
    }

    /// Remembers a tombstone that is being written now.
    pub(crate) fn note(&self, mode: DeleteMode, at: &RecordAt<'_>, digest: u64, now_us: u64) {
        let Some(delay_ms) = mode.delay_ms() else { return };
        let mut queue = self.queue.lock();
        if queue.len() >= QUEUE_COUNT_MAX {
            self.scan_needed.store(true, Ordering::Relaxed);
            return;
        }
        queue.push_back(Noted {
            due_us: now_us + delay_ms * 1_000,
            encoded: Bytes::copy_from_slice(at.encoded),
            partition: at.partition,
            digest,
        });
    }

    /// Whether a scan is needed and worth its price: it is put off until half of the queue is free. A scan
    /// finds all that is queued again, so the queue is emptied for it.
    fn start_scan(&self) -> bool {
        let mut queue = self.queue.lock();
        if queue.len() > QUEUE_COUNT_MAX / 2 || !self.scan_needed.swap(false, Ordering::Relaxed) {
            return false;
        }
        queue.clear();
        true
    }

    fn take_due(&self, now_us: u64) -> Vec<Noted> {
        let mut queue = self.queue.lock();
        let due = queue.iter().take_while(|noted| noted.due_us <= now_us).count();
        queue.drain(..due).collect()
    }
}

impl ReplicatedStore {
    pub(crate) async fn run_reaper(self: Arc<Self>) {
        let Some(delay_ms) = self.settings.delete_mode.delay_ms() else { return };
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if !self.topology_now().is_alone() {
                self.reap_together(delay_ms).await;
                continue;
            }
            let store = Arc::clone(&self);
            let reap = move || Ok(store.reap_step(delay_ms)?);
            if let Err(fault) = self.settings.blocking.aside(reap).await {
                tracing::warn!(%fault, "reaping put off");
            }
        }
    }

    /// Reaps what is due now on a node that is alone and returns how many records went.
    ///
    /// # Errors
    ///
    /// Engine faults; what was not reaped is found by the next scan.
    pub fn reap_step(&self, delay_ms: u64) -> Result<usize, StoreError> {
        let mut reaped_count = 0;
        for noted in self.due_tombstones(delay_ms)? {
            match self.reap(&noted) {
                Ok(true) => reaped_count += 1,
                Ok(false) => {}
                Err(fault) => {
                    self.reaper.scan_needed.store(true, Ordering::Relaxed);
                    return Err(fault);
                }
            }
        }
        Ok(reaped_count)
    }

    /// Tombstones that are due, out of the queue.
    fn due_tombstones(&self, delay_ms: u64) -> Result<Vec<Noted>, StoreError> {
        let now_us = self.clock.unix_us();
        if self.reaper.start_scan()
            && let Err(fault) = self.scan_tombstones(delay_ms)
        {
            self.reaper.scan_needed.store(true, Ordering::Relaxed);
            return Err(fault);
        }
        Ok(self.reaper.take_due(now_us))
    }

    fn reap(&self, noted: &Noted) -> Result<bool, StoreError> {
        let Ok(place) = Place::new(&noted.encoded, noted.partition) else { return Ok(false) };
        self.reap_copy(&place.at(), noted.digest)
    }

    fn scan_tombstones(&self, delay_ms: u64) -> Result<(), StoreError> {
        let ring_size = self.ring_size();
        for partition in 0..ring_size.get() {
            let partition = Partition(partition);
            let mut from = Some(Identity(0));
            while let Some(identity) = from {
                let page = self.engine.fold(partition, identity, SCAN_PAGE, true)?;
                self.note_scanned(partition, delay_ms, page.entries);
                from = page.next;
            }
        }
        Ok(())
    }

    fn note_scanned(&self, partition: Partition, delay_ms: u64, entries: Vec<(Bytes, Record)>) {
        let mut queue = self.reaper.queue.lock();
        for (encoded, record) in entries {
            let Ok(object) = decode(&record.value) else { continue };
            if queue.len() >= QUEUE_COUNT_MAX {
                self.reaper.scan_needed.store(true, Ordering::Relaxed);
                return;
            }
            let digest = record.meta.digest;
            let due_us = object.last_modified_us() + delay_ms * 1_000;
            let place = queue.partition_point(|noted| noted.due_us <= due_us);
            queue.insert(place, Noted { due_us, encoded, partition, digest });
        }
    }
}
