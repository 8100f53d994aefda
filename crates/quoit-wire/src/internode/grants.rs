//! Messages by which the coordinator of a conditional write gets the right to write from the primaries.

use bytes::Bytes;

/// Asks a primary for a grant: [`Grant`] -> [`Granted`], with the primary's copy as payload.
pub const METHOD_GRANT: u16 = 0x0150;
/// Gives a grant back that was not used: [`Release`] -> nothing.
pub const METHOD_RELEASE: u16 = 0x0151;

/// Why a primary refuses: another write holds a grant of the record.
pub const REFUSED_GRANTED: u32 = 7;
/// Why a primary refuses a write: its grant is no longer the primary's latest one of the record.
pub const REFUSED_SUPERSEDED: u32 = 8;

/// Asks for a grant.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Grant {
    /// Name of the record, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Partition of the record.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// The newest layout that the coordinator knows.
    #[prost(uint64, tag = "3")]
    pub layout_version: u64,
    /// Number of replicas of the record's bucket.
    #[prost(uint32, tag = "4")]
    pub n_val: u32,
}

/// A grant, and what the primary has. The object, if there is one, is the payload.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Granted {
    /// Number of the grant. The primary never gives it out again, nor does a later process of its node.
    #[prost(fixed64, tag = "1")]
    pub number: u64,
    /// Whether the primary's copy of the partition is complete.
    #[prost(bool, tag = "2")]
    pub is_complete: bool,
    /// Whether there is an object.
    #[prost(bool, tag = "3")]
    pub found: bool,
    /// Digest of the object.
    #[prost(fixed64, tag = "4")]
    pub digest: u64,
}

/// Gives a grant back.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Release {
    /// Name of the record, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Number of the grant.
    #[prost(fixed64, tag = "2")]
    pub number: u64,
}
