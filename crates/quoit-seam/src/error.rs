//! Faults of a disk.

use thiserror::Error;

/// Faults of a disk. Cheap to clone, because one failed sync fails many writes.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum DiskError {
    /// The disk is full. Reads still work, and writes work again once there is free space.
    #[error("disk full: {path} has no room for {size_bytes} more bytes; free space or add a disk")]
    DiskFull {
        /// The file that could not grow.
        path: String,
        /// Number of bytes that were to be written.
        size_bytes: u64,
    },
    /// The operating system refused.
    #[error("{action} {path}: {reason}")]
    Io {
        /// The action that failed, for example `read`.
        action: &'static str,
        /// Path of the file.
        path: String,
        /// Message of the system.
        reason: String,
    },
    /// Another process uses the data directory.
    #[error(
        "data directory {path} is in use by another process; stop it or choose another directory"
    )]
    Locked {
        /// The directory.
        path: String,
    },
}
