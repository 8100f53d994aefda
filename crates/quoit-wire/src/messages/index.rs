//! Queries of secondary indexes, reads of ranges of objects, and coverage plans.

use super::declare::messages;
use super::kv::{RpbGetResp, RpbPair};

/// The form of an index query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum IndexQueryType {
    /// One term.
    Eq = 0,
    /// All terms of a range, both ends included.
    Range = 1,
}

messages! {
    /// Queries a secondary index.
    message RpbIndexReq: IndexReq {
        /// Bucket.
        required bytes bucket = 1;
        /// The field; or `$key` or `$bucket`.
        required bytes index = 2;
        /// The form of the query.
        required enumeration(IndexQueryType) qtype = 3;
        /// The term of an equality query.
        optional bytes key = 4;
        /// The first term of a range.
        optional bytes range_min = 5;
        /// The last term of a range.
        optional bytes range_max = 6;
        /// True to return terms with the keys.
        optional bool return_terms = 7;
        /// True to answer in several frames.
        optional bool stream = 8;
        /// Page size. The answer is then sorted and has a continuation.
        optional uint32 max_results = 9;
        /// Continuation of the previous page.
        optional bytes continuation = 10;
        /// Timeout in milliseconds; 0 for none.
        optional uint32 timeout = 11;
        /// Bucket type.
        optional bytes bucket_type = 12;
        /// Regular expression that terms must match.
        optional bytes term_regex = 13;
        /// True to sort without paging.
        optional bool pagination_sort = 14;
        /// Entry of a coverage plan, to query only that part.
        optional bytes cover_context = 15;
        /// True to return the objects.
        optional bool return_body = 16;
        /// Quoit's own: true to exclude the last key of a range of `$key`.
        optional bool range_max_excluded = 100;
    }

    /// Answer to [`RpbIndexReq`], or a part of it.
    message RpbIndexResp: IndexResp {
        /// Keys that match.
        repeated bytes keys = 1;
        /// Matching terms and keys, if terms were requested.
        repeated message(RpbPair) results = 2;
        /// Continuation for the next page.
        optional bytes continuation = 3;
        /// True in the last frame of a stream, absent otherwise.
        optional bool done = 4;
    }

    /// An object of an index query or of a read of a range.
    message RpbIndexObject {
        /// Key.
        required bytes key = 1;
        /// The object.
        required message(RpbGetResp) object = 2;
    }

    /// Answer to [`RpbIndexReq`] with `return_body`.
    message RpbIndexBodyResp: IndexBodyResp {
        /// Objects that match.
        repeated message(RpbIndexObject) objects = 1;
        /// Continuation for the next page.
        optional bytes continuation = 2;
        /// True in the last frame of a stream, absent otherwise.
        optional bool done = 3;
    }

    /// Reads the objects in a range of a bucket's keys, in the order of the keys.
    message RpbCSBucketReq: CSBucketReq {
        /// Bucket.
        required bytes bucket = 1;
        /// The first key.
        required bytes start_key = 2;
        /// The last key; absent for no end.
        optional bytes end_key = 3;
        /// True to include the first key; the default.
        optional bool start_incl = 4;
        /// True to include the last key; false by default.
        optional bool end_incl = 5;
        /// Continuation of the previous page.
        optional bytes continuation = 6;
        /// Page size.
        optional uint32 max_results = 7;
        /// Timeout in milliseconds.
        optional uint32 timeout = 8;
        /// Bucket type.
        optional bytes bucket_type = 9;
        /// Entry of a coverage plan, to read only that part.
        optional bytes cover_context = 10;
    }

    /// A part of the answer to [`RpbCSBucketReq`].
    message RpbCSBucketResp: CSBucketResp {
        /// Objects.
        repeated message(RpbIndexObject) objects = 1;
        /// Continuation for the next page.
        optional bytes continuation = 2;
        /// True in the last frame, absent otherwise.
        optional bool done = 3;
    }

    /// Requests a plan whose entries together cover a bucket.
    message RpbCoverageReq: CoverageReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// Minimum number of entries.
        optional uint32 min_partitions = 3;
        /// Context of a failed entry that is to be replaced.
        optional bytes replace_cover = 4;
        /// Contexts of other failed entries.
        repeated bytes unavailable_cover = 5;
    }

    /// One entry of a coverage plan.
    message RpbCoverageEntry {
        /// Address of the node to ask.
        required bytes ip = 1;
        /// The port of its Protocol Buffers interface.
        required uint32 port = 2;
        /// Description of the covered part, for people.
        optional bytes keyspace_desc = 3;
        /// The covered part, to be sent with [`RpbIndexReq`].
        required bytes cover_context = 4;
    }

    /// Answer to [`RpbCoverageReq`].
    message RpbCoverageResp: CoverageResp {
        /// The plan.
        repeated message(RpbCoverageEntry) entries = 1;
    }
}
