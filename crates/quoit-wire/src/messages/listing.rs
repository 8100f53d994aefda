//! Lists of buckets and keys. Their answers stream: frames of data, then one with only `done`.

use super::declare::messages;

messages! {
    /// Lists the buckets of a type that have keys.
    message RpbListBucketsReq: ListBucketsReq {
        /// How long the server may take, in milliseconds.
        optional uint32 timeout = 1;
        /// True: answer in several frames as they are found.
        optional bool stream = 2;
        /// Bucket type.
        optional bytes bucket_type = 3;
    }

    /// The answer of [`RpbListBucketsReq`], or a part of it.
    message RpbListBucketsResp: ListBucketsResp {
        /// Names, each once in the whole answer.
        repeated bytes buckets = 1;
        /// True in the last frame of a stream, absent otherwise.
        optional bool done = 2;
    }

    /// Lists the keys of a bucket, always as a stream.
    message RpbListKeysReq: ListKeysReq {
        /// Bucket.
        required bytes bucket = 1;
        /// How long the server may take, in milliseconds.
        optional uint32 timeout = 2;
        /// Bucket type.
        optional bytes bucket_type = 3;
    }

    /// A part of the answer of [`RpbListKeysReq`].
    message RpbListKeysResp: ListKeysResp {
        /// Keys, each once in the whole answer.
        repeated bytes keys = 1;
        /// True in the last frame, absent otherwise.
        optional bool done = 2;
    }
}
