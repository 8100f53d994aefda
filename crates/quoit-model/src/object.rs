//! Objects: what a record's value means.
//!
//! An object is a clock and its siblings: values that no later write has replaced. Every sibling
//! that was written here carries its dot, the event that wrote it; siblings without a dot come from
//! Riak. Byte strings are [`Bytes`], so that an object decoded from a read buffer shares it.

use crate::clock::{Dot, VersionVector};
use crate::index_integer::IndexInteger;
use crate::vtag::clock_tag;
use bytes::Bytes;
use smallvec::SmallVec;

/// A record's clock and siblings. An object without siblings holds nothing but history.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Object {
    /// All events that this object has seen.
    pub clock: VersionVector,
    /// Values not replaced by a later one; more than one is a conflict for the client to resolve.
    pub siblings: SmallVec<[Sibling; 1]>,
}

/// One value of an object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sibling {
    /// The event that wrote this value.
    pub dot: Option<Dot>,
    /// Whether this is a tombstone: a delete that other replicas have to learn of.
    pub deleted: bool,
    /// When the value was written, microseconds since 1970; 0 when unknown.
    pub last_modified_us: u64,
    /// The entity tag that clients see, without quotes; empty when unknown.
    pub vtag: Bytes,
    /// Everything that describes the value.
    pub meta: Metadata,
    /// The value itself, empty for tombstones and for heads.
    pub value: Bytes,
}

/// Metadata of a value. Absent and empty are different for the optional fields.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Metadata {
    /// Media type without parameters.
    pub content_type: Option<Bytes>,
    /// Character set parameter of the media type.
    pub charset: Option<Bytes>,
    /// Content coding, for example `gzip`; never applied by the server.
    pub content_encoding: Option<Bytes>,
    /// Links to other records, in the order given.
    pub links: Vec<Link>,
    /// The user's pairs, in the order given; names may repeat.
    pub user_meta: Vec<UserMeta>,
    /// Secondary index entries, sorted, without duplicates.
    pub indexes: Vec<IndexEntry>,
    /// When the object expires, seconds since 1970; `None` = never.
    pub expires_at_secs: Option<u32>,
    /// Whether the value expires and its writer had seen or met older values of the record. Their copies
    /// may still exist, so a tombstone has to stay when the value expires ([`Object::after_expiry`]).
    pub replaces: bool,
    /// Entries of Riak objects that have no field here: encoded name and encoded value as stored;
    /// and notes on their stored form (see [`riak_object`](crate::riak_object)).
    pub other: Vec<(Bytes, Bytes)>,
}

/// A link from one record to another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Link {
    /// Bucket of the target; links name untyped buckets only.
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
    /// Value; `None` when the client sent none.
    pub value: Option<Bytes>,
    /// How Riak stores such a pair: kept so that its objects come back as they were.
    pub form: UserMetaForm,
}

/// The two ways in which Riak stores user metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UserMetaForm {
    /// Erlang binaries: written over Protocol Buffers.
    #[default]
    Binary,
    /// Erlang strings: written over HTTP.
    Text,
}

/// One secondary index entry.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct IndexEntry {
    /// Lower-case field name, ending in `_bin` or `_int`.
    pub field: Bytes,
    /// The term that the record is found under.
    pub term: IndexTerm,
}

/// A secondary index term. Integers sort before binaries and by value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum IndexTerm {
    /// Term of an `_int` field.
    Integer(IndexInteger),
    /// Term of a `_bin` field.
    Binary(Bytes),
}

impl IndexTerm {
    /// The term of an `_int` field with a number of up to 128 bits.
    #[must_use]
    pub fn integer(number: i128) -> Self {
        Self::Integer(number.into())
    }
}

impl Object {
    /// The entity tag of the whole object, without quotes: the tag of its only value, or with siblings a
    /// tag made from the clock.
    #[must_use]
    pub fn etag(&self) -> Bytes {
        match self.siblings.as_slice() {
            [only] if !only.vtag.is_empty() => only.vtag.clone(),
            _ => clock_tag(&self.clock),
        }
    }

    /// When the latest value was written, microseconds since 1970; 0 when unknown.
    #[must_use]
    pub fn last_modified_us(&self) -> u64 {
        self.siblings.iter().map(|sibling| sibling.last_modified_us).max().unwrap_or(0)
    }

    /// When the last value expires, seconds since 1970; `None` when one of them never does, and of a
    /// tombstone.
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

    /// Whether every value is a tombstone (or there is none): to clients the record does not exist.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        self.siblings.iter().all(|sibling| sibling.deleted)
    }

    /// The tombstone that stays of an object whose values have all expired. It has the object's clock, which
    /// keeps out the older values that the object has replaced. All replicas that hold the object make the
    /// same one. `None` when nothing has to stay, because the object has seen no event but those of its
    /// values; and of data types, of which nothing stays.
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
    /// A tombstone in place of a value that has expired. Unlike that of a delete it has a time of expiry.
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

    /// Whether this is what stays of a value that has expired ([`Object::after_expiry`]). It is no sibling
    /// to clients: any other value takes its place.
    pub(crate) const fn has_expired(&self) -> bool {
        self.deleted && self.meta.expires_at_secs.is_some()
    }
}
