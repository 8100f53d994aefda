//! Errors of a conversion.

use crate::error::StoreError;
use quoit_seam::DiskError;
use thiserror::Error;

/// Reason why a conversion cannot continue. The old data is unchanged, unless the error says otherwise.
#[derive(Clone, Debug, Error)]
pub enum ConvertError {
    /// An engine or the disk has failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The directory for the new engine's data already has data.
    #[error("{path} has files already; move it away, or remove it if it is not needed")]
    TargetExists {
        /// The directory.
        path: String,
    },
    /// A file that does not belong to a conversion is in the directory of conversions.
    #[error(
        "{path} does not belong to a conversion, which needs this place; move it away, or remove it if it \
         is not needed"
    )]
    WorkExists {
        /// The file or directory.
        path: String,
    },
    /// One of the directories was given another store's identity since the conversion began.
    #[error(
        "{old} and {new} no longer belong to the same store: the file STORE of one of them was damaged; \
         give the conversion up with --abandon, and begin it again"
    )]
    OtherStore {
        /// The old directory.
        old: String,
        /// The new directory.
        new: String,
    },
    /// The new engine can't store a record.
    #[error("the record {record} can't be stored by the new engine: {reason}")]
    Refused {
        /// Name of the record.
        record: String,
        /// The engine's error.
        reason: StoreError,
    },
    /// The copy lacks records of the old engine, because they are damaged there.
    #[error(
        "{count} records can't be read (partitions {partitions}): they are damaged. If there are other \
         replicas, continue without them with --accept-damage, and the node gets them back"
    )]
    Damaged {
        /// Number of records, or a lower bound of it.
        count: u64,
        /// Numbers of the partitions, as a list.
        partitions: String,
    },
    /// The new data is valid already.
    #[error("the new data is complete and valid already: finish the conversion instead")]
    TooLate,
}

impl From<DiskError> for ConvertError {
    fn from(fault: DiskError) -> Self {
        Self::Store(fault.into())
    }
}
