//! Data types: clients of their own that count, add, remove and delete, and what must come of it.
//!
//! Each addition to a counter is another power of four, so that a counter's value tells which of them have
//! counted, and how often. Elements are few and long: the same are added and removed again and again, and
//! records grow into pages and shrink out of them, as do sets in maps.

pub(crate) mod check;
pub(crate) mod history;
#[cfg(test)]
mod tests;

pub use history::DataTypeHistory;

use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::props::PropUpdates;
use serde_json::json;

/// Kind of a record of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A counter.
    Counter,
    /// A set.
    Set,
    /// A map with a counter, a set, a register and a flag.
    Map,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Counter, Self::Set, Self::Map];

    /// The bucket type of its records.
    #[must_use]
    pub const fn bucket_type(self) -> &'static str {
        match self {
            Self::Counter => "sim-counters",
            Self::Set => "sim-sets",
            Self::Map => "sim-maps",
        }
    }

    /// The properties of that type.
    #[must_use]
    pub fn props(self) -> PropUpdates {
        let datatype = match self {
            Self::Counter => "counter",
            Self::Set => "set",
            Self::Map => "map",
        };
        let props = json!({ "datatype": datatype, "allow_mult": true });
        props.as_object().cloned().unwrap_or_default().into()
    }
}

/// A record, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record(pub u32);

impl Record {
    /// Records of a run.
    pub const COUNT: u32 = 6;

    /// All records of a run.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// The kind of the record.
    #[must_use]
    pub const fn kind(self) -> Kind {
        Kind::ALL[self.0 as usize % Kind::ALL.len()]
    }

    /// Its key.
    #[must_use]
    pub fn name(self) -> String {
        format!("d{}", self.0)
    }

    /// Its full name; `name` is [`Record::name`].
    #[must_use]
    pub const fn key_ref(self, name: &str) -> KeyRef<'_> {
        let bucket_type = self.kind().bucket_type().as_bytes();
        BucketRef { bucket_type, bucket: b"bucket" }.key(name.as_bytes())
    }
}
