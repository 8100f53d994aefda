//! The buckets that grants are about.

use std::fmt;

/// The buckets that a grant is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// All buckets of all types.
    Any,
    /// One bucket.
    Bucket(String, String),
    /// All buckets of a type.
    Type(String),
}

impl fmt::Display for Scope {
    /// As texts of refusals and tables of grants name it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => formatter.write_str("any"),
            Self::Type(bucket_type) => formatter.write_str(bucket_type),
            Self::Bucket(bucket_type, bucket) => write!(formatter, "{bucket_type}/{bucket}"),
        }
    }
}
