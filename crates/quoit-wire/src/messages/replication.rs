//! Replication between clusters of Quoit, by source queues whose consumers confirm the entries that
//! they have.
//!
//! These messages are Quoit's own; Riak answers their codes with `Unknown message code: 164`.

use super::declare::messages;

messages! {
    /// Takes the next entries of a source queue. Entries that were taken and not confirmed become
    /// available to others when the connection ends, or when it takes the next entries.
    message RpbQueueTakeReq: QueueTakeReq {
        /// Name of the queue.
        required bytes queue_name = 1;
        /// Id of the cluster that takes the entries, 16 bytes. Objects that have been in that
        /// cluster are left out.
        required bytes sink_cluster = 2;
        /// Name of the node that takes the entries, for operators.
        optional bytes sink_node = 3;
        /// Entries of the previous answer on this connection that are on the sink's disks.
        repeated uint64 confirmed = 4;
        /// Maximum number of entries.
        optional uint32 count_max = 5;
        /// Size in bytes of objects after which no further entry is added.
        optional uint32 bytes_max = 6;
        /// Time in milliseconds to wait for an entry; absent for not at all.
        optional uint32 wait_ms = 7;
        /// Entries of the previous answer whose delta the sink can't use. They come again with the
        /// whole object.
        repeated uint64 wanted_whole = 8;
        /// True if the sink accepts deltas of data types.
        optional bool takes_deltas = 9;
    }

    /// Entries of a source queue.
    message RpbQueueTakeResp: QueueTakeResp {
        /// Id of the cluster that has the queue, 16 bytes.
        required bytes source_cluster = 1;
        /// True if the node has a queue of this name.
        required bool queue_exists = 2;
        /// The entries; empty if the queue stayed empty.
        repeated message(RpbQueuedObject) entries = 3;
        /// Number of entries that wait after these.
        optional uint64 waiting = 4;
    }

    /// An entry of a source queue.
    message RpbQueuedObject {
        /// Number of the entry, by which it is confirmed.
        required uint64 sequence = 1;
        /// Name of the record, in the encoding between nodes.
        required bytes key = 2;
        /// The object or tombstone in stored form; absent for a reap and for a delta.
        optional bytes object = 3;
        /// Clock of a reaped tombstone.
        optional bytes reap_clock = 4;
        /// Time of the reap in microseconds since 1970.
        optional uint64 reaped_us = 5;
        /// Ids of the clusters that the object has passed before the source, 16 bytes each.
        repeated bytes visited = 6;
        /// Time at which the entry was queued, in microseconds since 1970.
        required uint64 queued_us = 7;
        /// True if the entry may have been sent before.
        required bool again = 8;
        /// The delta of an operation on a data type, in stored form, for sinks that accept deltas.
        optional bytes delta = 9;
        /// Time of that operation in microseconds since 1970.
        optional uint64 delta_modified_us = 10;
    }

    /// Requests digests of the cluster's records, or the records themselves. Clusters of different
    /// ring sizes are compared by arcs of the smaller ring.
    message RpbClusterDigestsReq: ClusterDigestsReq {
        /// Id of the requesting cluster, 16 bytes.
        required bytes cluster = 1;
        /// Number of arcs into which all placements are divided, a power of two.
        required uint32 arc_count = 2;
        /// First hour since 1970 that is compared: records that expire before it are left out.
        required uint32 hour_min = 3;
        /// Numbers of the arcs; empty for all.
        repeated uint32 arcs = 4;
        /// Number of a range of hashes within each arc.
        repeated uint64 ranges = 5;
        /// True to request the records of the ranges instead of their digests.
        optional bool records = 6;
        /// True to ignore stale queues for the requesting cluster, after an operator has decided
        /// which cluster is right.
        optional bool rebase = 7;
    }

    /// Digests of the cluster's records, or the records themselves.
    message RpbClusterDigestsResp: ClusterDigestsResp {
        /// Id of the answering cluster, 16 bytes.
        required bytes cluster = 1;
        /// Number of partitions of the cluster.
        required uint32 ring_size = 2;
        /// The digest of each range or arc, in the order of the request, 8 bytes each
        /// (little-endian).
        optional bytes digests = 3;
        /// Records of the ranges.
        repeated message(RpbComparedRecord) records = 4;
        /// Arcs without a complete copy that could be asked.
        repeated uint32 missing_arcs = 5;
        /// Number of records of the answering node.
        optional uint64 key_count = 6;
    }

    /// A record, as clusters compare it.
    message RpbComparedRecord {
        /// Name of the record, in the encoding between nodes.
        required bytes key = 1;
        /// Digest of the record.
        required uint64 digest = 2;
        /// True for a tombstone.
        required bool tombstone = 3;
        /// Clock of the record.
        required bytes clock = 4;
        /// Time of the last write in microseconds since 1970.
        required uint64 modified_us = 5;
    }

    /// Queues records for the requesting cluster, in a queue that it names.
    message RpbQueuePutReq: QueuePutReq {
        /// Name of the queue.
        required bytes queue_name = 1;
        /// Encoded names of records.
        repeated bytes keys = 2;
    }

    /// Deletes records that the requesting cluster has deleted, if they have not changed since it
    /// saw them.
    message RpbDeleteSeenReq: DeleteSeenReq {
        /// Id of the requesting cluster, 16 bytes.
        required bytes cluster = 1;
        /// Encoded names of records.
        repeated bytes keys = 2;
        /// For each record, the clock with which the requesting cluster saw it.
        repeated bytes clocks = 3;
    }

    /// The number of deleted records.
    message RpbDeleteSeenResp: DeleteSeenResp {
        /// Number of records that have a tombstone now.
        required uint64 deleted = 1;
        /// Number of records that could not be deleted.
        required uint64 failed = 2;
        /// The first error.
        optional bytes fault = 3;
    }

    /// Requests bucket types, and buckets with properties of their own.
    message RpbBucketTypesReq: BucketTypesReq {
        /// Id of the requesting cluster, 16 bytes.
        required bytes cluster = 1;
        /// Version of an earlier answer by the same node. If it is still current, the answer is
        /// empty.
        optional uint64 known_version = 2;
    }

    /// Bucket types and buckets.
    message RpbBucketTypesResp: BucketTypesResp {
        /// Id of the answering cluster, 16 bytes.
        required bytes cluster = 1;
        /// Version of the content.
        required uint64 version = 2;
        /// True if the cluster itself takes over changes of properties from others.
        required bool follows = 3;
        /// Types and buckets, types first.
        repeated message(RpbStoredProps) told = 4;
    }

    /// A bucket type or a bucket, and its properties.
    message RpbStoredProps {
        /// The bucket type.
        required bytes bucket_type = 1;
        /// The bucket; absent for the type itself.
        optional bytes bucket = 2;
        /// Properties as JSON.
        required bytes props = 3;
    }

    /// Requests a page of a partition, so that a new cluster can copy all records of another one.
    message RpbCopyPageReq: CopyPageReq {
        /// Id of the requesting cluster, 16 bytes.
        required bytes cluster = 1;
        /// Number of the partition; absent to request only the ring size.
        optional uint32 partition = 2;
        /// Begin of the page; absent for the first page.
        optional uint64 from = 3;
    }

    /// A page of a partition.
    message RpbCopyPageResp: CopyPageResp {
        /// Id of the answering cluster, 16 bytes.
        required bytes cluster = 1;
        /// Number of partitions of the cluster.
        required uint32 ring_size = 2;
        /// True if the node has a complete copy of the partition.
        required bool is_here = 3;
        /// Records in the order of their hashes.
        repeated message(RpbCopiedRecord) records = 4;
        /// Begin of the next page; absent after the last one.
        optional uint64 next = 5;
    }

    /// A record of a page.
    message RpbCopiedRecord {
        /// Name of the record, in the encoding between nodes.
        required bytes key = 1;
        /// The object or tombstone in stored form.
        required bytes object = 2;
    }

    /// Requests ranges of the node's own copy of a large set or map, so that a cluster that lacks
    /// some items need not receive all.
    message RpbCopyRangesReq: CopyRangesReq {
        /// Id of the requesting cluster, 16 bytes.
        required bytes cluster = 1;
        /// 1 to compare ranges with those of the sender's copy; 2 to read the items of ranges.
        required uint32 question = 2;
        /// The ranges, in the message between nodes of one cluster
        /// ([`internode::ranges`](crate::internode::ranges)). Its partition and layout have no
        /// meaning here.
        required bytes ranges = 3;
    }

    /// Ranges of a copy.
    message RpbCopyRangesResp: CopyRangesResp {
        /// Id of the answering cluster, 16 bytes.
        required bytes cluster = 1;
        /// The answer, in the message between nodes of one cluster; absent if the node has no copy,
        /// or has it not in pages.
        optional bytes answer = 2;
        /// Items of the ranges, as an object in stored form.
        optional bytes items = 3;
    }

    /// State of the queue afterwards.
    message RpbQueuePutResp: QueuePutResp {
        /// True if the queue exists.
        required bool queue_exists = 1;
        /// Number of full-sync entries that wait in it.
        optional uint64 waiting = 2;
    }
}
