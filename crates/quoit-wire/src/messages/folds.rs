//! Folds over the records of a bucket, with Riak's hash trees, statistics and bulk changes.

use super::declare::messages;

/// Kind of records that [`RpbAaeFoldFindKeysReq`] looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum FindType {
    /// Records with many siblings.
    SiblingCount = 0,
    /// Large records.
    ObjectSize = 1,
}

/// Node that executes a fold that changes records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum ChangeMethod {
    /// One job executes all changes.
    Job = 0,
    /// Each node changes the records that it finds.
    Local = 1,
    /// Nothing is changed; records are only counted.
    Count = 2,
}

messages! {
    /// Requests the root of the hash tree over all records of buckets with this number of replicas.
    message RpbAaeFoldMergeRootNValReq: AaeFoldMergeRootNValReq {
        /// Number of replicas.
        required uint32 n_val = 1;
    }

    /// Requests branches of such a tree.
    message RpbAaeFoldMergeBranchNValReq: AaeFoldMergeBranchNValReq {
        /// Number of replicas.
        required uint32 n_val = 1;
        /// Numbers of the branches.
        repeated uint32 id_filter = 2;
    }

    /// Requests the keys and clocks in segments of such a tree.
    message RpbAaeFoldFetchClocksNValReq: AaeFoldFetchClocksNValReq {
        /// Number of replicas.
        required uint32 n_val = 1;
        /// The segments.
        repeated uint32 id_filter = 2;
        /// True if `last_mod_start` and `last_mod_end` bound the time of the last write.
        optional bool modified_range = 40;
        /// Earliest time, in seconds since 1970.
        optional uint32 last_mod_start = 41;
        /// Latest time, in seconds since 1970.
        optional uint32 last_mod_end = 42;
    }

    /// Requests a hash tree of a range of keys.
    message RpbAaeFoldMergeTreesRangeReq: AaeFoldMergeTreesRangeReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// True if `start_key` and `end_key` bound the keys.
        required bool key_range = 10;
        /// The first key.
        optional bytes start_key = 11;
        /// The last key.
        optional bytes end_key = 12;
        /// Size of the requested tree.
        required uint32 tree_size = 20;
        /// True to select only keys in some segments of a tree.
        required bool segment_filter = 30;
        /// The segments.
        repeated uint32 id_filter = 31;
        /// Size of the tree that has these segments.
        optional uint32 filter_tree_size = 32;
        /// True if `last_mod_start` and `last_mod_end` bound the time of the last write.
        required bool modified_range = 40;
        /// Earliest time, in seconds since 1970.
        optional uint32 last_mod_start = 41;
        /// Latest time, in seconds since 1970.
        optional uint32 last_mod_end = 42;
        /// True for the hashes of the kept trees; false for hashes computed with `init_vector`.
        required bool use_prehash = 50;
        /// Initial vector of the hashes.
        optional uint32 init_vector = 51;
    }

    /// Puts the keys of a range into a replication queue.
    message RpbAaeFoldReplKeysReq: AaeFoldReplKeysReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// True if `start_key` and `end_key` bound the keys.
        required bool key_range = 10;
        /// The first key.
        optional bytes start_key = 11;
        /// The last key.
        optional bytes end_key = 12;
        /// True if `last_mod_start` and `last_mod_end` bound the time of the last write.
        required bool modified_range = 40;
        /// Earliest time, in seconds since 1970.
        optional uint32 last_mod_start = 41;
        /// Latest time, in seconds since 1970.
        optional uint32 last_mod_end = 42;
        /// Name of the queue.
        required bytes queuename = 50;
    }

    /// A hash tree, or parts of one.
    message RpbAaeFoldTreeResp: AaeFoldTreeResp {
        /// Size of the tree.
        required uint32 size = 1;
        /// The root: 4 bytes for each branch.
        optional bytes level_one = 2;
        /// Branches: 4 bytes with the number, then 4 bytes for each leaf, compressed or not.
        repeated bytes level_two = 3;
    }

    /// Requests the keys and clocks of a range.
    message RpbAaeFoldFetchClocksRangeReq: AaeFoldFetchClocksRangeReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// True if `start_key` and `end_key` bound the keys.
        required bool key_range = 10;
        /// The first key.
        optional bytes start_key = 11;
        /// The last key.
        optional bytes end_key = 12;
        /// True to select only keys in some segments of a tree.
        required bool segment_filter = 30;
        /// The segments.
        repeated uint32 id_filter = 31;
        /// Size of the tree that has these segments.
        optional uint32 filter_tree_size = 32;
        /// True if `last_mod_start` and `last_mod_end` bound the time of the last write.
        required bool modified_range = 40;
        /// Earliest time, in seconds since 1970.
        optional uint32 last_mod_start = 41;
        /// Latest time, in seconds since 1970.
        optional uint32 last_mod_end = 42;
    }

    /// Requests keys with many siblings or large objects.
    message RpbAaeFoldFindKeysReq: AaeFoldFindKeysReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// True if `start_key` and `end_key` bound the keys.
        required bool key_range = 10;
        /// The first key.
        optional bytes start_key = 11;
        /// The last key.
        optional bytes end_key = 12;
        /// True if `last_mod_start` and `last_mod_end` bound the time of the last write.
        required bool modified_range = 40;
        /// Earliest time, in seconds since 1970.
        optional uint32 last_mod_start = 41;
        /// Latest time, in seconds since 1970.
        optional uint32 last_mod_end = 42;
        /// Kind of records to look for.
        required enumeration(FindType) finder = 50;
        /// Lower bound, exclusive, of the number of siblings or of the size in bytes.
        required uint32 find_limit = 51;
    }

    /// Requests counts of records by size and siblings.
    message RpbAaeFoldObjectStatsReq: AaeFoldObjectStatsReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// True if `start_key` and `end_key` bound the keys.
        required bool key_range = 10;
        /// The first key.
        optional bytes start_key = 11;
        /// The last key.
        optional bytes end_key = 12;
        /// True if `last_mod_start` and `last_mod_end` bound the time of the last write.
        required bool modified_range = 40;
        /// Earliest time, in seconds since 1970.
        optional uint32 last_mod_start = 41;
        /// Latest time, in seconds since 1970.
        optional uint32 last_mod_end = 42;
    }

    /// Requests tombstones.
    message RpbAaeFoldFindTombsReq: AaeFoldFindTombsReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// True if `start_key` and `end_key` bound the keys.
        required bool key_range = 10;
        /// The first key.
        optional bytes start_key = 11;
        /// The last key.
        optional bytes end_key = 12;
        /// True to select only keys in some segments of a tree.
        required bool segment_filter = 30;
        /// The segments.
        repeated uint32 id_filter = 31;
        /// Size of the tree that has these segments.
        optional uint32 filter_tree_size = 32;
        /// True if `last_mod_start` and `last_mod_end` bound the time of the last write.
        required bool modified_range = 40;
        /// Earliest time, in seconds since 1970.
        optional uint32 last_mod_start = 41;
        /// Latest time, in seconds since 1970.
        optional uint32 last_mod_end = 42;
    }

    /// Reads and repairs all replicas of records.
    message RpbAaeFoldRepairKeysReq: AaeFoldRepairKeysReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// True if `start_key` and `end_key` bound the keys.
        required bool key_range = 10;
        /// The first key.
        optional bytes start_key = 11;
        /// The last key.
        optional bytes end_key = 12;
        /// True if `last_mod_start` and `last_mod_end` bound the time of the last write.
        required bool modified_range = 40;
        /// Earliest time, in seconds since 1970.
        optional uint32 last_mod_start = 41;
        /// Latest time, in seconds since 1970.
        optional uint32 last_mod_end = 42;
    }

    /// Reaps tombstones.
    message RpbAaeFoldReapTombsReq: AaeFoldReapTombsReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// True if `start_key` and `end_key` bound the keys.
        required bool key_range = 10;
        /// The first key.
        optional bytes start_key = 11;
        /// The last key.
        optional bytes end_key = 12;
        /// True to select only keys in some segments of a tree.
        required bool segment_filter = 30;
        /// The segments.
        repeated uint32 id_filter = 31;
        /// Size of the tree that has these segments.
        optional uint32 filter_tree_size = 32;
        /// True if `last_mod_start` and `last_mod_end` bound the time of the last write.
        required bool modified_range = 40;
        /// Earliest time, in seconds since 1970.
        optional uint32 last_mod_start = 41;
        /// Latest time, in seconds since 1970.
        optional uint32 last_mod_end = 42;
        /// Node that executes the change, or none.
        required enumeration(ChangeMethod) change_method = 50;
        /// Label of the job.
        optional uint32 job_id = 51;
    }

    /// Deletes records.
    message RpbAaeFoldEraseKeysReq: AaeFoldEraseKeysReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// True if `start_key` and `end_key` bound the keys.
        required bool key_range = 10;
        /// The first key.
        optional bytes start_key = 11;
        /// The last key.
        optional bytes end_key = 12;
        /// True to select only keys in some segments of a tree.
        required bool segment_filter = 30;
        /// The segments.
        repeated uint32 id_filter = 31;
        /// Size of the tree that has these segments.
        optional uint32 filter_tree_size = 32;
        /// True if `last_mod_start` and `last_mod_end` bound the time of the last write.
        required bool modified_range = 40;
        /// Earliest time, in seconds since 1970.
        optional uint32 last_mod_start = 41;
        /// Latest time, in seconds since 1970.
        optional uint32 last_mod_end = 42;
        /// Node that executes the change, or none.
        required enumeration(ChangeMethod) change_method = 50;
        /// Label of the job.
        optional uint32 job_id = 51;
    }

    /// Requests all buckets that have a key.
    message RpbAaeFoldListBucketsReq: AaeFoldListBucketsReq {
        /// Number of replicas by which nodes are chosen.
        optional uint32 n_val = 1;
    }

    /// Keys with their clocks.
    message RpbAaeFoldKeyValueResp: AaeFoldKeyValueResp {
        /// Kind of the values: `clock`.
        required bytes response_type = 1;
        /// The entries.
        repeated message(RpbKeysValue) keys_value = 2;
    }

    /// A key with its clock.
    message RpbKeysValue {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// Key.
        required bytes key = 3;
        /// The clock.
        required bytes value = 4;
    }

    /// Keys or names with counts.
    message RpbAaeFoldKeyCountResp: AaeFoldKeyCountResp {
        /// Name of the fold that this answers.
        required bytes response_type = 1;
        /// The entries.
        repeated message(RpbKeysCount) keys_count = 2;
    }

    /// A key or name with a count.
    message RpbKeysCount {
        /// The key or name.
        required bytes tag = 1;
        /// Number of the bar in a histogram.
        optional uint32 order = 2;
        /// The count.
        required uint32 count = 3;
    }

    /// Names of buckets.
    message RpbAaeFoldListBucketsResp: AaeFoldListBucketsResp {
        /// The buckets.
        repeated message(RpbAaeFoldBucket) bucket_list = 1;
    }

    /// A bucket.
    message RpbAaeFoldBucket {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
    }
}
