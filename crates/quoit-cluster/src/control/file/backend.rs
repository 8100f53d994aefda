//! Storage of a `redb` database on the [`Disk`](quoit_seam::Disk) abstraction.

use quoit_planted::planted;
use quoit_seam::DiskError;
use quoit_seam::DiskFile;
use redb::StorageBackend;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Implements `redb`'s storage trait for one file of a [`Disk`](quoit_seam::Disk).
pub(super) struct Backend {
    pub(super) file: Arc<dyn DiskFile>,
}

impl fmt::Debug for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Backend")
    }
}

/// Converts the error to an `io::Error` with the same text.
pub(super) fn io_error(error: DiskError) -> io::Error {
    match error {
        DiskError::DiskFull { .. } => io::Error::new(io::ErrorKind::StorageFull, error),
        error => io::Error::other(error),
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.size_bytes().map_err(io_error)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let count = self.file.read_at(out, offset).map_err(io_error)?;
        if count == out.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len).map_err(io_error)
    }

    fn sync_data(&self) -> io::Result<()> {
        if planted!(KeepsControlUnsynced) {
            return Ok(());
        }
        self.file.sync().map_err(io_error)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_at(data, offset).map_err(io_error)
    }
}
