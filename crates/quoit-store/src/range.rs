//! Which keys a range of a listing has.

use crate::engine::KeyRange;
use quoit_model::key::{BucketRef, KeyRef};

/// The first bucket type after that of pieces, which are no keys.
const FIRST_TYPE: &[u8] = &[0, 0];

/// No key of the range is below this name, whose parts may be empty.
pub(crate) fn range_start(range: KeyRange<'_>) -> KeyRef<'_> {
    match range {
        KeyRange::Bucket(bucket) => bucket.key(&[]),
        KeyRange::Prefix(bucket, from) | KeyRange::Between(bucket, from, _) => bucket.key(from),
        KeyRange::BucketType(bucket_type) => BucketRef { bucket_type, bucket: &[] }.key(&[]),
        KeyRange::All => BucketRef { bucket_type: FIRST_TYPE, bucket: &[] }.key(&[]),
    }
}

/// Whether a key is in the range. The keys of a range are side by side in the order of keys.
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
