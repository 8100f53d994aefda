//! A disk whose files tell a watch what happens to them.

use quoit_seam::{Disk, DiskError, DiskFile, DiskLock, FaultyDisk, ReadAt};
use std::sync::Arc;

/// Learns of operations on files before they are made.
pub trait FileWatch: Send + Sync + 'static {
    /// A read begins that may wait.
    fn read(&self) {}

    /// A read begins that must not wait. Its result, if the watch decides it.
    fn read_nowait(&self) -> Option<ReadAt> {
        None
    }

    /// These bytes are about to be written.
    fn write(&self, _bytes: &[u8]) {}

    /// A sync begins.
    fn sync(&self) {}
}

/// A disk with a watch.
pub struct WatchedDisk<W> {
    pub disk: FaultyDisk,
    pub watch: Arc<W>,
}

struct WatchedFile<W> {
    file: Arc<dyn DiskFile>,
    watch: Arc<W>,
}

impl<W: FileWatch> DiskFile for WatchedFile<W> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, DiskError> {
        self.watch.read();
        self.file.read_at(buffer, offset)
    }

    fn read_at_nowait(&self, buffer: &mut [u8], offset: u64) -> Result<ReadAt, DiskError> {
        match self.watch.read_nowait() {
            Some(decided) => Ok(decided),
            None => self.file.read_at_nowait(buffer, offset),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        self.watch.write(bytes);
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.watch.sync();
        self.file.sync()
    }

    fn size_bytes(&self) -> Result<u64, DiskError> {
        self.file.size_bytes()
    }

    fn truncate(&self, len: u64) -> Result<(), DiskError> {
        self.file.truncate(len)
    }
}

impl<W: FileWatch> Disk for WatchedDisk<W> {
    fn open(&self, name: &str, create_new: bool) -> Result<Arc<dyn DiskFile>, DiskError> {
        let file = self.disk.open(name, create_new)?;
        Ok(Arc::new(WatchedFile { file, watch: Arc::clone(&self.watch) }))
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

    fn available_bytes(&self) -> Option<u64> {
        None
    }

    fn path(&self) -> String {
        self.disk.path()
    }
}
