//! Replication between clusters of Quoit: source queues whose consumers confirm what they have.
//!
//! Messages of Quoit's own; Riak answers their codes with `Unknown message code: 164`.

use super::declare::messages;

messages! {
    /// Takes the next entries of a source queue. They wait again, for others, when the connection ends, or
    /// takes the next ones, before it has confirmed them.
    message RpbQueueTakeReq: QueueTakeReq {
        /// Name of the queue.
        required bytes queue_name = 1;
        /// Id of the cluster that takes them, 16 bytes. Entries that have been there are left out.
        required bytes sink_cluster = 2;
        /// Name of the node that takes them, for operators.
        optional bytes sink_node = 3;
        /// Entries of the former answer on this connection that are on the sink's disks.
        repeated uint64 confirmed = 4;
        /// Most entries that are wanted.
        optional uint32 count_max = 5;
        /// Bytes of objects after which no further one is wanted.
        optional uint32 bytes_max = 6;
        /// Milliseconds to wait for an entry; absent: not at all.
        optional uint32 wait_ms = 7;
        /// Entries of the former answer of which the sink can't use the delta: they come again, with the
        /// object.
        repeated uint64 wanted_whole = 8;
        /// Whether the sink takes deltas of data types.
        optional bool takes_deltas = 9;
    }

    /// Entries of a source queue.
    message RpbQueueTakeResp: QueueTakeResp {
        /// Id of the cluster that has the queue, 16 bytes.
        required bytes source_cluster = 1;
        /// Whether the node has a queue of the name.
        required bool queue_exists = 2;
        /// The entries, none when the queue stayed empty.
        repeated message(RpbQueuedObject) entries = 3;
        /// Entries that wait behind these.
        optional uint64 waiting = 4;
    }

    /// An entry of a source queue.
    message RpbQueuedObject {
        /// Its number, to be confirmed.
        required uint64 sequence = 1;
        /// Name of the record, encoded as nodes have it.
        required bytes key = 2;
        /// The object or tombstone in stored form; absent for a reap and for a delta.
        optional bytes object = 3;
        /// Clock of a tombstone that was reaped.
        optional bytes reap_clock = 4;
        /// When it was reaped, microseconds since 1970.
        optional uint64 reaped_us = 5;
        /// Ids of the clusters that the object has visited before the source, 16 bytes each.
        repeated bytes visited = 6;
        /// When the entry was queued, microseconds since 1970.
        required uint64 queued_us = 7;
        /// Whether the entry may have been sent before.
        required bool again = 8;
        /// The delta of an operation on a data type, in stored form, for sinks that take deltas.
        optional bytes delta = 9;
        /// When that operation was done, microseconds since 1970.
        optional uint64 delta_modified_us = 10;
    }

    /// Asks for digests of what the cluster has, or for the records behind them. Clusters of different ring
    /// sizes are compared by arcs of the smaller ring.
    message RpbClusterDigestsReq: ClusterDigestsReq {
        /// Id of the cluster that asks, 16 bytes.
        required bytes cluster = 1;
        /// Number of arcs that all placements are divided into, a power of two.
        required uint32 arc_count = 2;
        /// First hour that counts, from 1970: records that expire before it are left out.
        required uint32 hour_min = 3;
        /// Arcs, by number. None: all of them.
        repeated uint32 arcs = 4;
        /// For each arc the number of a range of hashes within it.
        repeated uint64 ranges = 5;
        /// Whether the records of the ranges are wanted instead of their digests.
        optional bool records = 6;
        /// Whether stale queues for the cluster that asks are no obstacle: an operator has said which of both
        /// clusters is right.
        optional bool rebase = 7;
    }

    /// Digests of what the cluster has, or records.
    message RpbClusterDigestsResp: ClusterDigestsResp {
        /// Id of the cluster that answers, 16 bytes.
        required bytes cluster = 1;
        /// Partitions of the cluster.
        required uint32 ring_size = 2;
        /// The digest of each range, or of each arc, in the order of the request, 8 bytes each,
        /// little-endian.
        optional bytes digests = 3;
        /// Records of the ranges.
        repeated message(RpbComparedRecord) records = 4;
        /// Arcs of which no complete copy could be asked.
        repeated uint32 missing_arcs = 5;
        /// Records of the node that answers.
        optional uint64 key_count = 6;
    }

    /// A record, as clusters compare it.
    message RpbComparedRecord {
        /// Name of the record, encoded as nodes have it.
        required bytes key = 1;
        /// Digest of its state.
        required uint64 digest = 2;
        /// Whether it is a tombstone.
        required bool tombstone = 3;
        /// Its clock.
        required bytes clock = 4;
        /// When it was last modified, microseconds since 1970.
        required uint64 modified_us = 5;
    }

    /// Queues records for the cluster that asks, in a queue of its choice.
    message RpbQueuePutReq: QueuePutReq {
        /// Name of the queue.
        required bytes queue_name = 1;
        /// Encoded names of records.
        repeated bytes keys = 2;
    }

    /// Deletes records that the cluster that asks has deleted, as far as they are still what it has seen.
    message RpbDeleteSeenReq: DeleteSeenReq {
        /// Id of the cluster that asks, 16 bytes.
        required bytes cluster = 1;
        /// Encoded names of records.
        repeated bytes keys = 2;
        /// For each record the clock that it has been seen with.
        repeated bytes clocks = 3;
    }

    /// The number of records that were deleted.
    message RpbDeleteSeenResp: DeleteSeenResp {
        /// Records that have a tombstone now.
        required uint64 deleted = 1;
        /// Records that could not be deleted.
        required uint64 failed = 2;
        /// The first fault.
        optional bytes fault = 3;
    }

    /// Asks for bucket types, and for buckets with properties of their own.
    message RpbBucketTypesReq: BucketTypesReq {
        /// Id of the cluster that asks, 16 bytes.
        required bytes cluster = 1;
        /// The version of a former answer by the same node: if it is still the same, nothing is told.
        optional uint64 known_version = 2;
    }

    /// Bucket types and buckets.
    message RpbBucketTypesResp: BucketTypesResp {
        /// Id of the cluster that answers, 16 bytes.
        required bytes cluster = 1;
        /// The version of what is told.
        required uint64 version = 2;
        /// Whether the cluster takes over changes of properties from others itself.
        required bool follows = 3;
        /// Types before buckets.
        repeated message(RpbToldProps) told = 4;
    }

    /// A bucket type or a bucket, and its properties.
    message RpbToldProps {
        /// The bucket type.
        required bytes bucket_type = 1;
        /// The bucket; absent for the type itself.
        optional bytes bucket = 2;
        /// Its properties, JSON.
        required bytes props = 3;
    }

    /// Asks for a page of a partition, so that a cluster can begin with all that another one has.
    message RpbCopyPageReq: CopyPageReq {
        /// Id of the cluster that asks, 16 bytes.
        required bytes cluster = 1;
        /// Number of the partition; absent: only the ring size is wanted.
        optional uint32 partition = 2;
        /// Where the page begins; absent: at the beginning.
        optional uint64 from = 3;
    }

    /// A page of a partition.
    message RpbCopyPageResp: CopyPageResp {
        /// Id of the cluster that answers, 16 bytes.
        required bytes cluster = 1;
        /// Partitions of the cluster.
        required uint32 ring_size = 2;
        /// Whether the node has a complete copy of the partition.
        required bool is_here = 3;
        /// Records in the order of their hashes.
        repeated message(RpbCopiedRecord) records = 4;
        /// Where the next page begins; absent: there is none.
        optional uint64 next = 5;
    }

    /// A record of a page.
    message RpbCopiedRecord {
        /// Name of the record, encoded as nodes have it.
        required bytes key = 1;
        /// The object or tombstone in stored form.
        required bytes object = 2;
    }

    /// Asks about the node's own copy of a large set or map, so that a cluster that lacks some of its items
    /// need not be sent all of them.
    message RpbCopyRangesReq: CopyRangesReq {
        /// Id of the cluster that asks, 16 bytes.
        required bytes cluster = 1;
        /// 1: which ranges differ from those of the sender's copy; 2: the items of ranges.
        required uint32 question = 2;
        /// The ranges, in the message by which nodes of one cluster ask each other
        /// ([`internode::ranges`](crate::internode::ranges)); its partition and layout say nothing here.
        required bytes ranges = 3;
    }

    /// Ranges of a copy.
    message RpbCopyRangesResp: CopyRangesResp {
        /// Id of the cluster that answers, 16 bytes.
        required bytes cluster = 1;
        /// The answer, in the message of nodes of one cluster; absent where the node's copy does not lie in
        /// pages, or the node has none.
        optional bytes answer = 2;
        /// Items of ranges, as an object in stored form.
        optional bytes items = 3;
    }

    /// Lengths of the queue afterwards.
    message RpbQueuePutResp: QueuePutResp {
        /// Whether there is such a queue.
        required bool queue_exists = 1;
        /// Entries of full-sync that wait in it.
        optional uint64 waiting = 2;
    }
}
