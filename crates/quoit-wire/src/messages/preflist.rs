//! The nodes that hold a key.

use super::declare::messages;

messages! {
    /// Requests the nodes that hold a key.
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
        /// False for a fallback.
        required bool primary = 3;
    }

    /// Answer to [`RpbGetBucketKeyPreflistReq`].
    message RpbGetBucketKeyPreflistResp: GetBucketKeyPreflistResp {
        /// The first n_val nodes, in order of preference.
        repeated message(RpbBucketKeyPreflistItem) preflist = 1;
    }
}
