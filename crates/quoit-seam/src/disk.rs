//! Files and directories.

use crate::error::DiskError;
use std::sync::Arc;

/// Outcome of a positioned read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadAt {
    /// So many bytes were read; fewer than asked for at the end of the file, and where the rest is not
    /// in memory.
    Read(usize),
    /// All of the buffer was filled with bytes that this process wrote, from its own memory: no disk can
    /// have spoiled them.
    Kept,
    /// The bytes are not in memory and the caller did not want to wait.
    WouldBlock,
}

/// One open file. Handles stay readable after the file was removed from its directory.
pub trait DiskFile: Send + Sync {
    /// Reads at `offset` until `buffer` is full or the file ends; waits for the device.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, DiskError>;

    /// As `read_at`, but gives up with `WouldBlock` instead of waiting for the device.
    fn read_at_nowait(&self, buffer: &mut [u8], offset: u64) -> Result<ReadAt, DiskError>;

    /// Writes all of `bytes` at `offset`. After an error any part of them may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError>;

    /// Makes the file's bytes and length durable.
    fn sync(&self) -> Result<(), DiskError>;

    /// Length in bytes.
    fn size_bytes(&self) -> Result<u64, DiskError>;

    /// Cuts the file off (or extends it with zeros) at `len`.
    fn truncate(&self, len: u64) -> Result<(), DiskError>;
}

/// Held as long as the data directory is ours; dropping it lets go.
pub trait DiskLock: Send + Sync {}

/// One data directory. Names are plain file names, without separators.
pub trait Disk: Send + Sync {
    /// Opens a file for reading and writing; `create_new` makes it and fails if it exists.
    fn open(&self, name: &str, create_new: bool) -> Result<Arc<dyn DiskFile>, DiskError>;

    /// Names of all files.
    fn list(&self) -> Result<Vec<String>, DiskError>;

    /// Removes a file; durable after `sync_directory`.
    fn remove(&self, name: &str) -> Result<(), DiskError>;

    /// Renames a file over another; durable after `sync_directory`.
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Makes creations, removals and renames durable.
    fn sync_directory(&self) -> Result<(), DiskError>;

    /// Takes the directory for this process.
    fn lock(&self) -> Result<Box<dyn DiskLock>, DiskError>;

    /// Bytes that files may still grow by; `None` when that can't be told.
    fn room_bytes(&self) -> Option<u64>;

    /// The directory's name for error messages.
    fn path(&self) -> String;
}

/// Puts bytes in the place of a file, durably, and gives the new file. They are written and synced under the
/// name with `.new` behind it first, so that a crash leaves the former file or the new one.
///
/// # Errors
///
/// When the disk refuses: the former file may count or the new one, until a call has succeeded.
pub fn replace_file(
    disk: &dyn Disk,
    name: &str,
    bytes: &[u8],
) -> Result<Arc<dyn DiskFile>, DiskError> {
    let new_name = format!("{name}.new");
    if disk.list()?.contains(&new_name) {
        disk.remove(&new_name)?;
    }
    let file = disk.open(&new_name, true)?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    disk.rename(&new_name, name)?;
    disk.sync_directory()?;
    Ok(file)
}
