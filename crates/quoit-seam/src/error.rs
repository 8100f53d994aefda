//! Faults of a disk.

use thiserror::Error;

/// Faults of a disk. Cheap to clone, because one failed sync fails many writes.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum DiskError {
    /// The disk has no room. Reads go on; writes go on by themselves when there is room again.
    #[error("disk full: {path} has no room for {size_bytes} more bytes; free space or add a disk")]
    DiskFull {
        /// The file that could not grow.
        path: String,
        /// Bytes that were to be written.
        size_bytes: u64,
    },
    /// The operating system refused.
    #[error("{action} {path}: {reason}")]
    Io {
        /// The action that failed, for example `read`.
        action: &'static str,
        /// On which file.
        path: String,
        /// The system's words.
        reason: String,
    },
    /// Another process has the data directory.
    #[error(
        "data directory {path} is in use by another process; stop it or choose another directory"
    )]
    Locked {
        /// The directory.
        path: String,
    },
}
