//! A disk in memory that injects the faults of real disks.

mod random;
mod unsynced;

use crate::disk::{Disk, DiskFile, DiskLock, ReadAt};
use crate::error::DiskError;
use crate::manual::ManualClock;
use parking_lot::{Mutex, MutexGuard};
use quoit_number::index;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use unsynced::{FileState, NameChange, UnsyncedChange};

pub use random::Random;

/// A data directory in memory with faults on demand. All random decisions follow from its seed.
///
/// [`FaultyDisk::crash`] may lose unsynced writes, in whole or in part and in any order. It may also
/// lose creations, removals and renames that no `sync_directory` has covered, the latest ones first.
/// Clones are the same disk.
#[derive(Clone)]
pub struct FaultyDisk {
    state: Arc<Mutex<FaultyState>>,
    /// Handles of an earlier boot fail.
    boot: u64,
}

struct FaultyState {
    random: Random,
    boot: u64,
    locked: bool,
    files: BTreeMap<u64, FileState>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    /// Changes of names since the directory was synced.
    name_changes: Vec<NameChange>,
    next_file: u64,
    faults: Faults,
}

/// Faults of the disk. The default has none.
#[derive(Clone, Default)]
pub struct Faults {
    /// Maximum bytes of all files together.
    pub capacity_bytes: Option<u64>,
    /// Number of operations that still succeed. After them all operations fail until the next crash or
    /// kill.
    pub operations_left: Option<u64>,
    /// Number of next writes that fail, after writing a part.
    pub failing_writes: u64,
    /// Number of next reads that fail, among reads that may wait.
    pub failing_reads: u64,
    /// Number of next syncs of files that fail and drop the data that they should have made durable.
    pub failing_syncs: u64,
    /// One in this many reads that must not wait returns `WouldBlock`; 0 for none.
    pub would_block_one_in: u64,
    /// True if a crash may also keep all unsynced writes of a file but a part of the last one.
    pub tears_last_write: bool,
    /// Makes syncs report success without an effect: a planted fault.
    pub forgets_syncs: bool,
    /// Clock that each sync of a file advances, and the number of microseconds.
    pub sync_takes_us: Option<(Arc<ManualClock>, u64)>,
}

impl FaultyDisk {
    /// An empty disk.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = FaultyState {
            random: Random(seed),
            boot: 0,
            locked: false,
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
            next_file: 0,
            faults: Faults::default(),
        };
        Self { state: Arc::new(Mutex::new(state)), boot: 0 }
    }

    /// Changes the faults from now on. A crash or kill ends them.
    pub fn set_faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.state.lock().faults);
    }

    /// Cuts the power: unsynced changes may be lost. All handles become invalid. Returns the disk as
    /// the machine finds it afterwards.
    #[must_use]
    pub fn crash(&self) -> Self {
        let mut state = self.state.lock();
        state.lose_unsynced();
        self.reboot(&mut state)
    }

    /// Kills the process: everything that was written stays. All handles become invalid.
    #[must_use]
    pub fn kill(&self) -> Self {
        let mut state = self.state.lock();
        self.reboot(&mut state)
    }

    fn reboot(&self, state: &mut FaultyState) -> Self {
        state.boot += 1;
        state.locked = false;
        state.faults = Faults::default();
        Self { state: Arc::clone(&self.state), boot: state.boot }
    }

    /// Bytes of all files together.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.state.lock().used_bytes()
    }

    /// Bytes of a file; `None` if it does not exist.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let file = state.names.get(name)?;
        Some(state.files[file].bytes.clone())
    }

    /// True if a power cut at this moment is certain to leave a file whose bytes satisfy `is_wanted`.
    pub fn has_durable(&self, is_wanted: impl Fn(&[u8]) -> bool) -> bool {
        let state = self.state.lock();
        state.durable_names.values().any(|file| is_wanted(&state.files[file].durable))
    }

    /// True if a file's bytes satisfy `is_wanted`, whether they are durable or not.
    pub fn has_written(&self, is_wanted: impl Fn(&[u8]) -> bool) -> bool {
        let state = self.state.lock();
        state.names.values().any(|file| is_wanted(&state.files[file].bytes))
    }

    /// Creates or replaces a file durably, as another program would.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state.lock();
        let number = state.next_file;
        state.next_file += 1;
        let durable = bytes.clone();
        state.files.insert(number, FileState { bytes, durable, ..FileState::default() });
        state.names.insert(name.to_owned(), number);
        state.durable_names.insert(name.to_owned(), number);
    }

    /// Removes a file durably, as another program would.
    pub fn delete(&self, name: &str) {
        let mut state = self.state.lock();
        state.names.remove(name);
        state.durable_names.remove(name);
    }

    /// Flips one bit of a file durably.
    ///
    /// # Panics
    ///
    /// If the file has no such byte.
    pub fn flip_bit(&self, name: &str, offset: usize, bit: u32) {
        let mut state = self.state.lock();
        let number = state.names[name];
        let file = state.files.get_mut(&number).expect("names name files");
        file.bytes[offset] ^= 1 << bit;
        if let Some(byte) = file.durable.get_mut(offset) {
            *byte ^= 1 << bit;
        }
    }

    /// Makes a range of a file unreadable and unwritable as long as the file exists. A later file of
    /// the same name does not have the bad range.
    ///
    /// # Panics
    ///
    /// If the file does not exist.
    pub fn make_unreadable(&self, name: &str, bytes: Range<u64>) {
        let mut state = self.state.lock();
        let number = state.names[name];
        state.file(number).bad.push(bytes);
    }

    fn running(
        &self,
        what: &'static str,
        name: &str,
    ) -> Result<MutexGuard<'_, FaultyState>, DiskError> {
        let mut state = self.state.lock();
        if state.boot != self.boot {
            return Err(failed(what, name, "the machine was restarted"));
        }
        if let Some(left) = &mut state.faults.operations_left {
            if *left == 0 {
                return Err(failed(what, name, "the disk is gone"));
            }
            *left -= 1;
        }
        Ok(state)
    }

    fn handle(&self, name: &str, number: u64) -> Arc<dyn DiskFile> {
        Arc::new(FaultyFile { disk: self.clone(), name: name.to_owned(), number })
    }
}

fn failed(action: &'static str, path: &str, reason: &str) -> DiskError {
    DiskError::Io { action, path: path.to_owned(), reason: reason.to_owned() }
}

impl Disk for FaultyDisk {
    fn open(&self, name: &str, create_new: bool) -> Result<Arc<dyn DiskFile>, DiskError> {
        let mut state = self.running("open", name)?;
        let number = match (state.names.get(name), create_new) {
            (Some(number), false) => *number,
            (None, true) => {
                let number = state.next_file;
                state.next_file += 1;
                state.files.insert(number, FileState::default());
                state.change_name(NameChange::Create { name: name.to_owned(), file: number });
                number
            }
            (None, false) => return Err(failed("open", name, "no such file")),
            (Some(_), true) => return Err(failed("open", name, "the file exists")),
        };
        drop(state);
        Ok(self.handle(name, number))
    }

    fn list(&self) -> Result<Vec<String>, DiskError> {
        Ok(self.running("list", "faulty disk")?.names.keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        let mut state = self.running("remove", name)?;
        if !state.names.contains_key(name) {
            return Err(failed("remove", name, "no such file"));
        }
        state.change_name(NameChange::Remove { name: name.to_owned() });
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let mut state = self.running("rename", from)?;
        if !state.names.contains_key(from) {
            return Err(failed("rename", from, "no such file"));
        }
        state.change_name(NameChange::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    fn sync_directory(&self) -> Result<(), DiskError> {
        let mut state = self.running("sync directory", "faulty disk")?;
        if !state.faults.forgets_syncs {
            state.name_changes.clear();
            state.durable_names = state.names.clone();
        }
        Ok(())
    }

    fn lock(&self) -> Result<Box<dyn DiskLock>, DiskError> {
        let mut state = self.running("lock", "faulty disk")?;
        if state.locked {
            return Err(DiskError::Locked { path: self.path() });
        }
        state.locked = true;
        Ok(Box::new(FaultyLock { disk: self.clone() }))
    }

    fn available_bytes(&self) -> Option<u64> {
        let state = self.state.lock();
        state.faults.capacity_bytes.map(|_| state.available_bytes())
    }

    fn path(&self) -> String {
        "faulty disk".to_owned()
    }
}

struct FaultyLock {
    disk: FaultyDisk,
}

impl DiskLock for FaultyLock {}

impl Drop for FaultyLock {
    fn drop(&mut self) {
        let mut state = self.disk.state.lock();
        if state.boot == self.disk.boot {
            state.locked = false;
        }
    }
}

struct FaultyFile {
    disk: FaultyDisk,
    name: String,
    number: u64,
}

impl FaultyFile {
    fn state(&self, what: &'static str) -> Result<MutexGuard<'_, FaultyState>, DiskError> {
        self.disk.running(what, &self.name)
    }
}

impl DiskFile for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, DiskError> {
        let mut state = self.state("read")?;
        if state.faults.failing_reads > 0 {
            state.faults.failing_reads -= 1;
            return Err(failed("read", &self.name, "input/output error"));
        }
        if state.file(self.number).is_bad(offset, buffer.len()) {
            return Err(failed("read", &self.name, "a bad sector"));
        }
        let bytes = &state.file(self.number).bytes;
        let start = bytes.len().min(index(offset));
        let count = (bytes.len() - start).min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[start..start + count]);
        Ok(count)
    }

    fn read_at_nowait(&self, buffer: &mut [u8], offset: u64) -> Result<ReadAt, DiskError> {
        let mut state = self.state("read")?;
        let one_in = state.faults.would_block_one_in;
        if one_in > 0 && state.random.below(one_in) == 0 {
            return Ok(ReadAt::WouldBlock);
        }
        drop(state);
        self.read_at(buffer, offset).map(ReadAt::Read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        let mut state = self.state("write")?;
        if state.file(self.number).is_bad(offset, bytes.len()) {
            return Err(failed("write", &self.name, "a bad sector"));
        }
        let grows = (offset + bytes.len() as u64).saturating_sub(state.file(self.number).size());
        let room = state.available_bytes();
        let is_full = grows > room;
        let fails = state.faults.failing_writes > 0;
        if !is_full && !fails {
            state.file(self.number).write(bytes, offset);
            return Ok(());
        }
        let most = bytes.len() as u64 - if is_full { grows - room } else { 0 };
        let part = index(state.random.below(most + 1));
        state.file(self.number).write(&bytes[..part], offset);
        if is_full {
            let size_bytes = bytes.len() as u64;
            return Err(DiskError::DiskFull { path: self.name.clone(), size_bytes });
        }
        state.faults.failing_writes -= 1;
        Err(failed("write", &self.name, "input/output error"))
    }

    fn sync(&self) -> Result<(), DiskError> {
        let mut state = self.state("sync")?;
        if let Some((clock, us)) = &state.faults.sync_takes_us {
            clock.advance_us(*us);
        }
        if state.faults.failing_syncs > 0 {
            state.faults.failing_syncs -= 1;
            // As Linux does: pages whose write failed count as clean from now on.
            let file = state.file(self.number);
            file.changes.clear();
            return Err(failed("sync", &self.name, "input/output error"));
        }
        if !state.faults.forgets_syncs {
            state.file(self.number).make_durable();
        }
        Ok(())
    }

    fn size_bytes(&self) -> Result<u64, DiskError> {
        Ok(self.state("inspect")?.file(self.number).size())
    }

    fn truncate(&self, len: u64) -> Result<(), DiskError> {
        let mut state = self.state("truncate")?;
        let grows = len.saturating_sub(state.file(self.number).size());
        if grows > state.available_bytes() {
            return Err(DiskError::DiskFull { path: self.name.clone(), size_bytes: grows });
        }
        let file = state.file(self.number);
        file.bytes.resize(index(len), 0);
        file.changes.push(UnsyncedChange::Truncate { size_bytes: len });
        Ok(())
    }
}

impl FaultyState {
    fn file(&mut self, number: u64) -> &mut FileState {
        self.files.get_mut(&number).expect("files stay as long as the disk")
    }

    fn available_bytes(&self) -> u64 {
        let capacity_bytes = self.faults.capacity_bytes.unwrap_or(u64::MAX);
        capacity_bytes.saturating_sub(self.used_bytes())
    }

    fn used_bytes(&self) -> u64 {
        self.names.values().map(|file| self.files[file].size()).sum()
    }

    fn change_name(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.name_changes.push(change);
    }

    fn lose_unsynced(&mut self) {
        let kept = self.random.surviving_count(self.name_changes.len());
        for change in self.name_changes.drain(..).take(kept) {
            change.apply(&mut self.durable_names);
        }
        self.names = self.durable_names.clone();
        let named: Vec<u64> = self.names.values().copied().collect();
        self.files.retain(|number, _| named.contains(number));
        for file in self.files.values_mut() {
            let tears_last = self.faults.tears_last_write && self.random.below(2) == 0;
            file.lose_unsynced(&mut self.random, tears_last);
        }
    }
}
