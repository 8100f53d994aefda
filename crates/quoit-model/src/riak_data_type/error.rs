//! Why bytes are not a data type of Riak's.

use crate::cursor::CutOff;
use crate::etf::EtfError;
use thiserror::Error;

/// Why bytes are not a data type of Riak's.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RiakDataTypeError {
    /// The value begins otherwise.
    #[error("value begins with byte {first}: data types of Riak begin with 69")]
    NotADataType {
        /// The first byte.
        first: u8,
    },
    /// The bytes end too early.
    #[error("data type of Riak is cut off at byte {at}")]
    CutOff {
        /// Offset of what does not fit.
        at: usize,
    },
    /// A version that no Riak up to 3.2 writes.
    #[error("{what} of Riak has version {version}, which this program does not know")]
    UnknownVersion {
        /// Part with the fault.
        what: &'static str,
        /// The version byte.
        version: u8,
    },
    /// A type that no Riak up to 3.2 has.
    #[error("data type of Riak has the unknown name {name:?}")]
    UnknownType {
        /// Name in the value.
        name: String,
    },
    /// The tag is not that of the named type.
    #[error("data type of Riak has tag {tag}, but its type has {expected}")]
    WrongTag {
        /// Tag in the value.
        tag: u8,
        /// The type's tag.
        expected: u8,
    },
    /// The term is unreadable.
    #[error("data type of Riak: {0}")]
    Term(#[from] EtfError),
    /// Maps inside one another, more of them than maps here may have.
    #[error("map of Riak nests maps deeper than {}", crate::field_name::MAP_DEPTH_MAX)]
    TooDeep,
    /// The term says something else.
    #[error("data type of Riak: a term should be {expected}")]
    Shape {
        /// Expected form.
        expected: &'static str,
    },
}

impl From<CutOff> for RiakDataTypeError {
    fn from(cut_off: CutOff) -> Self {
        Self::CutOff { at: cut_off.at }
    }
}
