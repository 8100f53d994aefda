//! Replication queues, as Riak nodes of other clusters consume and fill them.

use super::declare::messages;
use super::folds::RpbKeysValue;

messages! {
    /// Requests the next entry of a queue.
    message RpbFetchReq: FetchReq {
        /// Name of the queue.
        required bytes queuename = 1;
        /// `internal_aaehash` to request the object's place in hash trees as well; otherwise
        /// `internal`.
        optional bytes encoding = 2;
    }

    /// An entry of a queue.
    message RpbFetchResp: FetchResp {
        /// True if the queue is empty.
        required bool queue_empty = 1;
        /// True if the object is a tombstone; absent for a reap.
        optional bool deleted = 2;
        /// Checksum of the object.
        optional uint32 crc_check = 3;
        /// The object, with the names of its record.
        optional bytes replencoded_object = 4;
        /// Clock of the tombstone.
        optional bytes deleted_vclock = 5;
        /// Segment in a hash tree, if it was requested.
        optional uint32 segment_id = 6;
        /// Hash in that segment, if it was requested.
        optional uint32 segment_hash = 7;
    }

    /// Puts references to records into a queue.
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
        /// True if the queue exists.
        required bool queue_exists = 2;
        /// Number of entries from folds.
        optional uint32 foldq_length = 10;
        /// Number of entries from full-sync and from pushes.
        optional uint32 fsync_length = 11;
        /// Number of entries from realtime replication.
        optional uint32 realt_length = 12;
    }

    /// Requests the addresses of the nodes that are up.
    message RpbMembershipReq: MembershipReq {
        /// Name of a queue; not used.
        optional bytes queuename = 1;
    }

    /// The addresses of the nodes that are up.
    message RpbMembershipResp: MembershipResp {
        /// The nodes.
        repeated message(RpbClusterMemberEntry) up_nodes = 1;
    }

    /// Address at which a node takes requests.
    message RpbClusterMemberEntry {
        /// Host name or address.
        required bytes ip = 1;
        /// Port.
        required uint32 port = 2;
    }
}
