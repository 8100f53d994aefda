//! Queries of secondary indexes, folds that return bodies, and coverage plans.

use super::declare::messages;
use super::kv::{RpbGetResp, RpbPair};

/// The form of an index query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum IndexQueryType {
    /// One term.
    Eq = 0,
    /// All terms between two, both included.
    Range = 1,
}

messages! {
    /// Queries a secondary index.
    message RpbIndexReq: IndexReq {
        /// Bucket.
        required bytes bucket = 1;
        /// The field, `$key` or `$bucket`.
        required bytes index = 2;
        /// The form of the query.
        required enumeration(IndexQueryType) qtype = 3;
        /// The term of an equality query.
        optional bytes key = 4;
        /// The first term of a range.
        optional bytes range_min = 5;
        /// The last term of a range.
        optional bytes range_max = 6;
        /// Return terms beside keys.
        optional bool return_terms = 7;
        /// Answer in several frames.
        optional bool stream = 8;
        /// Page size; sorts, and gives a continuation.
        optional uint32 max_results = 9;
        /// The continuation of the page before.
        optional bytes continuation = 10;
        /// How long the server may take, in milliseconds; 0 is for ever.
        optional uint32 timeout = 11;
        /// Bucket type.
        optional bytes bucket_type = 12;
        /// A regular expression that terms must match.
        optional bytes term_regex = 13;
        /// Sort without paging.
        optional bool pagination_sort = 14;
        /// One entry of a coverage plan: query that part only.
        optional bytes cover_context = 15;
        /// Return the objects.
        optional bool return_body = 16;
        /// Quoit's own: a range of `$key` does not have its last key.
        optional bool range_max_excluded = 100;
    }

    /// The answer of [`RpbIndexReq`], or a part of it.
    message RpbIndexResp: IndexResp {
        /// Keys that match.
        repeated bytes keys = 1;
        /// Terms and keys that match, if terms were asked for.
        repeated message(RpbPair) results = 2;
        /// Where the next page begins.
        optional bytes continuation = 3;
        /// True in the last frame of a stream, absent otherwise.
        optional bool done = 4;
    }

    /// An object of an index query or of a fold.
    message RpbIndexObject {
        /// Key.
        required bytes key = 1;
        /// The object.
        required message(RpbGetResp) object = 2;
    }

    /// The answer of [`RpbIndexReq`] with `return_body`.
    message RpbIndexBodyResp: IndexBodyResp {
        /// Objects that match.
        repeated message(RpbIndexObject) objects = 1;
        /// Where the next page begins.
        optional bytes continuation = 2;
        /// True in the last frame of a stream, absent otherwise.
        optional bool done = 3;
    }

    /// Folds over a range of a bucket's objects in the order of their keys.
    message RpbCSBucketReq: CSBucketReq {
        /// Bucket.
        required bytes bucket = 1;
        /// The first key.
        required bytes start_key = 2;
        /// The last key; absent, there is no end.
        optional bytes end_key = 3;
        /// Whether the range has its first key; true when absent.
        optional bool start_incl = 4;
        /// Whether the range has its last key; false when absent.
        optional bool end_incl = 5;
        /// The continuation of the page before.
        optional bytes continuation = 6;
        /// Page size.
        optional uint32 max_results = 7;
        /// How long the server may take, in milliseconds.
        optional uint32 timeout = 8;
        /// Bucket type.
        optional bytes bucket_type = 9;
        /// One entry of a coverage plan: fold over that part only.
        optional bytes cover_context = 10;
    }

    /// A part of the answer of [`RpbCSBucketReq`].
    message RpbCSBucketResp: CSBucketResp {
        /// Objects.
        repeated message(RpbIndexObject) objects = 1;
        /// Where the next page begins.
        optional bytes continuation = 2;
        /// True in the last frame, absent otherwise.
        optional bool done = 3;
    }

    /// Asks for a plan whose entries together cover a bucket.
    message RpbCoverageReq: CoverageReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// The least number of entries.
        optional uint32 min_partitions = 3;
        /// The context of an entry that failed and wants replacing.
        optional bytes replace_cover = 4;
        /// Contexts of other entries that failed.
        repeated bytes unavailable_cover = 5;
    }

    /// One entry of a coverage plan.
    message RpbCoverageEntry {
        /// The address to ask.
        required bytes ip = 1;
        /// The port of its Protocol Buffers interface.
        required uint32 port = 2;
        /// Description of the part that it covers, for people.
        optional bytes keyspace_desc = 3;
        /// The part that it covers, to be sent with [`RpbIndexReq`].
        required bytes cover_context = 4;
    }

    /// The answer of [`RpbCoverageReq`].
    message RpbCoverageResp: CoverageResp {
        /// The plan.
        repeated message(RpbCoverageEntry) entries = 1;
    }
}
