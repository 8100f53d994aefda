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
