//! Properties of buckets and bucket types.
//!
//! [`BucketProps`] is one full set of properties as plain fields, cheap to read for every request.
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
//! Not here: commit hooks are kept and shown, and whether they run is for the server to say; names
//! of buckets; storage. The conversion from and to Protocol Buffers messages is the server's.

mod bucket_type;
mod error;
mod json;
mod precommit;
mod quorum;
mod request;
mod set;
mod special;
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
pub use set::PROPERTY_NAMES;
pub use values::{
    CommitHook, Compression, ConditionalPutMode, Datatype, LinkFun, ModFun, ReplMode, SyncOnWrite,
    placement_name,
};

use crate::hash::PlacementRule;
use crate::merge::WritePolicy;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
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

/// A full set of properties. `Option` fields are absent (and not shown) unless they were set.
#[derive(Clone, PartialEq, Debug)]
pub struct BucketProps {
    /// Number of replicas, 1 to [`N_VAL_MAX`].
    pub n_val: u32,
    /// Whether concurrent writes are kept as siblings.
    pub allow_mult: bool,
    /// Whether the newest write replaces all others, whatever its causality.
    pub last_write_wins: bool,
    /// Whether siblings carry dots.
    pub dvv_enabled: bool,
    /// Read quorum, at least 1.
    pub r: Quorum,
    /// Write quorum: accepted, at least 1.
    pub w: Quorum,
    /// Write quorum: durable.
    pub dw: Quorum,
    /// Quorum of both halves of a delete, at least 1.
    pub rw: Quorum,
    /// Read quorum among primaries.
    pub pr: Quorum,
    /// Write quorum among primaries.
    pub pw: Quorum,
    /// Distinct nodes that must answer.
    pub node_confirms: Quorum,
    /// Whether a read gives up when a majority has failed or found nothing.
    pub basic_quorum: bool,
    /// Whether "not found" counts towards `r`.
    pub notfound_ok: bool,
    /// Replicas that sync a put before it is acknowledged.
    pub sync_on_write: SyncOnWrite,
    /// Hooks run before storing.
    pub precommit: Vec<CommitHook>,
    /// Hooks run after storing.
    pub postcommit: Vec<CommitHook>,
    /// Rule for the placement of the bucket's records.
    pub chash_keyfun: PlacementRule,
    /// Extraction of links.
    pub linkfun: LinkFun,
    /// Age in seconds beyond which clock entries are dropped.
    pub old_vclock: u32,
    /// Age in seconds below which clock entries are kept.
    pub young_vclock: u32,
    /// Number of clock entries above which the oldest is dropped.
    pub big_vclock: u32,
    /// Number of clock entries up to which all are kept.
    pub small_vclock: u32,
    /// Whether objects are written once; see [`BucketProps::is_write_once`].
    pub write_once: Option<bool>,
    /// Whether objects are strongly consistent; see [`BucketProps::is_consistent`].
    pub consistent: Option<bool>,
    /// Data type of all objects. Never present on untyped buckets: theirs has no effect and is kept
    /// among [`BucketProps::other`].
    pub datatype: Option<Datatype>,
    /// HyperLogLog precision, 4 to 16.
    pub hll_precision: Option<u8>,
    /// Name of the storage engine, where several are configured.
    pub backend: Option<String>,
    /// How values are stored, as it was set; see [`BucketProps::compresses`].
    pub compression: Option<Compression>,
    /// The promise of conditional writes, as it was set; see [`BucketProps::conditional_put_mode`].
    pub conditional_put_mode: Option<ConditionalPutMode>,
    /// Legacy search flag. Kept and shown.
    pub search: Option<bool>,
    /// Search index. Kept and shown.
    pub search_index: Option<String>,
    /// Replication to other clusters.
    pub repl: Option<ReplMode>,
    /// The change feed of the bucket, as it was set: 0 is off, any other number names a period in which it is
    /// on; see [`BucketProps::feeds_changes`].
    pub change_feed: Option<u32>,
    /// Whether statistics of the bucket are kept.
    pub stat_tracked: Option<bool>,
    /// Life of an object after its last write, in seconds, as it was set (property `ttl`; 0 = for
    /// ever); see [`BucketProps::expires_after_secs`].
    pub ttl_secs: Option<u32>,
    /// Properties that the server does not know or does not act upon, as they were given.
    pub other: BTreeMap<String, Value>,
}

impl BucketProps {
    /// Properties of untyped buckets where the server's configuration says nothing.
    #[must_use]
    pub fn untyped() -> Self {
        Self {
            n_val: 3,
            allow_mult: false,
            last_write_wins: false,
            dvv_enabled: false,
            r: Quorum::Quorum,
            w: Quorum::Quorum,
            dw: Quorum::Quorum,
            rw: Quorum::Quorum,
            pr: Quorum::Count(0),
            pw: Quorum::Count(0),
            node_confirms: Quorum::Count(0),
            basic_quorum: false,
            notfound_ok: true,
            sync_on_write: SyncOnWrite::Backend,
            precommit: Vec::new(),
            postcommit: Vec::new(),
            chash_keyfun: PlacementRule::BucketAndKey,
            linkfun: LinkFun::default(),
            old_vclock: 86_400,
            young_vclock: 20,
            big_vclock: 50,
            small_vclock: 50,
            write_once: Some(false),
            consistent: None,
            datatype: None,
            hll_precision: None,
            backend: None,
            compression: None,
            conditional_put_mode: None,
            search: None,
            search_index: None,
            repl: None,
            change_feed: None,
            stat_tracked: None,
            ttl_secs: None,
            other: BTreeMap::new(),
        }
    }

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

    /// This bucket's own set laid over the set of its type: what the own set lacks is the type's.
    #[must_use]
    pub fn over(&self, type_props: &Self) -> Self {
        let mut effective = self.clone();
        effective.write_once = self.write_once.or(type_props.write_once);
        effective.consistent = self.consistent.or(type_props.consistent);
        effective.datatype = self.datatype.or(type_props.datatype);
        effective.hll_precision = self.hll_precision.or(type_props.hll_precision);
        effective.search = self.search.or(type_props.search);
        effective.repl = self.repl.or(type_props.repl);
        effective.change_feed = self.change_feed.or(type_props.change_feed);
        effective.stat_tracked = self.stat_tracked.or(type_props.stat_tracked);
        effective.ttl_secs = self.ttl_secs.or(type_props.ttl_secs);
        effective.compression = self.compression.or(type_props.compression);
        effective.conditional_put_mode =
            self.conditional_put_mode.or(type_props.conditional_put_mode);
        effective.backend = self.backend.clone().or_else(|| type_props.backend.clone());
        effective.search_index =
            self.search_index.clone().or_else(|| type_props.search_index.clone());
        for (name, value) in &type_props.other {
            effective.other.entry(name.clone()).or_insert_with(|| value.clone());
        }
        effective
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
