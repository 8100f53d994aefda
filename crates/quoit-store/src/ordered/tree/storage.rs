//! A checked file as a storage backend of `redb`.
//!
//! After a failed read, `redb` would fail all later calls until the file is opened again. So the error of a
//! read in a read transaction is not returned to `redb`: a panic unwinds the transaction, which holds none of
//! `redb`'s locks then, and other reads and writes continue.

use super::checked::CheckedFile;
use redb::StorageBackend;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;

/// A failed read of the file in a read transaction.
pub(super) struct FailedRead(pub(super) io::Error);

thread_local! {
    /// True while this thread is in a read transaction.
    static IS_READING: Cell<bool> = const { Cell::new(false) };
}

/// Scope of a read transaction: the thread counts as reading until this is dropped.
pub(super) struct ReadScope {
    was_reading: bool,
}

impl ReadScope {
    pub(super) fn begin() -> Self {
        Self { was_reading: IS_READING.replace(true) }
    }
}

impl Drop for ReadScope {
    fn drop(&mut self) {
        IS_READING.set(self.was_reading);
    }
}

pub(super) struct Backend {
    pub(super) file: Arc<CheckedFile>,
}

impl fmt::Debug for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Backend")
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.size_bytes().map_err(io::Error::other)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self.file.read(offset, out).map_err(io::Error::other) {
            // `redb` would refuse all further reads.
            Err(error) if IS_READING.get() => resume_unwind(Box::new(FailedRead(error))),
            read => read,
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_size(len).map_err(io::Error::other)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync().map_err(io::Error::other)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data).map_err(io::Error::other)
    }
}
