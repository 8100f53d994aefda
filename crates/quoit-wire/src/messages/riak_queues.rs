//! Queues of replication, as Riak nodes of other clusters consume and fill them.

use super::declare::messages;
use super::folds::RpbKeysValue;

messages! {
    /// Asks for the next entry of a queue.
    message RpbFetchReq: FetchReq {
        /// Name of the queue.
        required bytes queuename = 1;
        /// Whether the object's place in trees is wanted: `internal_aaehash`, or `internal`.
        optional bytes encoding = 2;
    }

    /// An entry of a queue.
    message RpbFetchResp: FetchResp {
        /// Whether there is none.
        required bool queue_empty = 1;
        /// Whether the object is a tombstone; absent of a reap.
        optional bool deleted = 2;
        /// Checksum of the object.
        optional uint32 crc_check = 3;
        /// The object with its names.
        optional bytes replencoded_object = 4;
        /// Clock of the tombstone.
        optional bytes deleted_vclock = 5;
        /// Segment in a tree, where it was asked for.
        optional uint32 segment_id = 6;
        /// Value in a tree, where it was asked for.
        optional uint32 segment_hash = 7;
    }

    /// Puts references into a queue.
    message RpbPushReq: PushReq {
        /// Name of the queue.
        required bytes queuename = 1;
        /// The records, with their clocks.
        repeated message(RpbKeysValue) keys_value = 2;
    }

    /// The lengths of a queue.
    message RpbPushResp: PushResp {
        /// Name of the queue.
        optional bytes queuename = 1;
        /// Whether there is such a queue.
        required bool queue_exists = 2;
        /// Entries of folds.
        optional uint32 foldq_length = 10;
        /// Entries of full-sync, and of pushes.
        optional uint32 fsync_length = 11;
        /// Entries of writes as they happened.
        optional uint32 realt_length = 12;
    }

    /// Asks for the addresses of the nodes that are up.
    message RpbMembershipReq: MembershipReq {
        /// Name of a queue; of no use.
        optional bytes queuename = 1;
    }

    /// The addresses of the nodes that are up.
    message RpbMembershipResp: MembershipResp {
        /// The nodes.
        repeated message(RpbClusterMemberEntry) up_nodes = 1;
    }

    /// Where a node takes requests.
    message RpbClusterMemberEntry {
        /// Host name or address.
        required bytes ip = 1;
        /// Port.
        required uint32 port = 2;
    }
}
