//! Error of decoding a data type of Riak.

use crate::cursor::Truncated;
use crate::etf::EtfError;
use thiserror::Error;

/// Error of decoding a data type of Riak.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RiakDataTypeError {
    /// The first byte is not 69.
    #[error("value begins with byte {first}: data types of Riak begin with 69")]
    NotADataType {
        /// The first byte.
        first: u8,
    },
    /// The bytes end too early.
    #[error("data type of Riak is cut off at byte {at}")]
    Truncated {
        /// Offset in bytes of the part that does not fit.
        at: usize,
    },
    /// Riak up to 3.2 does not write this version.
    #[error("{what} of Riak has version {version}, which this program does not know")]
    UnknownVersion {
        /// Part with the fault.
        what: &'static str,
        /// The version byte.
        version: u8,
    },
    /// Riak up to 3.2 does not have a type of this name.
    #[error("data type of Riak has the unknown name {name:?}")]
    UnknownType {
        /// Name in the value.
        name: String,
    },
    /// The tag does not belong to the named type.
    #[error("data type of Riak has tag {tag}, but its type has {expected}")]
    WrongTag {
        /// Tag in the value.
        tag: u8,
        /// Tag of the named type.
        expected: u8,
    },
    /// The term can't be read.
    #[error("data type of Riak: {0}")]
    Term(#[from] EtfError),
    /// Maps are nested deeper than [`MAP_DEPTH_MAX`](crate::data_type::MAP_DEPTH_MAX).
    #[error("map of Riak nests maps deeper than {}", crate::field_name::MAP_DEPTH_MAX)]
    TooDeep,
    /// The term does not have the expected form.
    #[error("data type of Riak: a term should be {expected}")]
    Shape {
        /// Expected form.
        expected: &'static str,
    },
}

impl From<Truncated> for RiakDataTypeError {
    fn from(truncated: Truncated) -> Self {
        Self::Truncated { at: truncated.at }
    }
}
