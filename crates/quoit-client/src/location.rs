//! Names of records: bucket type, bucket and key. All of them are bytes, not necessarily text.

use bytes::Bytes;
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE, KeyRef};
use std::fmt;

/// A bucket within its bucket type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bucket {
    /// The bucket type; `None` is the type `default`.
    pub bucket_type: Option<Bytes>,
    /// The bucket's name.
    pub name: Bytes,
}

impl Bucket {
    /// A bucket of the type `default`.
    pub fn new(name: impl AsRef<[u8]>) -> Bucket {
        Bucket { bucket_type: None, name: copy(name) }
    }

    /// The bucket of the same name in a bucket type.
    #[must_use]
    pub fn typed(self, bucket_type: impl AsRef<[u8]>) -> Bucket {
        Bucket { bucket_type: Some(copy(bucket_type)), ..self }
    }

    /// The location of a key in this bucket.
    pub fn key(&self, key: impl AsRef<[u8]>) -> Location {
        Location { bucket: self.clone(), key: copy(key) }
    }
}

/// The full name of one record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// The bucket.
    pub bucket: Bucket,
    /// The key.
    pub key: Bytes,
}

/// Bucket type, bucket and key that a request is about, borrowed. The key is empty for requests about a
/// bucket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocationRef<'a> {
    pub(crate) bucket_type: Option<&'a [u8]>,
    pub(crate) bucket: &'a [u8],
    pub(crate) key: &'a [u8],
}

impl<'a> LocationRef<'a> {
    pub(crate) fn key_ref(self) -> KeyRef<'a> {
        let bucket_type = self.bucket_type.unwrap_or(DEFAULT_BUCKET_TYPE);
        BucketRef { bucket_type, bucket: self.bucket }.key(self.key)
    }
}

impl Bucket {
    pub(crate) fn location_ref<'a>(&'a self, key: &'a [u8]) -> LocationRef<'a> {
        LocationRef { bucket_type: self.bucket_type.as_deref(), bucket: &self.name, key }
    }
}

impl Location {
    pub(crate) fn location_ref(&self) -> LocationRef<'_> {
        self.bucket.location_ref(&self.key)
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bucket_type = self.bucket_type.as_deref().unwrap_or(b"default");
        write!(f, "{}/{}", bucket_type.escape_ascii(), self.name.escape_ascii())
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bucket, self.key.escape_ascii())
    }
}

fn copy(bytes: impl AsRef<[u8]>) -> Bytes {
    Bytes::copy_from_slice(bytes.as_ref())
}
