//! The cluster's layout, for clients that send requests straight to a replica.
//!
//! Messages of Quoit's own: no client of Riak sends them, and Riak answers their codes with
//! `Unknown message code: 160`.

use super::declare::messages;

messages! {
    /// Asks for the cluster's layout.
    message RpbGetLayoutReq: GetLayoutReq {
        /// The tag of the layout that the client has; if it is still right, the answer has
        /// nothing but its tag.
        optional bytes known_tag = 1;
    }

    /// A node that clients can talk to.
    message RpbLayoutNode {
        /// The node's name.
        required bytes name = 1;
        /// `host:port` of its Protocol Buffers interface; empty if it has none.
        required bytes address = 2;
    }

    /// How the keys of a bucket, or of a bucket type, find their replicas.
    message RpbLayoutRule {
        /// The bucket type; `default` for untyped buckets.
        required bytes bucket_type = 1;
        /// The bucket; absent in the rule of all buckets of the type that have none themselves.
        optional bytes bucket = 2;
        /// Replicas of a key.
        required uint32 n_val = 3;
        /// True if all keys of a bucket share one partition.
        optional bool bucket_only = 4;
    }

    /// The answer of [`RpbGetLayoutReq`].
    message RpbGetLayoutResp: GetLayoutResp {
        /// Names everything else that is here: equal tags, equal layouts.
        required bytes tag = 1;
        /// Number of partitions; absent, as everything below, if the client's tag is this one.
        optional uint32 ring_size = 2;
        /// The nodes. Below they are meant by their place in this list, counted from 0.
        repeated message(RpbLayoutNode) nodes = 3;
        /// The primaries of each partition in order of preference, equally many for each, two
        /// bytes each, big-endian; partition by partition.
        optional bytes primaries = 4;
        /// Rules of bucket types first, those of buckets after them. Buckets may be missing when
        /// they are very many; the type's rule is then a guess that costs a hop.
        repeated message(RpbLayoutRule) rules = 5;
    }
}
