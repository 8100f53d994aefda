//! Properties of buckets and bucket types.
//!
//! [`BucketProps`] is a full set of properties as plain fields, cheap to read for every request.
//! The table of properties (`table.rs`) has a row for each property: its name, type and default,
//! and how its value is checked, read and written. The control plane keeps sets behind an `Arc` and
//! replaces them whole. This module has the defaults, the rules for changes, and the JSON form of
//! sets.
//!
//! Protocols pass changes as [`PropUpdates`], pairs of name and JSON value.
//! [`BucketProps::updated`] checks all of them and returns the new set, or every fault at once.
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
//! This module does not run commit hooks, does not handle names of buckets, and does not store properties.
//! The server converts properties from and to Protocol Buffers messages.

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

/// Value of a property in JSON form, which all protocols share.
pub type PropValue = Value;

/// Maximum `n_val`.
pub const N_VAL_MAX: u32 = 255;
/// Maximum size of a text, list or object, in bytes of JSON.
pub const PROP_VALUE_BYTES_MAX: usize = 16 * 1024;
/// Maximum nesting of lists and objects in a value.
pub const PROP_VALUE_DEPTH_MAX: usize = 32;
/// Maximum length of a property's name, in bytes.
pub const PROP_NAME_BYTES_MAX: usize = 128;
/// Maximum number of properties of a set that the server does not know.
pub const UNKNOWN_PROPS_MAX: usize = 64;

impl BucketProps {
    /// Default properties of a new bucket type.
    #[must_use]
    pub fn new_type() -> Self {
        Self { allow_mult: true, dvv_enabled: true, write_once: None, ..Self::untyped() }
    }

    /// Guarantee of conditional writes.
    #[must_use]
    pub fn conditional_put_mode(&self) -> ConditionalPutMode {
        self.conditional_put_mode.unwrap_or_default()
    }

    /// True if objects are written once; false if the property is absent.
    #[must_use]
    pub fn is_write_once(&self) -> bool {
        self.write_once == Some(true)
    }

    /// True if objects are strongly consistent; false if the property is absent.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.consistent == Some(true)
    }

    /// The bucket's rule for values that a writer had not seen.
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

    /// True if values are compressed when they are stored; false if the property is absent.
    #[must_use]
    pub fn compresses(&self) -> bool {
        self.compression == Some(Compression::Lz4)
    }

    /// True if the bucket has a change feed; false if the property is absent.
    #[must_use]
    pub fn feeds_changes(&self) -> bool {
        self.change_feed.is_some_and(|period| period > 0)
    }

    /// Time after its last write at which an object expires, in seconds; `None` if it never
    /// expires.
    #[must_use]
    pub fn expires_after_secs(&self) -> Option<NonZeroU32> {
        self.ttl_secs.and_then(NonZeroU32::new)
    }

    /// The property `datatype` as clients see it, whether it has an effect or not.
    #[must_use]
    pub fn datatype_name(&self) -> Option<&str> {
        match self.datatype {
            Some(datatype) => Some(datatype.as_str()),
            None => self.other.get("datatype").and_then(Value::as_str),
        }
    }
}

/// Owner of a set of properties, which determines the changes that are allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// A bucket type that is being created, or changed before it is active.
    NewType,
    /// An active bucket type.
    ActiveType,
    /// A bucket of a bucket type other than the default one.
    TypedBucket,
    /// A bucket of the default type, or the server's defaults for such buckets.
    UntypedBucket,
}

/// Properties to change, in the order given. If a name is given twice, the last value counts.
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

    /// The value given for a property; `None` if the property was not given.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&PropValue> {
        self.pairs.iter().find(|(given, _)| given == name).map(|(_, value)| value)
    }

    /// Checks that the property `backend`, if it was given, is one of these storage engines.
    ///
    /// # Errors
    ///
    /// Returns an error with the names of the engines if it is not.
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

    /// True if no property was given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

impl From<Map<String, Value>> for PropUpdates {
    /// Takes the `props` object of an HTTP body or of an operator's command.
    fn from(object: Map<String, Value>) -> Self {
        Self { pairs: object.into_iter().collect() }
    }
}
