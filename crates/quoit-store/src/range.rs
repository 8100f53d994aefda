//! Bounds of the key ranges of listings.

use crate::engine::KeyRange;
use quoit_model::key::{BucketRef, KeyRef};

/// The first bucket type above the reserved one of pieces. Listings do not return pieces.
const FIRST_TYPE: &[u8] = &[0, 0];

/// A lower bound of the names in the range. Its parts may be empty.
pub(crate) fn range_start(range: KeyRange<'_>) -> KeyRef<'_> {
    match range {
        KeyRange::Bucket(bucket) => bucket.key(&[]),
        KeyRange::Prefix(bucket, from) | KeyRange::Between(bucket, from, _) => bucket.key(from),
        KeyRange::BucketType(bucket_type) => BucketRef { bucket_type, bucket: &[] }.key(&[]),
        KeyRange::All => BucketRef { bucket_type: FIRST_TYPE, bucket: &[] }.key(&[]),
    }
}

/// True if a key is in the range. The keys of a range are adjacent in the order of keys.
pub(crate) fn range_contains(range: KeyRange<'_>, key: KeyRef<'_>) -> bool {
    match range {
        KeyRange::Bucket(bucket) => key.bucket == bucket,
        KeyRange::Prefix(bucket, prefix) => key.bucket == bucket && key.key.starts_with(prefix),
        KeyRange::Between(bucket, from, to) => {
            key.bucket == bucket && key.key >= from && to.is_none_or(|to| key.key <= to)
        }
        KeyRange::BucketType(bucket_type) => key.bucket.bucket_type == bucket_type,
        KeyRange::All => true,
    }
}
