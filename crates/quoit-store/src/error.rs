//! Errors of storage engines.

use quoit_model::secondary_index::IndexEntryTooLarge;
use quoit_seam::DiskError;
use thiserror::Error;

/// Errors of a storage engine. Cheap to clone, because one failed sync fails many writes.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// The disk is full. Reads continue; writes are accepted again as soon as there is space.
    #[error("disk full: {path} has no room for {size_bytes} more bytes; free space or add a disk")]
    DiskFull {
        /// The file that could not grow.
        path: String,
        /// Bytes that were to be written.
        size_bytes: u64,
    },
    /// The operating system reported an error.
    #[error("{action} {path}: {reason}")]
    Io {
        /// The action that failed, for example `read`.
        action: &'static str,
        /// The file.
        path: String,
        /// The system's message.
        reason: String,
    },
    /// Stored bytes are damaged or have an impossible value.
    #[error("{path} at byte {offset}: {reason}")]
    Corrupt {
        /// The damaged file.
        path: String,
        /// Offset of the damage in bytes.
        offset: u64,
        /// Description of the damage.
        reason: String,
    },
    /// Another process has locked the data directory.
    #[error(
        "data directory {path} is in use by another process; stop it or choose another directory"
    )]
    Locked {
        /// The directory.
        path: String,
    },
    /// The record is larger than the engine can store.
    #[error("record of {size_bytes} bytes is larger than the limit of {limit_bytes}")]
    TooLarge {
        /// Size of the record.
        size_bytes: u64,
        /// The engine's limit.
        limit_bytes: u64,
    },
    /// A sync failed. A power failure may lose writes since the last successful sync, and the engine
    /// accepts no further writes until the node is restarted.
    #[error("sync of {path} failed ({reason}); restart the node after the disk is repaired")]
    SyncFailed {
        /// The file.
        path: String,
        /// The system's message.
        reason: String,
    },
    /// The directory has data of another engine.
    #[error(
        "{path} has data of the engine {found}, not of {wanted}; set storage_backend = {found}, or choose \
         another directory"
    )]
    OtherEngine {
        /// The directory.
        path: String,
        /// Name of the engine whose data is there.
        found: String,
        /// Name of the engine that was to open the store.
        wanted: String,
    },
    /// The directory has data for another number of partitions.
    #[error(
        "{path} was made for {stored} partitions, not {wanted}; a ring can't be changed in place"
    )]
    OtherRing {
        /// The directory.
        path: String,
        /// Number of partitions that it was made for.
        stored: u16,
        /// Number of partitions of the ring.
        wanted: u16,
    },
    /// The engine's background work has fallen behind, and the queue of waiting work is full.
    #[error("the storage engine has fallen behind its writes; try again later")]
    Overloaded,
    /// Secondary indexes are incomplete.
    #[error("secondary indexes can't be queried: {reason}")]
    IndexesUnavailable {
        /// Reason, and the time until which this lasts.
        reason: String,
    },
    /// An object has an index entry that is too large.
    #[error(transparent)]
    IndexEntryTooLarge(#[from] IndexEntryTooLarge),
    /// The writes of an atomic batch belong to several engines.
    #[error(
        "records of buckets with different storage engines can't be changed together; give the buckets the \
         same property backend"
    )]
    SeveralEngines,
    /// The engine was closed.
    #[error("the storage engine is closed")]
    Closed,
}

impl From<DiskError> for StoreError {
    fn from(fault: DiskError) -> Self {
        match fault {
            DiskError::DiskFull { path, size_bytes } => Self::DiskFull { path, size_bytes },
            DiskError::Io { action, path, reason } => Self::Io { action, path, reason },
            DiskError::Locked { path } => Self::Locked { path },
        }
    }
}
