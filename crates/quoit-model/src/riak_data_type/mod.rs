//! Riak's stored form of data types, which is the value of an object of a bucket with a data type.
//!
//! The form begins with a byte 69 and a version. Version 2 has the length and the name of a type,
//! then the type's own binary; version 1 is a counter of Riak 1.4. A type's binary is its tag, a
//! version and an external term, which is compressed if that makes it smaller. Sets and maps
//! contain ordered lists (version 1) or Erlang's hashed dictionaries (version 2). The reader
//! accepts both. The writer writes ordered lists, which every Riak since 2.0 reads; the order of
//! entries in a dictionary would depend on its history.
//!
//! The types here represent the terms and nothing more. [`data_type`](crate::data_type) converts
//! them; it interprets the clocks and merges the concurrent states of a field.

mod error;
mod read;
mod write;

pub use error::RiakDataTypeError;

use crate::clock::{Actor, Dot, VersionVector};
use crate::etf::Limits;
use crate::field_name::{FieldKind, FieldName};
use crate::hll::HyperLogLog;
use bytes::Bytes;

/// First byte of the value.
const DATA_TYPE: u8 = 69;

/// Limits of a stored data type, which admit maps nested a hundred deep and sets of a million
/// elements.
const LIMITS: Limits =
    Limits { depth_max: 1024, terms_max: 8_000_000, inflated_bytes_max: 256 << 20 };

/// Tags of the types' binaries.
mod tag {
    pub(super) const GROWING_COUNTER: u8 = 70;
    pub(super) const COUNTER: u8 = 71;
    pub(super) const SET: u8 = 75;
    pub(super) const MAP: u8 = 77;
    pub(super) const GSET: u8 = 82;
    pub(super) const HLL: u8 = 86;
}

/// A stored data type.
#[derive(Clone, PartialEq, Debug)]
pub enum RiakDataType {
    /// A counter of a bucket type whose data type is counter.
    Counter(Vec<RiakCount>),
    /// A counter of Riak 1.4, without a bucket type.
    LegacyCounter(Vec<RiakCount>),
    /// A set.
    Set(RiakSet),
    /// The elements of a grow-only set.
    Gset(Vec<Bytes>),
    /// A map.
    Map(RiakMap),
    /// A HyperLogLog.
    Hll(HyperLogLog),
}

/// Increments and decrements of a counter by one actor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RiakCount {
    /// The actor.
    pub actor: Actor,
    /// Sum of the increments.
    pub increments: u64,
    /// Sum of the decrements.
    pub decrements: u64,
}

/// A set. Times of dots are 0 in all these types, since the stored form has none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RiakSet {
    /// All events that the set has seen.
    pub clock: VersionVector,
    /// The elements, each with the events of the additions that count.
    pub entries: Vec<(Bytes, Vec<Dot>)>,
    /// Deferred removes: elements to remove once the events of the clock have been seen.
    pub deferred: Vec<(VersionVector, Vec<Bytes>)>,
}

/// A map.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RiakMap {
    /// All events that the map has seen.
    pub clock: VersionVector,
    /// The fields.
    pub fields: Vec<RiakField>,
    /// Deferred removes: fields to remove once the events of the clock have been seen.
    pub deferred: Vec<(VersionVector, Vec<FieldName>)>,
}

/// Riak's module for a kind of field, which occurs in terms and in texts of errors.
#[must_use]
pub const fn field_module(kind: FieldKind) -> &'static str {
    match kind {
        FieldKind::Counter => "riak_dt_emcntr",
        FieldKind::Register => "riak_dt_lwwreg",
        FieldKind::Map => "riak_dt_map",
        FieldKind::Flag => "riak_dt_od_flag",
        FieldKind::Set => "riak_dt_orswot",
    }
}

/// A field of a map. States and tombstone are of the kind in its name.
#[derive(Clone, PartialEq, Debug)]
pub struct RiakField {
    /// Name and kind.
    pub name: FieldName,
    /// One state for each concurrent update.
    pub states: Vec<(Dot, RiakEmbedded)>,
    /// State that removes have taken away.
    pub tombstone: RiakEmbedded,
}

/// A value inside a map.
#[derive(Clone, PartialEq, Debug)]
pub enum RiakEmbedded {
    /// A counter.
    Counter {
        /// All events that the counter has seen.
        clock: VersionVector,
        /// Count of each actor, with the counter of the actor's last event.
        counts: Vec<(u64, RiakCount)>,
    },
    /// A register.
    Register {
        /// The value.
        value: Bytes,
        /// Time of the assignment in microseconds since 1970; 0 if the register was never assigned.
        time_us: u64,
    },
    /// A map.
    Map(RiakMap),
    /// A flag.
    Flag {
        /// All events that the flag has seen.
        clock: VersionVector,
        /// Events of the enables that count.
        dots: Vec<Dot>,
        /// Clocks of deferred disables.
        deferred: Vec<VersionVector>,
    },
    /// A set.
    Set(RiakSet),
}

impl RiakEmbedded {
    /// The kind of field.
    #[must_use]
    pub fn kind(&self) -> FieldKind {
        match self {
            Self::Counter { .. } => FieldKind::Counter,
            Self::Register { .. } => FieldKind::Register,
            Self::Map(_) => FieldKind::Map,
            Self::Flag { .. } => FieldKind::Flag,
            Self::Set(_) => FieldKind::Set,
        }
    }
}

impl RiakDataType {
    /// Decodes a stored value.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a data type of Riak, or exceed a limit: 1024 levels,
    /// eight million terms, 256 MiB after inflation.
    pub fn decode(value: &Bytes) -> Result<Self, RiakDataTypeError> {
        read::decode(value)
    }

    /// Appends the stored value.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        write::encode(self, out);
    }

    /// Content type of objects that hold the data type.
    #[must_use]
    pub fn content_type(&self) -> &'static str {
        match self {
            Self::Counter(_) | Self::LegacyCounter(_) => "application/riak_counter",
            Self::Set(_) => "application/riak_set",
            Self::Gset(_) => "application/riak_gset",
            Self::Map(_) => "application/riak_map",
            Self::Hll(_) => "application/riak_hll",
        }
    }
}

#[cfg(test)]
mod tests;
