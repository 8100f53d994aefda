//! A file that is written sequentially under a temporary name.

use crate::error::StoreError;
use quoit_seam::{Disk, DiskFile};
use std::sync::Arc;

/// Size of the write buffer in bytes.
const WRITE_BYTES: usize = 256 * 1024;

/// Suffix of the name of an unfinished file.
pub(crate) const TEMPORARY_SUFFIX: &str = ".tmp";

/// True if a file of this name was left behind by a writer that did not finish. Such a file has no use and
/// can be removed when no writer is at work.
#[must_use]
pub fn is_temporary_name(name: &str) -> bool {
    name.ends_with(TEMPORARY_SUFFIX)
}

/// An unfinished file. If it is dropped before [`Output::finish`], the temporary file stays; the next
/// output of the same name replaces it.
pub(crate) struct Output<'d> {
    disk: &'d dyn Disk,
    name: String,
    file: Arc<dyn DiskFile>,
    pending: Vec<u8>,
    written: u64,
}

impl<'d> Output<'d> {
    pub(crate) fn create(disk: &'d dyn Disk, name: &str) -> Result<Self, StoreError> {
        let temporary = format!("{name}{TEMPORARY_SUFFIX}");
        if disk.list()?.contains(&temporary) {
            disk.remove(&temporary)?;
        }
        Ok(Self {
            disk,
            name: name.to_owned(),
            file: disk.open(&temporary, true)?,
            pending: Vec::with_capacity(WRITE_BYTES),
            written: 0,
        })
    }

    /// Bytes pushed so far.
    pub(crate) fn offset(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        if self.pending.len() + bytes.len() > WRITE_BYTES {
            self.flush()?;
        }
        if bytes.len() >= WRITE_BYTES {
            self.file.write_at(bytes, self.written)?;
            self.written += bytes.len() as u64;
        } else {
            self.pending.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Makes the file durable and renames it to its final name, replacing a previous file.
    pub(crate) fn finish(mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.file.sync()?;
        self.disk.rename(&format!("{}{TEMPORARY_SUFFIX}", self.name), &self.name)?;
        Ok(self.disk.sync_directory()?)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.file.write_at(&self.pending, self.written)?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}
