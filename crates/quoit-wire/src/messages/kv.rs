//! Objects: get, put, delete.
//!
//! Fields that are quorums take the words and counts of [`Quorum`](crate::quorum::Quorum). An
//! absent option stands for the bucket's property. Timeouts are in milliseconds.

use super::declare::messages;

messages! {
    /// A pair of name and value, for user metadata, index entries, and terms and keys of index
    /// answers.
    message RpbPair {
        /// The name.
        required bytes key = 1;
        /// The value.
        optional bytes value = 2;
    }

    /// A link from an object to another.
    message RpbLink {
        /// Bucket of the target.
        optional bytes bucket = 1;
        /// Key of the target.
        optional bytes key = 2;
        /// Meaning of the link.
        optional bytes tag = 3;
    }

    /// A value with its metadata: one sibling of an object.
    message RpbContent {
        /// The bytes of the value; empty for tombstones, and if only the metadata was requested.
        required bytes value = 1;
        /// MIME type.
        optional bytes content_type = 2;
        /// Character set.
        optional bytes charset = 3;
        /// Encoding of the value, such as `gzip`. The server stores it and does not apply it.
        optional bytes content_encoding = 4;
        /// The sibling's entity tag, which the server sets.
        optional bytes vtag = 5;
        /// Links.
        repeated message(RpbLink) links = 6;
        /// Time of the write in seconds since 1970, which the server sets.
        optional uint32 last_mod = 7;
        /// Microseconds within that second, 0 to 999999.
        optional uint32 last_mod_usecs = 8;
        /// User metadata, in the order given.
        repeated message(RpbPair) usermeta = 9;
        /// Index entries: field names ending in `_bin` or `_int`, and terms.
        repeated message(RpbPair) indexes = 10;
        /// True for a tombstone, absent otherwise.
        optional bool deleted = 11;
    }

    /// Reads an object.
    message RpbGetReq: GetReq {
        /// Bucket.
        required bytes bucket = 1;
        /// Key.
        required bytes key = 2;
        /// Replicas that must answer.
        optional uint32 r = 3;
        /// Primaries that must answer.
        optional uint32 pr = 4;
        /// True if a majority of failures ends the read early.
        optional bool basic_quorum = 5;
        /// True if "not found" counts as an answer.
        optional bool notfound_ok = 6;
        /// A context. If the object still has it, the answer is only `unchanged`.
        optional bytes if_modified = 7;
        /// True to return the metadata with empty values.
        optional bool head = 8;
        /// True to return the context of a tombstone.
        optional bool deletedvclock = 9;
        /// Timeout in milliseconds.
        optional uint32 timeout = 10;
        /// False to use primaries only, without fallbacks.
        optional bool sloppy_quorum = 11;
        /// Number of nodes of the preference list to use.
        optional uint32 n_val = 12;
        /// Bucket type.
        optional bytes bucket_type = 13;
        /// Distinct nodes that must take part.
        optional uint32 node_confirms = 14;
    }

    /// Answer to [`RpbGetReq`]. If no field is set, the object does not exist.
    message RpbGetResp: GetResp {
        /// The siblings.
        repeated message(RpbContent) content = 1;
        /// The object's context, to be sent back with writes and deletes.
        optional bytes vclock = 2;
        /// True if the object has the context of `if_modified`. No other field is set then.
        optional bool unchanged = 3;
    }

    /// Writes an object.
    message RpbPutReq: PutReq {
        /// Bucket.
        required bytes bucket = 1;
        /// Key; if absent, the server generates one.
        optional bytes key = 2;
        /// The context of the values that this write replaces.
        optional bytes vclock = 3;
        /// The value and its metadata.
        required message(RpbContent) content = 4;
        /// Replicas that must have accepted the write.
        optional uint32 w = 5;
        /// Replicas on which the write must be durable.
        optional uint32 dw = 6;
        /// True to return the stored object.
        optional bool return_body = 7;
        /// Primaries that must have accepted the write.
        optional uint32 pw = 8;
        /// True to write only if the stored object has the context `vclock`.
        optional bool if_not_modified = 9;
        /// True to write only if the object does not exist.
        optional bool if_none_match = 10;
        /// True to return the stored object with empty values.
        optional bool return_head = 11;
        /// Timeout in milliseconds.
        optional uint32 timeout = 12;
        /// True to store the value under the given context, without a new event.
        optional bool asis = 13;
        /// False to use primaries only, without fallbacks.
        optional bool sloppy_quorum = 14;
        /// Number of nodes of the preference list to use.
        optional uint32 n_val = 15;
        /// Bucket type.
        optional bytes bucket_type = 16;
        /// Distinct nodes that must take part.
        optional uint32 node_confirms = 17;
    }

    /// Answer to [`RpbPutReq`].
    message RpbPutResp: PutResp {
        /// The siblings, if they were requested.
        repeated message(RpbContent) content = 1;
        /// The object's context, if the siblings were requested.
        optional bytes vclock = 2;
        /// The key, if the server generated it.
        optional bytes key = 3;
    }

    /// Deletes an object.
    message RpbDelReq: DelReq {
        /// Bucket.
        required bytes bucket = 1;
        /// Key.
        required bytes key = 2;
        /// Quorum of both the read and the write; the oldest form.
        optional uint32 rw = 3;
        /// The context of the values to delete; if absent, the server reads it first.
        optional bytes vclock = 4;
        /// Replicas that must answer the read.
        optional uint32 r = 5;
        /// Replicas that must have accepted the tombstone.
        optional uint32 w = 6;
        /// Primaries that must answer the read.
        optional uint32 pr = 7;
        /// Primaries that must have accepted the tombstone.
        optional uint32 pw = 8;
        /// Replicas on which the write must be durable.
        optional uint32 dw = 9;
        /// Timeout in milliseconds.
        optional uint32 timeout = 10;
        /// False to use primaries only, without fallbacks.
        optional bool sloppy_quorum = 11;
        /// Number of nodes of the preference list to use.
        optional uint32 n_val = 12;
        /// Bucket type.
        optional bytes bucket_type = 13;
    }

    /// Answer to [`RpbDelReq`], whether the object existed or not.
    message RpbDelResp: DelResp {}
}
