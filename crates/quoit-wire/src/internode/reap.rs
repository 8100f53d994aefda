//! Messages by which tombstones that everybody has seen are removed.
//!
//! One message carries many tombstones: who has them reaped first asks whether the receiver agrees, then
//! has it remove those on which all agree.

use bytes::Bytes;

/// Asks about tombstones, or has them removed: [`Reap`] -> [`Reaped`].
pub const METHOD_REAP: u16 = 0x0120;

/// A tombstone as its primaries should hold it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Tombstone {
    /// Name of the record, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Partition of the record.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// Digest of the tombstone.
    #[prost(fixed64, tag = "3")]
    pub digest: u64,
}

/// Tombstones of which the receiver is a primary.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Reap {
    /// The oldest live layout that the sender knows.
    #[prost(uint64, tag = "1")]
    pub layout_version: u64,
    /// Whether they are to be removed; else the receiver only says what it has.
    #[prost(bool, tag = "2")]
    pub remove: bool,
    /// The tombstones.
    #[prost(message, repeated, tag = "3")]
    pub tombstones: Vec<Tombstone>,
}

/// What the receiver has of the tombstones that it was asked about.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Reaped {
    /// A bit for each, lowest bit first: nothing is stored under its name or, before the removal, exactly
    /// this tombstone.
    #[prost(bytes = "bytes", tag = "1")]
    pub agreed: Bytes,
}
