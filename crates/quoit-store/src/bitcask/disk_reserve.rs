//! Space on the disk that the log must leave free for the store itself.
//!
//! A start creates a new segment, key files and snapshots, and merges copy before they remove. If the log
//! took the last block of a disk, the store could not be opened again after an unclean stop, not even for
//! reading.

use crate::error::StoreError;
use quoit_seam::Disk;

/// Maximum number of bytes between two queries of the free space. Other programs may write to the disk as
/// well.
const ASKED_EVERY_BYTES: u64 = 4 << 20;

/// The free space that the log leaves on the disk. The disk is queried rarely.
#[derive(Debug)]
pub(super) struct DiskReserve {
    kept_bytes: u64,
    /// Bytes that may be taken before the next query.
    granted_bytes: u64,
}

impl DiskReserve {
    /// Keeps this many bytes of the disk free; with 0 the disk is never queried.
    pub(super) const fn new(kept_bytes: u64) -> Self {
        Self { kept_bytes, granted_bytes: 0 }
    }

    /// Takes space for a record.
    ///
    /// # Errors
    ///
    /// [`StoreError::DiskFull`] if less than the kept space would be left. The next call queries the disk
    /// again.
    pub(super) fn take(&mut self, disk: &dyn Disk, size_bytes: u64) -> Result<(), StoreError> {
        if let Some(left) = self.granted_bytes.checked_sub(size_bytes) {
            self.granted_bytes = left;
            return Ok(());
        }
        if self.kept_bytes == 0 {
            return Ok(());
        }
        self.granted_bytes = 0;
        // If the disk cannot tell its free space, the log tries the write, which fails if the disk is full.
        let Some(available_bytes) = disk.available_bytes() else { return Ok(()) };
        let Some(left) = available_bytes.checked_sub(self.kept_bytes + size_bytes) else {
            return Err(StoreError::DiskFull { path: disk.path(), size_bytes });
        };
        self.granted_bytes = left.min(ASKED_EVERY_BYTES);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use quoit_seam::FaultyDisk;

    #[test]
    fn records_take_what_is_beyond_the_kept_room_and_more_when_there_is_more() {
        let disk = FaultyDisk::new(1);
        let capacity = |bytes| disk.set_faults(|faults| faults.capacity_bytes = Some(bytes));
        capacity(10_000);
        let mut reserve = DiskReserve::new(4_000);
        let full = reserve.take(&disk, 6_001);
        assert!(matches!(full, Err(StoreError::DiskFull { size_bytes: 6_001, .. })), "{full:?}");
        assert!(reserve.take(&disk, 5_000).is_ok());
        // Nothing was written meanwhile, so the disk has as much free space as before.
        assert!(reserve.take(&disk, 1_000).is_ok());
        capacity(4_000);
        assert!(reserve.take(&disk, 1).is_err());
        capacity(4_001);
        assert!(reserve.take(&disk, 1).is_ok());
    }

    #[test]
    fn without_kept_room_the_disk_is_not_asked() {
        let disk = FaultyDisk::new(1);
        disk.set_faults(|faults| faults.capacity_bytes = Some(10));
        assert!(DiskReserve::new(0).take(&disk, 1_000).is_ok());
    }

    #[test]
    fn a_large_disk_is_asked_again_after_some_mebibytes() {
        let disk = FaultyDisk::new(1);
        let capacity = |bytes| disk.set_faults(|faults| faults.capacity_bytes = Some(bytes));
        capacity(1 << 30);
        let mut reserve = DiskReserve::new(1 << 20);
        assert!(reserve.take(&disk, 1_000).is_ok());
        capacity(1 << 20);
        assert!(reserve.take(&disk, ASKED_EVERY_BYTES).is_ok());
        assert!(reserve.take(&disk, 1_000).is_err());
    }
}
