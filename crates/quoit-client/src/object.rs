//! Objects as clients see them: siblings and a context.

use bytes::Bytes;
use quoit_wire::messages::{RpbContent, RpbLink, RpbPair};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Causal context of an object: the events that a client has seen. The server returns one with each read.
///
/// A write or delete that sends the context back replaces the siblings that the client has seen. Only the
/// server can interpret the bytes; they must not be changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Context(pub Bytes);

/// An object that was read: one value, or several siblings where writes were concurrent.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Context to send back with the write that replaces these siblings.
    pub context: Context,
    /// The siblings, in no particular order; at least one.
    pub siblings: Vec<Content>,
}

impl Object {
    /// The value, if there is only one.
    #[must_use]
    pub fn single(&self) -> Option<&Content> {
        match &self.siblings[..] {
            [single] => Some(single),
            _ => None,
        }
    }

    /// True if there are several siblings, for the reader to choose from or merge.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.siblings.len() > 1
    }
}

/// One sibling: a value with its metadata.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    /// The value. Empty if only metadata was asked for ([`GetOptions::head`](crate::GetOptions::head)).
    pub value: Bytes,
    /// MIME type.
    pub content_type: Option<Bytes>,
    /// Character set.
    pub charset: Option<Bytes>,
    /// Content encoding, such as `gzip`. The server keeps it and never applies it.
    pub content_encoding: Option<Bytes>,
    /// Links to other objects.
    pub links: Vec<Link>,
    /// User metadata: names and values, in the order written.
    pub user_meta: Vec<(Bytes, Bytes)>,
    /// Index entries: pairs of a field name that ends in `_bin` or `_int`, and a term. Integer terms are
    /// decimal text.
    pub indexes: Vec<(Bytes, Bytes)>,
    /// Time of the write. The server sets it and ignores it in writes.
    pub last_modified: Option<SystemTime>,
    /// The sibling's tag. The server sets it and ignores it in writes.
    pub vtag: Option<Bytes>,
    /// True if this sibling is a tombstone.
    pub deleted: bool,
}

/// A link from one object to another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Link {
    /// Bucket of the linked object.
    pub bucket: Bytes,
    /// Key of the linked object.
    pub key: Bytes,
    /// Meaning of the link.
    pub tag: Bytes,
}

impl Content {
    /// A value without a content type.
    pub fn new(value: impl Into<Bytes>) -> Content {
        Content { value: value.into(), ..Content::default() }
    }

    /// Text: `text/plain` in UTF-8.
    pub fn text(value: impl Into<String>) -> Content {
        Content {
            value: Bytes::from(value.into()),
            content_type: Some(Bytes::from_static(b"text/plain")),
            charset: Some(Bytes::from_static(b"utf-8")),
            ..Content::default()
        }
    }

    /// The same value with a MIME type, such as `application/json`.
    #[must_use]
    pub fn typed(self, content_type: impl Into<Bytes>) -> Content {
        Content { content_type: Some(content_type.into()), ..self }
    }

    pub(crate) fn from_wire(content: RpbContent) -> Content {
        let last_modified = content.last_mod.and_then(|seconds| {
            let micros = content.last_mod_usecs.unwrap_or_default();
            let since = Duration::from_secs(seconds.into()) + Duration::from_micros(micros.into());
            UNIX_EPOCH.checked_add(since)
        });
        let links = content.links.into_iter().map(Link::from_wire).collect();
        Content {
            value: content.value,
            content_type: content.content_type,
            charset: content.charset,
            content_encoding: content.content_encoding,
            links,
            user_meta: pairs_from_wire(content.usermeta),
            indexes: pairs_from_wire(content.indexes),
            last_modified,
            vtag: content.vtag,
            deleted: content.deleted == Some(true),
        }
    }

    pub(crate) fn into_wire(self) -> RpbContent {
        RpbContent {
            value: self.value,
            content_type: self.content_type,
            charset: self.charset,
            content_encoding: self.content_encoding,
            links: self.links.into_iter().map(Link::into_wire).collect(),
            usermeta: pairs_into_wire(self.user_meta),
            indexes: pairs_into_wire(self.indexes),
            deleted: self.deleted.then_some(true),
            vtag: None,
            last_mod: None,
            last_mod_usecs: None,
        }
    }
}

impl Link {
    fn from_wire(link: RpbLink) -> Link {
        Link {
            bucket: link.bucket.unwrap_or_default(),
            key: link.key.unwrap_or_default(),
            tag: link.tag.unwrap_or_default(),
        }
    }

    fn into_wire(self) -> RpbLink {
        RpbLink { bucket: Some(self.bucket), key: Some(self.key), tag: Some(self.tag) }
    }
}

fn pairs_from_wire(pairs: Vec<RpbPair>) -> Vec<(Bytes, Bytes)> {
    pairs.into_iter().map(|pair| (pair.key, pair.value.unwrap_or_default())).collect()
}

fn pairs_into_wire(pairs: Vec<(Bytes, Bytes)>) -> Vec<RpbPair> {
    pairs.into_iter().map(|(key, value)| RpbPair { key, value: Some(value) }).collect()
}
