//! Counters of the Riak 1.4 kind, which are stored in objects of the default bucket type.

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
        /// Replicas on which the write must be durable.
        optional uint32 dw = 5;
        /// Primaries that must have accepted the write.
        optional uint32 pw = 6;
        /// True to return the new value.
        optional bool returnvalue = 7;
        /// Distinct nodes that must take part.
        optional uint32 node_confirms = 8;
    }

    /// Answer to [`RpbCounterUpdateReq`].
    message RpbCounterUpdateResp: CounterUpdateResp {
        /// The new value, if it was requested.
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
        /// Primaries that must answer.
        optional uint32 pr = 4;
        /// True if a majority of failures ends the read early.
        optional bool basic_quorum = 5;
        /// True if "not found" counts as an answer.
        optional bool notfound_ok = 6;
        /// Distinct nodes that must take part.
        optional uint32 node_confirms = 7;
    }

    /// Answer to [`RpbCounterGetReq`].
    message RpbCounterGetResp: CounterGetResp {
        /// The value; absent if the counter does not exist.
        optional sint64 value = 1;
    }
}
