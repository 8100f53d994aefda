//! Objects: the siblings of a record with their metadata and their causal history.
//!
//! An object has a clock and siblings, the values that no later write has replaced. Every sibling
//! that Quoit wrote carries its dot, the event that wrote it. Siblings without a dot come from
//! Riak. Byte strings are [`Bytes`], so that an object decoded from a read buffer shares that
//! buffer.

use crate::clock::{Dot, VersionVector};
use crate::index_integer::IndexInteger;
use crate::vtag::clock_tag;
use bytes::Bytes;
use smallvec::SmallVec;

/// Clock and siblings of a record. An object without siblings has only a causal history.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Object {
    /// All events that this object has seen.
    pub clock: VersionVector,
    /// Values that no later write has replaced. If there are several, the client resolves the
    /// conflict.
    pub siblings: SmallVec<[Sibling; 1]>,
}

/// One value of an object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sibling {
    /// The event that wrote this value; `None` if it is unknown, as for some values from Riak.
    pub dot: Option<Dot>,
    /// True for a tombstone.
    pub deleted: bool,
    /// Time of the write in microseconds since 1970; 0 if unknown.
    pub last_modified_us: u64,
    /// Entity tag that clients see, without quotes; empty if unknown.
    pub vtag: Bytes,
    /// Metadata of the value.
    pub meta: Metadata,
    /// The bytes of the value; empty for a tombstone, and where only the metadata was fetched.
    pub value: Bytes,
}

/// Metadata of a value. For the optional fields, absent and empty are different.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Metadata {
    /// Media type. Over HTTP it has no parameters; a Protocol Buffers client can send some.
    pub content_type: Option<Bytes>,
    /// Character set of the value.
    pub charset: Option<Bytes>,
    /// Content coding, for example `gzip`. The server stores it and does not apply it.
    pub content_encoding: Option<Bytes>,
    /// Links to other records, in the client's order.
    pub links: Vec<Link>,
    /// Pairs of user metadata, in the client's order; names may repeat.
    pub user_meta: Vec<UserMeta>,
    /// Secondary index entries, sorted, without duplicates.
    pub indexes: Vec<IndexEntry>,
    /// Time at which the value expires, in seconds since 1970; `None` if it never expires.
    pub expires_at_secs: Option<u32>,
    /// True if the value expires, and its writer had seen older values of the record or its coordinator found
    /// some. Copies of those values may still exist, so a tombstone stays when the value expires
    /// ([`Object::after_expiry`]).
    pub replaces: bool,
    /// Entries of a Riak object for which this type has no field, as encoded name and encoded
    /// value; and notes on the stored form of the sibling (see
    /// [`riak_object`](crate::riak_object)).
    pub other: Vec<(Bytes, Bytes)>,
}

/// A link from one record to another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Link {
    /// Bucket of the target, of the default bucket type.
    pub bucket: Bytes,
    /// Key of the target.
    pub key: Bytes,
    /// Meaning of the link to the application.
    pub tag: Bytes,
}

/// One pair of user metadata.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserMeta {
    /// Name as the client sent it.
    pub name: Bytes,
    /// Value; `None` if the client sent a name without a value.
    pub value: Option<Bytes>,
    /// Form in which Riak stores the pair, kept so that objects from Riak are written back
    /// unchanged.
    pub form: UserMetaForm,
}

/// The two forms in which Riak stores user metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UserMetaForm {
    /// Erlang binaries, as Riak stores pairs that were written over Protocol Buffers.
    #[default]
    Binary,
    /// Erlang strings, as Riak stores pairs that were written over HTTP.
    Text,
}

/// One secondary index entry.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct IndexEntry {
    /// Lower-case field name, ending in `_bin` or `_int`.
    pub field: Bytes,
    /// The term under which a query finds the record.
    pub term: IndexTerm,
}

/// Term of a secondary index entry. Integers sort by value, and before binaries.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum IndexTerm {
    /// Term of an `_int` field.
    Integer(IndexInteger),
    /// Term of a `_bin` field.
    Binary(Bytes),
}

impl IndexTerm {
    /// Makes the term of an `_int` field from a number of up to 128 bits.
    #[must_use]
    pub fn integer(number: i128) -> Self {
        Self::Integer(number.into())
    }
}

impl Object {
    /// Entity tag of the whole object, without quotes: the tag of its only value or, if there are
    /// several or the value has no tag, one made from the clock.
    #[must_use]
    pub fn etag(&self) -> Bytes {
        match self.siblings.as_slice() {
            [only] if !only.vtag.is_empty() => only.vtag.clone(),
            _ => clock_tag(&self.clock),
        }
    }

    /// Time of the latest write in microseconds since 1970; 0 if unknown.
    #[must_use]
    pub fn last_modified_us(&self) -> u64 {
        self.siblings.iter().map(|sibling| sibling.last_modified_us).max().unwrap_or(0)
    }

    /// Time at which the last value expires, in seconds since 1970. `None` for a tombstone, and if
    /// a value never expires.
    #[must_use]
    pub fn expires_at_secs(&self) -> Option<u32> {
        if self.is_tombstone() {
            return None;
        }
        let mut latest = None;
        for sibling in &self.siblings {
            latest = latest.max(Some(sibling.meta.expires_at_secs?));
        }
        latest
    }

    /// True if every sibling is a tombstone, or there are no siblings. For clients the record then
    /// does not exist.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        self.siblings.iter().all(|sibling| sibling.deleted)
    }

    /// Returns the tombstone that replaces an object whose values have all expired. It keeps the
    /// object's clock, so that older values that the object had replaced can't come back. All
    /// replicas of the object make the same tombstone.
    ///
    /// Returns `None` if the object may be dropped whole: it has seen no events but those of its
    /// own values, or it holds a data type, of which nothing is kept.
    #[must_use]
    pub fn after_expiry(&self) -> Option<Self> {
        let is_own = |entry: &Dot| {
            let dots = self.siblings.iter().filter_map(|sibling| sibling.dot.as_ref());
            dots.into_iter().any(|dot| dot == entry)
        };
        let replaces = self.siblings.iter().any(|sibling| sibling.meta.replaces)
            || !self.clock.entries().iter().all(is_own);
        if !replaces || self.has_data_type() {
            return None;
        }
        let siblings = self.siblings.iter().map(Sibling::after_expiry).collect();
        Some(Self { clock: self.clock.clone(), siblings })
    }
}

impl Sibling {
    /// Makes the tombstone of an expired value. Unlike the tombstone of a delete, it has a time of
    /// expiry.
    fn after_expiry(&self) -> Self {
        let expires_at_secs = self.meta.expires_at_secs;
        Self {
            dot: self.dot.clone(),
            deleted: true,
            last_modified_us: self.last_modified_us,
            vtag: self.vtag.clone(),
            meta: Metadata { expires_at_secs, ..Metadata::default() },
            value: Bytes::new(),
        }
    }

    /// True if this is the tombstone of an expired value ([`Object::after_expiry`]). Clients do not
    /// see it as a sibling: any other value takes its place.
    pub(crate) const fn has_expired(&self) -> bool {
        self.deleted && self.meta.expires_at_secs.is_some()
    }
}
