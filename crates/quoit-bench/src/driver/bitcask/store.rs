//! The store: opened once, synced at intervals, merged on demand, closed at the end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use quoit_seam::{
    Execution, NeverPauses, NextStep, RealDisk, SystemClock, Threads, Worker, WorkerHandle,
};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, Durability, MERGE_WORKER};
use quoit_store::engine::Maintenance;
use quoit_store::error::StoreError;

use super::settings::StoreSettings;
use crate::driver::engine::RING_SIZE;

/// Interval of the engine's own periodic sync, so long that it never happens in a run: the configuration
/// decides when the store is synced.
const OWN_SYNC_INTERVAL_US: u64 = 86_400_000_000;

fn whole_ms(duration: Duration) -> u64 {
    quoit_number::saturating_u64(duration.as_millis())
}

/// An open store.
pub(super) struct BenchStore {
    pub(super) engine: Arc<BitcaskEngine>,
    /// Performs merges, one step per call.
    merger: Mutex<Option<Arc<dyn Worker>>>,
    opened_at: Instant,
    sync_interval: Option<Duration>,
    /// Time of the next sync, in milliseconds since the store was opened.
    next_sync_ms: AtomicU64,
}

impl BenchStore {
    /// Opens the store in the configured directory, or creates it.
    pub(super) fn open(settings: &StoreSettings) -> Result<Self, StoreError> {
        let durability = if settings.is_synced { Durability::Strict } else { Durability::Relaxed };
        let mut of_engine = BitcaskSettings {
            ring_size: RING_SIZE,
            durability,
            sync_interval_us: OWN_SYNC_INTERVAL_US,
            ..BitcaskSettings::new(rand::random())
        };
        if let Some(size_bytes) = settings.max_file_size_bytes {
            of_engine.max_file_size_bytes = size_bytes;
        }
        let disk = Arc::new(RealDisk::open(&settings.directory)?);
        let execution = MergesOnDemand::default();
        let clock = Arc::new(SystemClock::default());
        let (engine, _) = BitcaskEngine::open(disk, clock, &execution, of_engine)?;
        let interval_ms = settings.sync_interval.map_or(u64::MAX, whole_ms);
        Ok(Self {
            engine: Arc::new(engine),
            merger: Mutex::new(execution.into_merger()),
            opened_at: Instant::now(),
            sync_interval: settings.sync_interval,
            next_sync_ms: AtomicU64::new(interval_ms),
        })
    }

    /// Syncs everything written, if the interval is over. One worker syncs on behalf of all, and waits for
    /// the sync.
    pub(super) fn sync_when_due(&self) -> Result<(), StoreError> {
        let Some(interval) = self.sync_interval else { return Ok(()) };
        let now_ms = whole_ms(self.opened_at.elapsed());
        let due_ms = self.next_sync_ms.load(Ordering::Relaxed);
        let next_ms = now_ms.saturating_add(whole_ms(interval));
        let is_mine = now_ms >= due_ms
            && self
                .next_sync_ms
                .compare_exchange(due_ms, next_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_mine { self.engine.sync() } else { Ok(()) }
    }

    /// Merges until no segment is worth merging. Returns at once if another merge is in progress.
    pub(super) fn merge_when_needed(&self) {
        let Ok(merger) = self.merger.try_lock() else { return };
        while let Some(NextStep::Again) = merger.as_ref().map(|merger| merger.step(&NeverPauses)) {}
    }
}

impl Drop for BenchStore {
    fn drop(&mut self) {
        // A store that fails to close is recovered when it is opened again.
        let _ = self.engine.close();
    }
}

/// Starts a thread for each background worker of the engine, except for the merge worker. That one is kept,
/// so that the driver can call it.
#[derive(Default)]
struct MergesOnDemand(Mutex<Option<Arc<dyn Worker>>>);

impl MergesOnDemand {
    fn into_merger(self) -> Option<Arc<dyn Worker>> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Execution for MergesOnDemand {
    fn start(&self, name: &'static str, worker: Arc<dyn Worker>) -> Arc<dyn WorkerHandle> {
        if name != MERGE_WORKER {
            return Threads.start(name, worker);
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(worker);
        Arc::new(Unwoken)
    }
}

/// The handle of a worker that has no thread.
struct Unwoken;

impl WorkerHandle for Unwoken {
    fn wake(&self) {}

    fn stop(&self) {}
}
