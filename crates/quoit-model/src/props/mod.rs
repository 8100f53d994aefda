//! Properties of buckets and bucket types.
//!
//! [`BucketProps`] is one full set of properties as plain fields, cheap to read for every request. The table
//! of properties (`table.rs`) has a row for each: its name, type, default, and how its value is checked, read
//! and written.
//! The control plane keeps sets behind an `Arc` and replaces them whole; this
//! module says what the defaults are, which changes are allowed and how sets are written as JSON.
//!
//! Properties come in as [`PropUpdates`], name and JSON value, whatever the protocol they came
//! over; [`BucketProps::updated`] checks them all and returns the new set or every fault at once.
//!
//! ```
//! use quoit_model::props::{BucketProps, PropUpdates, Quorum, Scope};
//!
//! let mut updates = PropUpdates::default();
//! updates.set("n_val", 2);
//! updates.set("r", "one");
//! let props = BucketProps::untyped().updated(Scope::UntypedBucket, &updates).unwrap();
//! assert_eq!((props.n_val, props.r), (2, Quorum::One));
//!
//! updates.set("n_val", 0);
//! let refused = props.updated(Scope::UntypedBucket, &updates).unwrap_err();
//! assert_eq!(refused.pb_text(), "Invalid bucket properties: [{n_val,not_integer}]");
//! ```
//!
//! Not here: the running of commit hooks; names of buckets; storage. The conversion from and to Protocol Buffers messages is the server's.

mod bucket_type;
mod error;
mod forms;
mod json;
mod precommit;
mod quorum;
mod request;
mod special;
mod table;
#[cfg(test)]
mod tests;
mod values;

pub use bucket_type::{BucketType, TYPE_NAME_BYTES_MAX, TypeError, TypeState};
pub use error::{InvalidProps, PropError, Reason};
pub use json::{StoredPropsError, status_lines};
pub use precommit::PrecommitCheck;
pub use quorum::{NValViolation, NotAQuorum, Quorum};
pub use request::{
    DeleteParams, DeleteQuorums, ReadParams, ReadQuorums, WriteParams, WriteQuorums,
};
pub use table::{BucketProps, property_names};
pub use values::{
    CommitHook, Compression, ConditionalPutMode, Datatype, LinkFun, ModFun, ReplMode, SyncOnWrite,
    placement_name,
};

use crate::merge::WritePolicy;
use serde_json::{Map, Value};
use std::num::NonZeroU32;

/// The value of a property in the form that all protocols share: its JSON form.
pub type PropValue = Value;

/// Largest `n_val`.
pub const N_VAL_MAX: u32 = 255;
/// Most bytes of one text, list or object, as JSON.
pub const PROP_VALUE_BYTES_MAX: usize = 16 * 1024;
/// Most levels of lists and objects in a value.
pub const PROP_VALUE_DEPTH_MAX: usize = 32;
/// Most bytes of a property's name.
pub const PROP_NAME_BYTES_MAX: usize = 128;
/// Most properties of one set that the server does not know.
pub const UNKNOWN_PROPS_MAX: usize = 64;

impl BucketProps {
    /// Properties of a bucket type of which nothing is said when it is created.
    #[must_use]
    pub fn new_type() -> Self {
        Self { allow_mult: true, dvv_enabled: true, write_once: None, ..Self::untyped() }
    }

    /// The promise of conditional writes.
    #[must_use]
    pub fn conditional_put_mode(&self) -> ConditionalPutMode {
        self.conditional_put_mode.unwrap_or_default()
    }

    /// Whether objects are written once. Absent means no.
    #[must_use]
    pub fn is_write_once(&self) -> bool {
        self.write_once == Some(true)
    }

    /// Whether objects are strongly consistent. Absent means no.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.consistent == Some(true)
    }

    /// The bucket's policy for values that a writer had not seen.
    #[must_use]
    pub fn write_policy(&self) -> WritePolicy {
        if self.is_write_once() {
            WritePolicy::WriteOnce
        } else if self.last_write_wins {
            WritePolicy::LastWriteWins
        } else if self.allow_mult {
            WritePolicy::Siblings
        } else {
            WritePolicy::LatestModified
        }
    }

    /// Whether values are compressed when they are stored. Absent means no.
    #[must_use]
    pub fn compresses(&self) -> bool {
        self.compression == Some(Compression::Lz4)
    }

    /// Whether writes are told to readers of the bucket's change feed. Absent means no.
    #[must_use]
    pub fn feeds_changes(&self) -> bool {
        self.change_feed.is_some_and(|period| period > 0)
    }

    /// Life of an object after its last write, in seconds; `None` = for ever.
    #[must_use]
    pub fn expires_after_secs(&self) -> Option<NonZeroU32> {
        self.ttl_secs.and_then(NonZeroU32::new)
    }

    /// The property `datatype` as clients are shown it, with or without effect.
    #[must_use]
    pub fn datatype_name(&self) -> Option<&str> {
        match self.datatype {
            Some(datatype) => Some(datatype.as_str()),
            None => self.other.get("datatype").and_then(Value::as_str),
        }
    }
}

/// Owner of the properties, as far as it decides which changes are allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// A bucket type that is created, or changed before it is active.
    NewType,
    /// An active bucket type.
    ActiveType,
    /// A bucket of a bucket type other than the default one.
    TypedBucket,
    /// A bucket of the default type, or the server's defaults for these.
    UntypedBucket,
}

/// Properties to change, in the order given. A name given twice keeps its last value.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PropUpdates {
    pairs: Vec<(String, PropValue)>,
}

impl PropUpdates {
    /// Adds a property, or replaces its value.
    pub fn set(&mut self, name: &str, value: impl Into<PropValue>) {
        let value = value.into();
        match self.pairs.iter_mut().find(|(present, _)| present == name) {
            Some((_, old)) => *old = value,
            None => self.pairs.push((name.to_owned(), value)),
        }
    }

    /// The value given for a property.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&PropValue> {
        self.pairs.iter().find(|(given, _)| given == name).map(|(_, value)| value)
    }

    /// Checks that the storage engine that is chosen, if one is, is among these.
    ///
    /// # Errors
    ///
    /// When it is not, with their names.
    pub fn check_backend(&self, names: &[String]) -> Result<(), InvalidProps> {
        let chosen = self.get("backend").and_then(Value::as_str);
        if chosen.is_none_or(|chosen| names.iter().any(|name| name == chosen)) {
            return Ok(());
        }
        let names = names.join(", ");
        Err(InvalidProps::one("backend", Reason::UnknownBackend { names }))
    }

    /// Names and values in the order given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PropValue)> {
        self.pairs.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Whether nothing shall be changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

impl From<Map<String, Value>> for PropUpdates {
    /// The `props` object of an HTTP body or an operator's command.
    fn from(object: Map<String, Value>) -> Self {
        Self { pairs: object.into_iter().collect() }
    }
}
