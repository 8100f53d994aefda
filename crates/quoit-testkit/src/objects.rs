//! Keys and values for tests.

use bytes::Bytes;
use quoit_core::PutRequest;
use quoit_model::hash::{KeyHash, PlacementRule, RingSize};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::object::Object;
use quoit_store::engine::RecordAt;

/// Returns a key of the untyped bucket `bucket`.
#[must_use]
pub const fn key(name: &str) -> KeyRef<'_> {
    key_in("default", name)
}

/// Returns a key of the bucket `bucket` of a type.
#[must_use]
pub const fn key_in<'a>(bucket_type: &'a str, name: &'a str) -> KeyRef<'a> {
    BucketRef { bucket_type: bucket_type.as_bytes(), bucket: b"bucket" }.key(name.as_bytes())
}

/// Returns a write without a context.
#[must_use]
pub fn put_of(at: KeyRef<'static>, value: &'static str) -> PutRequest<'static> {
    PutRequest::of(at, Bytes::from_static(value.as_bytes()))
}

/// Returns the values of an object that are not deleted, in order.
#[must_use]
pub fn values(object: &Object) -> Vec<String> {
    let live = object.siblings.iter().filter(|sibling| !sibling.deleted);
    let mut values: Vec<String> =
        live.map(|sibling| String::from_utf8_lossy(&sibling.value).into_owned()).collect();
    values.sort_unstable();
    values
}

/// Calls a function with the location of a record in an engine.
pub fn at_record<T>(
    key: KeyRef<'_>,
    ring_size: RingSize,
    call: impl FnOnce(&RecordAt<'_>) -> T,
) -> T {
    let encoded = key.encoded();
    let hash = KeyHash::of(&encoded, key.bucket, PlacementRule::BucketAndKey);
    let partition = ring_size.partition(hash.placement);
    call(&RecordAt { key, encoded: &encoded, identity: hash.identity, partition })
}
