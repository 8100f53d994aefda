//! Files and directories.

use crate::error::DiskError;
use std::sync::Arc;

/// Outcome of a positioned read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadAt {
    /// Number of bytes that were read. It is less than requested at the end of the file, or if the rest
    /// is not in memory.
    Read(usize),
    /// The buffer was filled with bytes that this process wrote, from its own memory. A faulty disk
    /// can't have changed them.
    Kept,
    /// The bytes are not in memory, and the call must not wait.
    WouldBlock,
}

/// An open file. Handles stay readable after the file was removed from its directory.
pub trait DiskFile: Send + Sync {
    /// Reads at `offset` until `buffer` is full or the file ends. Waits for the device.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, DiskError>;

    /// As `read_at`, but returns `WouldBlock` instead of waiting for the device.
    fn read_at_nowait(&self, buffer: &mut [u8], offset: u64) -> Result<ReadAt, DiskError>;

    /// Writes all of `bytes` at `offset`. After an error any part of them may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError>;

    /// Writes all of `parts` at `offset`, one after the other, without putting them together in memory.
    /// After an error any part of them may have been written.
    fn write_parts_at(&self, parts: &[&[u8]], offset: u64) -> Result<(), DiskError> {
        let mut at = offset;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            self.write_at(part, at)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Makes the file's bytes and length durable.
    fn sync(&self) -> Result<(), DiskError>;

    /// Length in bytes.
    fn size_bytes(&self) -> Result<u64, DiskError>;

    /// Cuts the file at `len`, or extends it to `len` with zeros.
    fn truncate(&self, len: u64) -> Result<(), DiskError>;
}

/// The lock on a data directory. Dropping it releases the directory.
pub trait DiskLock: Send + Sync {}

/// A data directory. Names are plain file names without separators.
pub trait Disk: Send + Sync {
    /// Opens a file for reading and writing. With `create_new` it creates the file, and fails if it
    /// exists.
    fn open(&self, name: &str, create_new: bool) -> Result<Arc<dyn DiskFile>, DiskError>;

    /// Names of all files.
    fn list(&self) -> Result<Vec<String>, DiskError>;

    /// Removes a file; durable after `sync_directory`.
    fn remove(&self, name: &str) -> Result<(), DiskError>;

    /// Renames a file over another; durable after `sync_directory`.
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Makes creations, removals and renames durable.
    fn sync_directory(&self) -> Result<(), DiskError>;

    /// Locks the directory for this process.
    fn lock(&self) -> Result<Box<dyn DiskLock>, DiskError>;

    /// Number of bytes by which files may still grow before the disk is full; `None` if unknown.
    fn available_bytes(&self) -> Option<u64>;

    /// Name of the directory for error messages.
    fn path(&self) -> String;
}

/// Replaces a file durably, and returns the new file. Writes and syncs the bytes under the name with
/// the suffix `.new` first and then renames it, so that a crash leaves either the old file or the new
/// one.
///
/// # Errors
///
/// Disk faults. Until a call has succeeded, the directory may hold the old file or the new one.
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
