//! The buckets that grants apply to.

use std::fmt;

/// The buckets that a grant applies to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// All buckets of all types.
    Any,
    /// One bucket: the name of its type and its own name.
    Bucket(String, String),
    /// All buckets of a type.
    Type(String),
}

impl fmt::Display for Scope {
    /// Writes the scope as refusals and tables of grants show it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => formatter.write_str("any"),
            Self::Type(bucket_type) => formatter.write_str(bucket_type),
            Self::Bucket(bucket_type, bucket) => write!(formatter, "{bucket_type}/{bucket}"),
        }
    }
}
