//! Data types of a run, and the check of their history.
//!
//! Each addition to a counter is another power of four, so that the digits of the counter's value show
//! which additions are in it, and how often. Elements are few and long. The same elements are added and
//! removed again and again, and records grow into pages and shrink again, as do sets in maps.

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
pub enum RecordKind {
    /// A counter.
    Counter,
    /// A set.
    Set,
    /// A map with a counter, a set, a register and a flag.
    Map,
}

impl RecordKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Counter, Self::Set, Self::Map];

    /// Returns the name of the bucket type of these records.
    #[must_use]
    pub const fn bucket_type(self) -> &'static str {
        match self {
            Self::Counter => "sim-counters",
            Self::Set => "sim-sets",
            Self::Map => "sim-maps",
        }
    }

    /// Returns the properties of that bucket type.
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

/// Number of a record of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record(pub u32);

impl Record {
    /// Number of records of a run.
    pub const COUNT: u32 = 6;

    /// Returns all records of a run.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// Returns the kind of the record.
    #[must_use]
    pub const fn kind(self) -> RecordKind {
        RecordKind::ALL[self.0 as usize % RecordKind::ALL.len()]
    }

    /// Returns the key of the record.
    #[must_use]
    pub fn name(self) -> String {
        format!("d{}", self.0)
    }

    /// Parses the key of a record; `None` if it is not the key of one of the run.
    #[must_use]
    pub fn of_name(key: &[u8]) -> Option<Self> {
        let digits = std::str::from_utf8(key).ok()?.strip_prefix('d')?;
        digits.parse().ok().map(Self)
    }

    /// Returns the full name of the record; `name` is [`Record::name`].
    #[must_use]
    pub const fn key_ref(self, name: &str) -> KeyRef<'_> {
        let bucket_type = self.kind().bucket_type().as_bytes();
        BucketRef { bucket_type, bucket: b"bucket" }.key(name.as_bytes())
    }
}
