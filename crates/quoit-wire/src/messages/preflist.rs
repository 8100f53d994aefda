//! Which nodes hold a key.

use super::declare::messages;

messages! {
    /// Asks which nodes hold a key.
    message RpbGetBucketKeyPreflistReq: GetBucketKeyPreflistReq {
        /// Bucket.
        required bytes bucket = 1;
        /// Key.
        required bytes key = 2;
        /// Bucket type.
        optional bytes bucket_type = 3;
    }

    /// One replica of a key.
    message RpbBucketKeyPreflistItem {
        /// The partition's number, from 0 to ring_size - 1.
        required int64 partition = 1;
        /// The node's name.
        required bytes node = 2;
        /// False for a node that stands in for another.
        required bool primary = 3;
    }

    /// The answer of [`RpbGetBucketKeyPreflistReq`].
    message RpbGetBucketKeyPreflistResp: GetBucketKeyPreflistResp {
        /// n_val replicas, in order of preference.
        repeated message(RpbBucketKeyPreflistItem) preflist = 1;
    }
}
