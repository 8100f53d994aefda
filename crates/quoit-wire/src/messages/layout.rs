//! The cluster's layout, for clients that send requests directly to a replica.
//!
//! These messages are Quoit's own: clients of Riak do not send them, and Riak answers their codes
//! with `Unknown message code: 160`.

use super::declare::messages;

messages! {
    /// Requests the cluster's layout.
    message RpbGetLayoutReq: GetLayoutReq {
        /// Tag of the layout that the client has. If it is still current, the answer has only its
        /// tag.
        optional bytes known_tag = 1;
    }

    /// A node that clients can connect to.
    message RpbLayoutNode {
        /// The node's name.
        required bytes name = 1;
        /// `host:port` of its Protocol Buffers interface; empty if it has none.
        required bytes address = 2;
    }

    /// Rule by which the keys of a bucket, or of a bucket type, are placed.
    message RpbLayoutRule {
        /// The bucket type; `default` for untyped buckets.
        required bytes bucket_type = 1;
        /// The bucket; absent in the rule for all buckets of the type without a rule of their own.
        optional bytes bucket = 2;
        /// Number of replicas of a key.
        required uint32 n_val = 3;
        /// True if all keys of a bucket share one partition.
        optional bool bucket_only = 4;
    }

    /// Answer to [`RpbGetLayoutReq`].
    message RpbGetLayoutResp: GetLayoutResp {
        /// Tag of the rest of this message; equal layouts have equal tags.
        required bytes tag = 1;
        /// Number of partitions. This field and those below are absent if the client's tag is
        /// current.
        optional uint32 ring_size = 2;
        /// The nodes. Other fields refer to them by index, from 0.
        repeated message(RpbLayoutNode) nodes = 3;
        /// The primaries of each partition in order of preference, partition by partition, two
        /// bytes each (big-endian). Every partition has the same number of them.
        optional bytes primaries = 4;
        /// Rules of bucket types, then of buckets. If there are very many buckets, some are
        /// missing; the client then uses the type's rule, which may cost a hop.
        repeated message(RpbLayoutRule) rules = 5;
    }
}
