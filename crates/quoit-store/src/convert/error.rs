//! Errors of a conversion.

use crate::error::StoreError;
use quoit_seam::DiskError;
use thiserror::Error;

/// Why a conversion can't go on. The old data is as it was, unless it says otherwise.
#[derive(Clone, Debug, Error)]
pub enum ConvertError {
    /// An engine or the disk refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is data where the new engine's shall be.
    #[error("{path} has files already; move it away, or remove it if it is not needed")]
    TargetExists {
        /// The directory.
        path: String,
    },
    /// Something that is not of a conversion is where conversions have their data.
    #[error(
        "{path} does not belong to a conversion, which needs this place; move it away, or remove it if it \
         is not needed"
    )]
    WorkExists {
        /// The file or directory.
        path: String,
    },
    /// The store of one of the directories was made another one since the conversion began.
    #[error(
        "{old} and {new} no longer belong to the same store: the file STORE of one of them was damaged; \
         give the conversion up with --abandon, and begin it again"
    )]
    OtherStore {
        /// The old directory.
        old: String,
        /// The new one.
        new: String,
    },
    /// The new engine can't store a record.
    #[error("the record {record} can't be stored by the new engine: {reason}")]
    Refused {
        /// Its name.
        record: String,
        /// The engine's words.
        reason: StoreError,
    },
    /// The copy lacks records of the old engine: they are damaged there.
    #[error(
        "{count} records can't be read (partitions {partitions}): they are damaged. If there are other \
         replicas, continue without them with --accept-damage, and the node gets them back"
    )]
    Damaged {
        /// How many, if that is known, else at least.
        count: u64,
        /// Where, as a list of numbers.
        partitions: String,
    },
    /// The new data counts already.
    #[error("the new data is complete and valid already: finish the conversion instead")]
    TooLate,
}

impl From<DiskError> for ConvertError {
    fn from(fault: DiskError) -> Self {
        Self::Store(fault.into())
    }
}
