//! A disk that answers when the test allows it, and that counts the reads.

use crate::watched_disk::{FileWatch, WatchedDisk};
use quoit_model::hash::RingSize;
use quoit_seam::{Clock, FaultyDisk, ReadAt, Threads};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings};
use quoit_store::engine::Engine;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// A gate that lets the device answer while it is open.
#[derive(Default)]
pub struct Gate {
    is_closed: Mutex<bool>,
    changed: Condvar,
    read_counts: [AtomicU64; 2],
}

/// Numbers of reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadCounts {
    /// Reads that must not wait.
    pub attempts: u64,
    /// Reads that may wait.
    pub waiting: u64,
}

impl Gate {
    pub fn close(&self) {
        *self.is_closed.lock().unwrap() = true;
    }

    pub fn open(&self) {
        *self.is_closed.lock().unwrap() = false;
        self.changed.notify_all();
    }

    /// Reads so far.
    pub fn reads(&self) -> ReadCounts {
        let [attempts, waiting] =
            [0, 1].map(|kind: usize| self.read_counts[kind].load(Ordering::Relaxed));
        ReadCounts { attempts, waiting }
    }

    fn pass(&self) {
        let is_closed = self.is_closed.lock().unwrap();
        drop(self.changed.wait_while(is_closed, |is_closed| *is_closed).unwrap());
    }
}

impl FileWatch for Gate {
    fn read(&self) {
        self.read_counts[1].fetch_add(1, Ordering::Relaxed);
        self.pass();
    }

    fn read_nowait(&self) -> Option<ReadAt> {
        self.read_counts[0].fetch_add(1, Ordering::Relaxed);
        self.is_closed.lock().unwrap().then_some(ReadAt::WouldBlock)
    }

    fn sync(&self) {
        self.pass();
    }
}

/// A disk that delays syncs, and reads that are not in memory, while its gate is closed.
pub type SlowDisk = WatchedDisk<Gate>;

impl SlowDisk {
    /// An empty disk whose gate is open.
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self { disk: FaultyDisk::new(seed), watch: Arc::new(Gate::default()) })
    }

    /// Makes every read that must not wait fail from now on, as if nothing were in memory.
    pub fn make_cold(&self) {
        self.disk.set_faults(|faults| faults.would_block_one_in = 1);
    }
}

/// An engine that keeps no records in memory.
pub fn bitcask_on(
    disk: Arc<SlowDisk>,
    ring_size: RingSize,
    clock: Arc<dyn Clock>,
) -> Arc<dyn Engine> {
    let settings = BitcaskSettings { ring_size, recent_writes_bytes: 0, ..BitcaskSettings::new(1) };
    let (engine, _) = BitcaskEngine::open(disk, clock, &Threads, settings).unwrap();
    Arc::new(engine)
}
