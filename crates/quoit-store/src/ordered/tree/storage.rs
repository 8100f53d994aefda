//! A checked file as `redb` wants it.
//!
//! A read of the file that fails would fail all that comes after it, until the file is opened again. So a
//! read transaction does not get to hear of it: it is left by unwinding, where it holds none of `redb`'s
//! locks, and what others read and write goes on.

use super::checked::CheckedFile;
use redb::StorageBackend;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;

/// A read of the file that has failed in a read transaction.
pub(super) struct FailedRead(pub(super) io::Error);

thread_local! {
    /// Whether this thread is in a read transaction.
    static IS_READING: Cell<bool> = const { Cell::new(false) };
}

/// A read transaction of this thread.
pub(super) struct Reading {
    was_reading: bool,
}

impl Reading {
    pub(super) fn begin() -> Self {
        Self { was_reading: IS_READING.replace(true) }
    }
}

impl Drop for Reading {
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
            // `redb` would not read anything more.
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
