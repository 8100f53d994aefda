//! Messages by which the coordinator of a conditional write obtains grants from the primaries.
//!
//! A primary gives a grant to one coordinator at a time and returns its copy with it. The
//! coordinator checks the condition on the merged copies, and names the grants in its writes. A
//! primary refuses a write whose grant is no longer its latest one of the record.

use bytes::Bytes;

/// Requests a grant from a primary: [`Grant`] -> [`Granted`], with the primary's copy as payload.
pub const METHOD_GRANT: u16 = 0x0150;
/// Returns an unused grant: [`Release`], without an answer message.
pub const METHOD_RELEASE: u16 = 0x0151;

/// Refusal of a grant: another write holds a grant of the record.
pub const REFUSED_GRANTED: u32 = 7;
/// Refusal of a write: its grant is no longer the primary's latest one of the record.
pub const REFUSED_SUPERSEDED: u32 = 8;

/// Requests a grant.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Grant {
    /// Name of the record, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Partition of the record.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// Version of the newest layout that the coordinator knows.
    #[prost(uint64, tag = "3")]
    pub layout_version: u64,
    /// Number of replicas of the record's bucket.
    #[prost(uint32, tag = "4")]
    pub n_val: u32,
}

/// A grant, with the primary's copy. The object, if there is one, is the payload.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Granted {
    /// Number of the grant. The node never reuses it, not even after a restart.
    #[prost(fixed64, tag = "1")]
    pub number: u64,
    /// True if the primary's copy of the partition is complete.
    #[prost(bool, tag = "2")]
    pub is_complete: bool,
    /// True if the primary has an object.
    #[prost(bool, tag = "3")]
    pub found: bool,
    /// Digest of the object.
    #[prost(fixed64, tag = "4")]
    pub digest: u64,
}

/// Returns a grant.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Release {
    /// Name of the record, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Number of the grant.
    #[prost(fixed64, tag = "2")]
    pub number: u64,
}
