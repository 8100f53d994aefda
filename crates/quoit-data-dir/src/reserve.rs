//! Disk space reserved for a start.
//!
//! A start has to write before the node can serve: to the control plane's file, and to a new segment of a
//! log. On a full disk it would fail after any unclean stop, and then not even reads would be possible.
//! Therefore an empty file keeps some space allocated. A start that finds less free space removes the file,
//! and it is created again when the disk has space.

use anyhow::{Context, Result};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the file in the data directory.
const NAME: &str = "RESERVE";

/// Size of the file in bytes.
const SIZE_BYTES: u64 = 16 << 20;

/// Free space in bytes below which the file is not created, so that a nearly full disk is left to the
/// engine.
const ROOM_BYTES_MIN: u64 = 3 * SIZE_BYTES;

/// Interval between attempts to create the file.
const LOOK_PAUSE: Duration = Duration::from_secs(10);

/// The space that a data directory reserves for a start.
#[derive(Clone, Debug)]
pub struct Reserve {
    directory: PathBuf,
}

impl Reserve {
    /// The reserve of an existing data directory.
    #[must_use]
    pub fn of(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Releases the space if the disk has less free space than the reserve. Returns true if it did.
    ///
    /// # Errors
    ///
    /// When the free space can't be read, or the file can't be removed.
    pub fn release_if_needed(&self) -> Result<bool> {
        if self.room_bytes()? >= SIZE_BYTES {
            return Ok(false);
        }
        match fs::remove_file(self.path()) {
            Ok(()) => Ok(true),
            Err(fault) if fault.kind() == ErrorKind::NotFound => Ok(false),
            Err(fault) => Err(fault).with_context(|| format!("removing {}", self.path().display())),
        }
    }

    /// Creates the file whenever it is missing and there is space for it. Does not return.
    pub async fn keep(self) {
        let mut looks = tokio::time::interval(LOOK_PAUSE);
        let mut is_told = false;
        loop {
            looks.tick().await;
            match self.make_if_missing() {
                Ok(()) => is_told = false,
                Err(_) if is_told => {}
                Err(fault) => {
                    tracing::warn!(
                        "the reserve of disk space for a start with a full disk can't be made: \
                         {fault:#}"
                    );
                    is_told = true;
                }
            }
        }
    }

    fn make_if_missing(&self) -> Result<()> {
        let path = self.path();
        if path.exists() || self.room_bytes()? < ROOM_BYTES_MIN {
            return Ok(());
        }
        let file = File::create_new(&path).with_context(|| format!("making {}", path.display()))?;
        let made = fallocate(&file, FallocateFlags::empty(), 0, SIZE_BYTES);
        if made.is_err() {
            // A file without allocated blocks reserves nothing.
            fs::remove_file(&path).ok();
        }
        made.with_context(|| format!("keeping {} MiB in {}", SIZE_BYTES >> 20, path.display()))
    }

    fn room_bytes(&self) -> Result<u64> {
        crate::engines::free_bytes(&self.directory)
    }

    fn path(&self) -> PathBuf {
        self.directory.join(NAME)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn room_is_kept_by_blocks_of_the_disk_and_stays_while_there_is_other_room() {
        let directory = tempfile::tempdir().unwrap();
        let reserve = Reserve::of(directory.path());
        reserve.make_if_missing().unwrap();
        let file = directory.path().join(NAME);
        assert!(file.metadata().unwrap().blocks() * 512 >= SIZE_BYTES);
        assert!(!reserve.release_if_needed().unwrap());
        reserve.make_if_missing().unwrap();
        assert!(file.exists());
    }
}
