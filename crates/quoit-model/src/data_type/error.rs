//! Errors of the stored forms.

use crate::cursor::CutOff;
use thiserror::Error;

/// Why stored bytes are not what a data type is stored as.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum StoredFormError {
    /// The bytes end too early, or a length in them is larger than what follows.
    #[error("stored data type is cut off at byte {at}; restore the record from another replica")]
    CutOff {
        /// Offset of the field that does not fit.
        at: usize,
    },
    /// A format that this version does not know.
    #[error(
        "stored data type has format {format:#04x}, this version reads {expected:#04x}; upgrade the node"
    )]
    UnknownFormat {
        /// The first byte.
        format: u8,
        /// Expected version or tag.
        expected: u8,
    },
    /// Something that no writer makes.
    #[error("stored data type has {what} at byte {at}; restore the record from another replica")]
    BadForm {
        /// Description of the fault.
        what: &'static str,
        /// Offset behind the field.
        at: usize,
    },
}

impl From<CutOff> for StoredFormError {
    fn from(cut_off: CutOff) -> Self {
        Self::CutOff { at: cut_off.at }
    }
}
