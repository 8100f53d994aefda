//! Lists of buckets and keys. Their answers are streams: frames with data, then one with only
//! `done`.

use super::declare::messages;

messages! {
    /// Lists the buckets of a type that have keys.
    message RpbListBucketsReq: ListBucketsReq {
        /// Timeout in milliseconds.
        optional uint32 timeout = 1;
        /// True to answer in several frames, as buckets are found.
        optional bool stream = 2;
        /// Bucket type.
        optional bytes bucket_type = 3;
    }

    /// Answer to [`RpbListBucketsReq`], or a part of it.
    message RpbListBucketsResp: ListBucketsResp {
        /// Names; each occurs once in the whole answer.
        repeated bytes buckets = 1;
        /// True in the last frame of a stream, absent otherwise.
        optional bool done = 2;
    }

    /// Lists the keys of a bucket, always as a stream.
    message RpbListKeysReq: ListKeysReq {
        /// Bucket.
        required bytes bucket = 1;
        /// Timeout in milliseconds.
        optional uint32 timeout = 2;
        /// Bucket type.
        optional bytes bucket_type = 3;
    }

    /// A part of the answer to [`RpbListKeysReq`].
    message RpbListKeysResp: ListKeysResp {
        /// Keys; each occurs once in the whole answer.
        repeated bytes keys = 1;
        /// True in the last frame, absent otherwise.
        optional bool done = 2;
    }
}
