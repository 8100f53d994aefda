//! Objects: get, put, delete.
//!
//! Fields that are quorums take [`Quorum`](crate::quorum::Quorum) words and counts; absent, as
//! every absent option, they mean what the bucket's properties say. Timeouts are milliseconds.

use super::declare::messages;

messages! {
    /// A name and its value: user metadata, index entries, terms and keys of index answers.
    message RpbPair {
        /// The name.
        required bytes key = 1;
        /// The value.
        optional bytes value = 2;
    }

    /// A link from an object to another.
    message RpbLink {
        /// The bucket it points into.
        optional bytes bucket = 1;
        /// The key it points to.
        optional bytes key = 2;
        /// Meaning of the link.
        optional bytes tag = 3;
    }

    /// A value with its metadata: one sibling of an object.
    message RpbContent {
        /// The value; empty for tombstones and where only heads were asked for.
        required bytes value = 1;
        /// MIME type.
        optional bytes content_type = 2;
        /// Character set.
        optional bytes charset = 3;
        /// Encoding of the value, as in `gzip`; the server keeps and never applies it.
        optional bytes content_encoding = 4;
        /// The sibling's tag, chosen by the server.
        optional bytes vtag = 5;
        /// Links.
        repeated message(RpbLink) links = 6;
        /// Time of the write in seconds since 1970, chosen by the server.
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
        /// Primary replicas that must answer.
        optional uint32 pr = 4;
        /// Whether a majority of failures ends the read early.
        optional bool basic_quorum = 5;
        /// Whether a replica without the object counts as an answer.
        optional bool notfound_ok = 6;
        /// A context: if the object still has it, the answer is only `unchanged`.
        optional bytes if_modified = 7;
        /// Return metadata with empty values.
        optional bool head = 8;
        /// Report a tombstone by its context.
        optional bool deletedvclock = 9;
        /// How long the server may take.
        optional uint32 timeout = 10;
        /// False: primary replicas only.
        optional bool sloppy_quorum = 11;
        /// Use only that many of the preference list.
        optional uint32 n_val = 12;
        /// Bucket type.
        optional bytes bucket_type = 13;
        /// Distinct nodes that must take part.
        optional uint32 node_confirms = 14;
    }

    /// The answer of [`RpbGetReq`]. With no field set: there is no such object.
    message RpbGetResp: GetResp {
        /// The siblings.
        repeated message(RpbContent) content = 1;
        /// The object's context, to be sent back with writes and deletes.
        optional bytes vclock = 2;
        /// True if `if_modified` was the object's context; nothing else is set then.
        optional bool unchanged = 3;
    }

    /// Writes an object.
    message RpbPutReq: PutReq {
        /// Bucket.
        required bytes bucket = 1;
        /// Key; absent, the server chooses one.
        optional bytes key = 2;
        /// The context of what this write replaces.
        optional bytes vclock = 3;
        /// The value and its metadata.
        required message(RpbContent) content = 4;
        /// Replicas that must have accepted the write.
        optional uint32 w = 5;
        /// Replicas that must have it on stable storage.
        optional uint32 dw = 6;
        /// Return the object as stored.
        optional bool return_body = 7;
        /// Primary replicas that must have accepted the write.
        optional uint32 pw = 8;
        /// Write only if the stored context is `vclock`.
        optional bool if_not_modified = 9;
        /// Write only if there is no such object.
        optional bool if_none_match = 10;
        /// Return the object as stored with empty values.
        optional bool return_head = 11;
        /// How long the server may take.
        optional uint32 timeout = 12;
        /// Store the given context as it is, with no event added.
        optional bool asis = 13;
        /// False: primary replicas only.
        optional bool sloppy_quorum = 14;
        /// Use only that many of the preference list.
        optional uint32 n_val = 15;
        /// Bucket type.
        optional bytes bucket_type = 16;
        /// Distinct nodes that must take part.
        optional uint32 node_confirms = 17;
    }

    /// The answer of [`RpbPutReq`].
    message RpbPutResp: PutResp {
        /// The siblings, if they were asked for.
        repeated message(RpbContent) content = 1;
        /// The object's context, if the siblings were asked for.
        optional bytes vclock = 2;
        /// The key, if the server chose it.
        optional bytes key = 3;
    }

    /// Deletes an object.
    message RpbDelReq: DelReq {
        /// Bucket.
        required bytes bucket = 1;
        /// Key.
        required bytes key = 2;
        /// Read and write quorum in one, the oldest form.
        optional uint32 rw = 3;
        /// The context of what is deleted; absent, the server reads it first.
        optional bytes vclock = 4;
        /// Replicas that must answer the read.
        optional uint32 r = 5;
        /// Replicas that must have accepted the tombstone.
        optional uint32 w = 6;
        /// Primary replicas that must answer the read.
        optional uint32 pr = 7;
        /// Primary replicas that must have accepted the tombstone.
        optional uint32 pw = 8;
        /// Replicas that must have the tombstone on stable storage.
        optional uint32 dw = 9;
        /// How long the server may take.
        optional uint32 timeout = 10;
        /// False: primary replicas only.
        optional bool sloppy_quorum = 11;
        /// Use only that many of the preference list.
        optional uint32 n_val = 12;
        /// Bucket type.
        optional bytes bucket_type = 13;
    }

    /// The answer of [`RpbDelReq`], found or not.
    message RpbDelResp: DelResp {}
}
