//! A disk whose syncs of the log take time.

use crate::losses::is_segment;
use crate::pausing::pause_in_sync;
use quoit_seam::{Disk, DiskError, DiskFile, DiskLock, ReadAt};
use std::sync::Arc;

/// A disk on which a sync of a segment takes time, if the step that syncs pauses in syncs.
///
/// The sync covers the bytes that were written before it began, as a real one is certain to do. Bytes that
/// are written while it lasts need a further sync. A loss of power during the pause finds the bytes that the
/// sync covers durable. Syncs of other files take no time: the engine makes some
/// of them under locks that requests need as well.
pub(crate) struct SlowSyncDisk<D>(D);

impl<D: Disk> SlowSyncDisk<D> {
    pub(crate) const fn new(disk: D) -> Self {
        Self(disk)
    }
}

impl<D: Disk> Disk for SlowSyncDisk<D> {
    fn open(&self, name: &str, create_new: bool) -> Result<Arc<dyn DiskFile>, DiskError> {
        let file = self.0.open(name, create_new)?;
        Ok(if is_segment(name) { Arc::new(SlowSyncFile(file)) } else { file })
    }

    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.0.list()
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.0.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.0.rename(from, to)
    }

    fn sync_directory(&self) -> Result<(), DiskError> {
        self.0.sync_directory()
    }

    fn lock(&self) -> Result<Box<dyn DiskLock>, DiskError> {
        self.0.lock()
    }

    fn available_bytes(&self) -> Option<u64> {
        self.0.available_bytes()
    }

    fn path(&self) -> String {
        self.0.path()
    }
}

/// A segment of the log.
struct SlowSyncFile(Arc<dyn DiskFile>);

impl DiskFile for SlowSyncFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, DiskError> {
        self.0.read_at(buffer, offset)
    }

    fn read_at_nowait(&self, buffer: &mut [u8], offset: u64) -> Result<ReadAt, DiskError> {
        self.0.read_at_nowait(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        self.0.write_at(bytes, offset)
    }

    fn write_parts_at(&self, parts: &[&[u8]], offset: u64) -> Result<(), DiskError> {
        self.0.write_parts_at(parts, offset)
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.0.sync()?;
        pause_in_sync();
        Ok(())
    }

    fn size_bytes(&self) -> Result<u64, DiskError> {
        self.0.size_bytes()
    }

    fn truncate(&self, len: u64) -> Result<(), DiskError> {
        self.0.truncate(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pausing::{PausePlaces, PausingStep};
    use quoit_seam::{FaultyDisk, NextStep, Pace, Worker};

    /// A worker that syncs a file in each step.
    struct Syncer(Arc<dyn DiskFile>);

    impl Worker for Syncer {
        fn step(&self, _: &dyn Pace) -> NextStep {
            self.0.sync().expect("no fault");
            NextStep::WhenWoken
        }
    }

    #[test]
    fn a_sync_makes_durable_what_was_written_before_it_and_not_what_is_written_meanwhile() {
        let disk = FaultyDisk::new(1);
        let file = SlowSyncDisk::new(disk.clone()).open("1.log", true).expect("no fault");
        disk.sync_directory().expect("no fault");
        file.write_at(b"before", 0).expect("no fault");
        let step = PausingStep::begin(Arc::new(Syncer(Arc::clone(&file))), PausePlaces::Syncs);
        file.write_at(b", meanwhile", 6).expect("no fault");
        step.hurry();
        assert!(disk.has_durable(|bytes| bytes == b"before"));
        assert!(disk.has_written(|bytes| bytes == b"before, meanwhile"));
    }
}
