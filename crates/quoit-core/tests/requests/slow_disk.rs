//! A disk that answers when the test allows it, and that counts the reads.

use quoit_model::hash::RingSize;
use quoit_seam::{Clock, Disk, DiskError, DiskFile, DiskLock, FaultyDisk, ReadAt, Threads};
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

/// A disk that delays syncs, and reads that are not in memory, while its gate is closed.
pub struct SlowDisk {
    pub disk: FaultyDisk,
    pub gate: Arc<Gate>,
}

impl SlowDisk {
    /// An empty disk whose gate is open.
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self { disk: FaultyDisk::new(seed), gate: Arc::new(Gate::default()) })
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

struct SlowFile {
    file: Arc<dyn DiskFile>,
    gate: Arc<Gate>,
}

impl DiskFile for SlowFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, DiskError> {
        self.gate.read_counts[1].fetch_add(1, Ordering::Relaxed);
        self.gate.pass();
        self.file.read_at(buffer, offset)
    }

    fn read_at_nowait(&self, buffer: &mut [u8], offset: u64) -> Result<ReadAt, DiskError> {
        self.gate.read_counts[0].fetch_add(1, Ordering::Relaxed);
        if *self.gate.is_closed.lock().unwrap() {
            return Ok(ReadAt::WouldBlock);
        }
        self.file.read_at_nowait(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.gate.pass();
        self.file.sync()
    }

    fn size_bytes(&self) -> Result<u64, DiskError> {
        self.file.size_bytes()
    }

    fn truncate(&self, len: u64) -> Result<(), DiskError> {
        self.file.truncate(len)
    }
}

impl Disk for SlowDisk {
    fn open(&self, name: &str, create_new: bool) -> Result<Arc<dyn DiskFile>, DiskError> {
        let file = self.disk.open(name, create_new)?;
        Ok(Arc::new(SlowFile { file, gate: Arc::clone(&self.gate) }))
    }

    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.disk.list()
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.disk.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.disk.rename(from, to)
    }

    fn sync_directory(&self) -> Result<(), DiskError> {
        self.disk.sync_directory()
    }

    fn lock(&self) -> Result<Box<dyn DiskLock>, DiskError> {
        self.disk.lock()
    }

    fn room_bytes(&self) -> Option<u64> {
        None
    }

    fn path(&self) -> String {
        self.disk.path()
    }
}
