//! Error of decoding the stored forms of data types.

use crate::cursor::Truncated;
use thiserror::Error;

/// Error of decoding a stored data type.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum StoredFormError {
    /// The bytes end too early, or a length in them exceeds the bytes that follow.
    #[error("stored data type is cut off at byte {at}; restore the record from another replica")]
    Truncated {
        /// Offset in bytes of the field that does not fit.
        at: usize,
    },
    /// A format that this version does not know.
    #[error(
        "stored data type has format {format:#04x}, this version reads {expected:#04x}; upgrade the node"
    )]
    UnknownFormat {
        /// The first byte.
        format: u8,
        /// The format byte that this version reads.
        expected: u8,
    },
    /// The bytes hold something that no encoder writes.
    #[error("stored data type has {what} at byte {at}; restore the record from another replica")]
    BadForm {
        /// Description of the fault.
        what: &'static str,
        /// Offset in bytes of the end of the faulty field.
        at: usize,
    },
}

impl From<Truncated> for StoredFormError {
    fn from(truncated: Truncated) -> Self {
        Self::Truncated { at: truncated.at }
    }
}
