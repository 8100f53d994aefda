//! Folds over the records of a bucket.

use super::declare::messages;

/// Kind of records that [`RpbAaeFoldFindKeysReq`] looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum FindType {
    /// Records of many siblings.
    SiblingCount = 0,
    /// Records of many bytes.
    ObjectSize = 1,
}

/// How a fold that changes records does so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum ChangeMethod {
    /// One job does.
    Job = 0,
    /// Each node does for what it finds.
    Local = 1,
    /// It only counts.
    Count = 2,
}

messages! {
    /// Asks for the root of the tree over all records of buckets with this number of replicas.
    message RpbAaeFoldMergeRootNValReq: AaeFoldMergeRootNValReq {
        /// Number of replicas.
        required uint32 n_val = 1;
    }

    /// Asks for branches of such a tree.
    message RpbAaeFoldMergeBranchNValReq: AaeFoldMergeBranchNValReq {
        /// Number of replicas.
        required uint32 n_val = 1;
        /// The branches.
        repeated uint32 id_filter = 2;
    }

    /// Asks for the keys and clocks of segments of such a tree.
    message RpbAaeFoldFetchClocksNValReq: AaeFoldFetchClocksNValReq {
        /// Number of replicas.
        required uint32 n_val = 1;
        /// The segments.
        repeated uint32 id_filter = 2;
        /// Whether `last_mod_start` and `last_mod_end` bound the time of the last write.
        optional bool modified_range = 40;
        /// The first second, since 1970.
        optional uint32 last_mod_start = 41;
        /// The last second, since 1970.
        optional uint32 last_mod_end = 42;
    }

    /// Asks for a tree of a range.
    message RpbAaeFoldMergeTreesRangeReq: AaeFoldMergeTreesRangeReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// Whether `start_key` and `end_key` bound the keys.
        required bool key_range = 10;
        /// The first key.
        optional bytes start_key = 11;
        /// The last key.
        optional bytes end_key = 12;
        /// The size of the tree that is wanted.
        required uint32 tree_size = 20;
        /// Whether only keys of some segments of a tree are wanted.
        required bool segment_filter = 30;
        /// The segments.
        repeated uint32 id_filter = 31;
        /// The size of the tree that the segments are of.
        optional uint32 filter_tree_size = 32;
        /// Whether `last_mod_start` and `last_mod_end` bound the time of the last write.
        required bool modified_range = 40;
        /// The first second, since 1970.
        optional uint32 last_mod_start = 41;
        /// The last second, since 1970.
        optional uint32 last_mod_end = 42;
        /// Whether the hashes of kept trees are wanted, and not others made with `init_vector`.
        required bool use_prehash = 50;
        /// Initial vector of other hashes.
        optional uint32 init_vector = 51;
    }

    /// Puts the keys of a range into a queue of replication.
    message RpbAaeFoldReplKeysReq: AaeFoldReplKeysReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// Whether `start_key` and `end_key` bound the keys.
        required bool key_range = 10;
        /// The first key.
        optional bytes start_key = 11;
        /// The last key.
        optional bytes end_key = 12;
        /// Whether `last_mod_start` and `last_mod_end` bound the time of the last write.
        required bool modified_range = 40;
        /// The first second, since 1970.
        optional uint32 last_mod_start = 41;
        /// The last second, since 1970.
        optional uint32 last_mod_end = 42;
        /// Name of the queue.
        required bytes queuename = 50;
    }

    /// A tree, or parts of one.
    message RpbAaeFoldTreeResp: AaeFoldTreeResp {
        /// Size of the tree.
        required uint32 size = 1;
        /// The root: 4 bytes for each branch.
        optional bytes level_one = 2;
        /// Branches: 4 bytes of number, then 4 bytes for each leaf, compressed or not.
        repeated bytes level_two = 3;
    }

    /// Asks for the keys and clocks of a range.
    message RpbAaeFoldFetchClocksRangeReq: AaeFoldFetchClocksRangeReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// Whether `start_key` and `end_key` bound the keys.
        required bool key_range = 10;
        /// The first key.
        optional bytes start_key = 11;
        /// The last key.
        optional bytes end_key = 12;
        /// Whether only keys of some segments of a tree are wanted.
        required bool segment_filter = 30;
        /// The segments.
        repeated uint32 id_filter = 31;
        /// The size of the tree that the segments are of.
        optional uint32 filter_tree_size = 32;
        /// Whether `last_mod_start` and `last_mod_end` bound the time of the last write.
        required bool modified_range = 40;
        /// The first second, since 1970.
        optional uint32 last_mod_start = 41;
        /// The last second, since 1970.
        optional uint32 last_mod_end = 42;
    }

    /// Asks for keys with many siblings or bytes.
    message RpbAaeFoldFindKeysReq: AaeFoldFindKeysReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// Whether `start_key` and `end_key` bound the keys.
        required bool key_range = 10;
        /// The first key.
        optional bytes start_key = 11;
        /// The last key.
        optional bytes end_key = 12;
        /// Whether `last_mod_start` and `last_mod_end` bound the time of the last write.
        required bool modified_range = 40;
        /// The first second, since 1970.
        optional uint32 last_mod_start = 41;
        /// The last second, since 1970.
        optional uint32 last_mod_end = 42;
        /// Kind of records to look for.
        required enumeration(FindType) finder = 50;
        /// Those with more than this.
        required uint32 find_limit = 51;
    }

    /// Asks for counts of records by size and siblings.
    message RpbAaeFoldObjectStatsReq: AaeFoldObjectStatsReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// Whether `start_key` and `end_key` bound the keys.
        required bool key_range = 10;
        /// The first key.
        optional bytes start_key = 11;
        /// The last key.
        optional bytes end_key = 12;
        /// Whether `last_mod_start` and `last_mod_end` bound the time of the last write.
        required bool modified_range = 40;
        /// The first second, since 1970.
        optional uint32 last_mod_start = 41;
        /// The last second, since 1970.
        optional uint32 last_mod_end = 42;
    }

    /// Asks for tombstones.
    message RpbAaeFoldFindTombsReq: AaeFoldFindTombsReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// Whether `start_key` and `end_key` bound the keys.
        required bool key_range = 10;
        /// The first key.
        optional bytes start_key = 11;
        /// The last key.
        optional bytes end_key = 12;
        /// Whether only keys of some segments of a tree are wanted.
        required bool segment_filter = 30;
        /// The segments.
        repeated uint32 id_filter = 31;
        /// The size of the tree that the segments are of.
        optional uint32 filter_tree_size = 32;
        /// Whether `last_mod_start` and `last_mod_end` bound the time of the last write.
        required bool modified_range = 40;
        /// The first second, since 1970.
        optional uint32 last_mod_start = 41;
        /// The last second, since 1970.
        optional uint32 last_mod_end = 42;
    }

    /// Has all replicas of records read and repaired.
    message RpbAaeFoldRepairKeysReq: AaeFoldRepairKeysReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// Whether `start_key` and `end_key` bound the keys.
        required bool key_range = 10;
        /// The first key.
        optional bytes start_key = 11;
        /// The last key.
        optional bytes end_key = 12;
        /// Whether `last_mod_start` and `last_mod_end` bound the time of the last write.
        required bool modified_range = 40;
        /// The first second, since 1970.
        optional uint32 last_mod_start = 41;
        /// The last second, since 1970.
        optional uint32 last_mod_end = 42;
    }

    /// Has tombstones reaped.
    message RpbAaeFoldReapTombsReq: AaeFoldReapTombsReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// Whether `start_key` and `end_key` bound the keys.
        required bool key_range = 10;
        /// The first key.
        optional bytes start_key = 11;
        /// The last key.
        optional bytes end_key = 12;
        /// Whether only keys of some segments of a tree are wanted.
        required bool segment_filter = 30;
        /// The segments.
        repeated uint32 id_filter = 31;
        /// The size of the tree that the segments are of.
        optional uint32 filter_tree_size = 32;
        /// Whether `last_mod_start` and `last_mod_end` bound the time of the last write.
        required bool modified_range = 40;
        /// The first second, since 1970.
        optional uint32 last_mod_start = 41;
        /// The last second, since 1970.
        optional uint32 last_mod_end = 42;
        /// Whether and by whom something is changed.
        required enumeration(ChangeMethod) change_method = 50;
        /// A label of the job.
        optional uint32 job_id = 51;
    }

    /// Has records deleted.
    message RpbAaeFoldEraseKeysReq: AaeFoldEraseKeysReq {
        /// Bucket type.
        optional bytes bucket_type = 1;
        /// Bucket.
        required bytes bucket = 2;
        /// Whether `start_key` and `end_key` bound the keys.
        required bool key_range = 10;
        /// The first key.
        optional bytes start_key = 11;
        /// The last key.
        optional bytes end_key = 12;
        /// Whether only keys of some segments of a tree are wanted.
        required bool segment_filter = 30;
        /// The segments.
        repeated uint32 id_filter = 31;
        /// The size of the tree that the segments are of.
        optional uint32 filter_tree_size = 32;
        /// Whether `last_mod_start` and `last_mod_end` bound the time of the last write.
        required bool modified_range = 40;
        /// The first second, since 1970.
        optional uint32 last_mod_start = 41;
        /// The last second, since 1970.
        optional uint32 last_mod_end = 42;
        /// Whether and by whom something is changed.
        required enumeration(ChangeMethod) change_method = 50;
        /// A label of the job.
        optional uint32 job_id = 51;
    }

    /// Asks for all buckets that hold a key.
    message RpbAaeFoldListBucketsReq: AaeFoldListBucketsReq {
        /// Number of replicas to choose nodes by.
        optional uint32 n_val = 1;
    }

    /// Keys with their clocks.
    message RpbAaeFoldKeyValueResp: AaeFoldKeyValueResp {
        /// Kind of the values: `clock`.
        required bytes response_type = 1;
        /// The entries.
        repeated message(RpbKeysValue) keys_value = 2;
    }

    /// A key with something.
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
        /// Which fold this answers.
        required bytes response_type = 1;
        /// The entries.
        repeated message(RpbKeysCount) keys_count = 2;
    }

    /// A key or name with a count.
    message RpbKeysCount {
        /// The key or name.
        required bytes tag = 1;
        /// Which bar of a histogram.
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
