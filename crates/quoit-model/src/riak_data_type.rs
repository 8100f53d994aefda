//! Riak's stored form of data types: what an object of a bucket with a data type has as its value.
//!
//! A byte 69 and a version. Version 2: the length and the name of a type, then the type's own
//! binary; version 1: a counter of Riak 1.4. A type's binary is its tag, a version and an external
//! term, compressed where that saves something. Sets and maps exist with ordered lists (version 1)
//! and with Erlang's hashed dictionaries (version 2) inside. Both are read. Ordered lists are
//! written: every Riak since 2.0 reads them, and the places of entries in a dictionary depend on
//! how it grew.
//!
//! The structs here say what the terms say, no more: which clock covers what, and that a field of a
//! map may have several states at once, is for who converts them.

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

/// Bounds of a stored data type: maps nested a hundred deep and sets of a million elements pass.
const LIMITS: Limits =
    Limits { depth_max: 1024, terms_max: 8_000_000, inflated_bytes_max: 256 << 20 };

/// Types as version 2 names them, and the tags of their binaries.
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
    /// A counter of a bucket type with data type counter.
    Counter(Vec<RiakCount>),
    /// A counter as Riak 1.4 has them, without a bucket type.
    LegacyCounter(Vec<RiakCount>),
    /// A set.
    Set(RiakSet),
    /// The elements of a set that only grows.
    Gset(Vec<Bytes>),
    /// A map.
    Map(RiakMap),
    /// A HyperLogLog.
    Hll(HyperLogLog),
}

/// Increments and decrements of a counter by one actor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RiakCount {
    /// Actor that counted.
    pub actor: Actor,
    /// The sum of its increments.
    pub increments: u64,
    /// The sum of its decrements.
    pub decrements: u64,
}

/// A set. Times of dots are 0 in all of these: the stored form has none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RiakSet {
    /// Every event that the set has seen.
    pub clock: VersionVector,
    /// The elements, each with the events of its additions that are still alive.
    pub entries: Vec<(Bytes, Vec<Dot>)>,
    /// Elements to be removed once the events of the clock have been seen.
    pub deferred: Vec<(VersionVector, Vec<Bytes>)>,
}

/// A map.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RiakMap {
    /// Every event that the map has seen.
    pub clock: VersionVector,
    /// The fields.
    pub fields: Vec<RiakField>,
    /// Fields to be removed once the events of the clock have been seen.
    pub deferred: Vec<(VersionVector, Vec<FieldName>)>,
}

/// The module of Riak's that does what fields of this kind do: terms and texts of errors have its name.
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

/// A field of a map. States and tombstone are of the name's type.
#[derive(Clone, PartialEq, Debug)]
pub struct RiakField {
    /// Name and type.
    pub name: FieldName,
    /// One state for each update that no other has seen.
    pub states: Vec<(Dot, RiakEmbedded)>,
    /// State of the field that removes have taken away.
    pub tombstone: RiakEmbedded,
}

/// A value inside a map.
#[derive(Clone, PartialEq, Debug)]
pub enum RiakEmbedded {
    /// A counter.
    Counter {
        /// Every event that it has seen.
        clock: VersionVector,
        /// Counts of each actor, with the number of its last event.
        counts: Vec<(u64, RiakCount)>,
    },
    /// A register.
    Register {
        /// Its value.
        value: Bytes,
        /// When it was assigned, in microseconds since 1970; 0 while it never was.
        time_us: u64,
    },
    /// A map.
    Map(RiakMap),
    /// A flag.
    Flag {
        /// Every event that it has seen.
        clock: VersionVector,
        /// The events of enabling that are still alive.
        dots: Vec<Dot>,
        /// Disables that wait for the events of a clock.
        deferred: Vec<VersionVector>,
    },
    /// A set.
    Set(RiakSet),
}

impl RiakEmbedded {
    /// Its type.
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
    /// Reads a stored value.
    ///
    /// # Errors
    ///
    /// When the bytes are not a data type of Riak's, or exceed what a term may have: 1024 levels,
    /// eight million parts, 256 MiB behind the compression.
    pub fn decode(value: &Bytes) -> Result<Self, RiakDataTypeError> {
        read::decode(value)
    }

    /// Appends the stored value.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        write::encode(self, out);
    }

    /// The content type of objects that hold it.
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
