//! Counters of the 1.4 kind, which live in objects of the default bucket type.

use super::declare::messages;

messages! {
    /// Adds to a counter.
    message RpbCounterUpdateReq: CounterUpdateReq {
        /// Bucket.
        required bytes bucket = 1;
        /// Key.
        required bytes key = 2;
        /// Amount to add; negative to subtract.
        required sint64 amount = 3;
        /// Replicas that must have accepted the write.
        optional uint32 w = 4;
        /// Replicas that must have it on stable storage.
        optional uint32 dw = 5;
        /// Primary replicas that must have accepted the write.
        optional uint32 pw = 6;
        /// Return the new value.
        optional bool returnvalue = 7;
        /// Distinct nodes that must take part.
        optional uint32 node_confirms = 8;
    }

    /// The answer of [`RpbCounterUpdateReq`].
    message RpbCounterUpdateResp: CounterUpdateResp {
        /// The new value, if it was asked for.
        optional sint64 value = 1;
    }

    /// Reads a counter.
    message RpbCounterGetReq: CounterGetReq {
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
        /// Whether a replica without the counter counts as an answer.
        optional bool notfound_ok = 6;
        /// Distinct nodes that must take part.
        optional uint32 node_confirms = 7;
    }

    /// The answer of [`RpbCounterGetReq`].
    message RpbCounterGetResp: CounterGetResp {
        /// The value; absent if there is no such counter.
        optional sint64 value = 1;
    }
}
