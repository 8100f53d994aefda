//! Properties of buckets and bucket types.

use super::declare::messages;

/// Replication of a bucket's objects to other clusters, as a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum RpbReplMode {
    /// No replication.
    False = 0,
    /// Realtime replication.
    Realtime = 1,
    /// Full-sync.
    Fullsync = 2,
    /// Realtime replication and full-sync.
    True = 3,
}

messages! {
    /// A function of a module.
    message RpbModFun {
        /// The module.
        required bytes module = 1;
        /// The function.
        required bytes function = 2;
    }

    /// A hook that runs before or after writes.
    message RpbCommitHook {
        /// An Erlang function.
        optional message(RpbModFun) modfun = 1;
        /// The name of a JavaScript function; ignored if `modfun` is set.
        optional bytes name = 2;
    }

    /// Properties: all of them in answers, those to change in requests.
    message RpbBucketProps {
        /// Number of replicas.
        optional uint32 n_val = 1;
        /// True if concurrent writes are kept as siblings.
        optional bool allow_mult = 2;
        /// True if the last write replaces all others.
        optional bool last_write_wins = 3;
        /// Hooks that run before writes.
        repeated message(RpbCommitHook) precommit = 4;
        /// True if `precommit` is set, even to an empty list.
        optional bool has_precommit = 5;
        /// Hooks that run after writes.
        repeated message(RpbCommitHook) postcommit = 6;
        /// True if `postcommit` is set, even to an empty list.
        optional bool has_postcommit = 7;
        /// Function that computes the placement of a key.
        optional message(RpbModFun) chash_keyfun = 8;
        /// Function that extracts the links of an object.
        optional message(RpbModFun) linkfun = 9;
        /// Pruning: age in seconds above which entries may be dropped.
        optional uint32 old_vclock = 10;
        /// Pruning: age in seconds below which entries are kept.
        optional uint32 young_vclock = 11;
        /// Pruning: number of entries above which a clock is pruned.
        optional uint32 big_vclock = 12;
        /// Pruning: number of entries up to which a clock is not pruned.
        optional uint32 small_vclock = 13;
        /// Primaries that must answer a read.
        optional uint32 pr = 14;
        /// Replicas that must answer a read.
        optional uint32 r = 15;
        /// Replicas that must have accepted a write.
        optional uint32 w = 16;
        /// Primaries that must have accepted a write.
        optional uint32 pw = 17;
        /// Replicas on which the write must be durable.
        optional uint32 dw = 18;
        /// Quorum of both the read and the write of a delete; the oldest form.
        optional uint32 rw = 19;
        /// True if a majority of failures ends a read early.
        optional bool basic_quorum = 20;
        /// True if "not found" counts as an answer.
        optional bool notfound_ok = 21;
        /// Name of the storage engine, if there are several.
        optional bytes backend = 22;
        /// Flag of Riak's legacy search.
        optional bool search = 23;
        /// Replication to other clusters.
        optional enumeration(RpbReplMode) repl = 24;
        /// Search index; `_dont_index_` for none.
        optional bytes search_index = 25;
        /// `counter`, `set`, `map`, `hll` or `gset`.
        optional bytes datatype = 26;
        /// True if objects are strongly consistent.
        optional bool consistent = 27;
        /// True if objects are written once and never changed.
        optional bool write_once = 28;
        /// Precision of HyperLogLogs, 4 to 16.
        optional uint32 hll_precision = 29;
    }

    /// Requests a bucket's properties.
    message RpbGetBucketReq: GetBucketReq {
        /// Bucket.
        required bytes bucket = 1;
        /// Bucket type.
        optional bytes bucket_type = 2;
    }

    /// Answer to [`RpbGetBucketReq`] and [`RpbGetBucketTypeReq`].
    message RpbGetBucketResp: GetBucketResp {
        /// All properties that are in effect.
        required message(RpbBucketProps) props = 1;
    }

    /// Changes properties of a bucket.
    message RpbSetBucketReq: SetBucketReq {
        /// Bucket.
        required bytes bucket = 1;
        /// Properties that change.
        required message(RpbBucketProps) props = 2;
        /// Bucket type.
        optional bytes bucket_type = 3;
    }

    /// Answer to [`RpbSetBucketReq`] and [`RpbSetBucketTypeReq`].
    message RpbSetBucketResp: SetBucketResp {}

    /// Resets a bucket's properties to those of its type.
    message RpbResetBucketReq: ResetBucketReq {
        /// Bucket.
        required bytes bucket = 1;
        /// Bucket type.
        optional bytes bucket_type = 2;
    }

    /// Answer to [`RpbResetBucketReq`].
    message RpbResetBucketResp: ResetBucketResp {}

    /// Requests the properties of a bucket type.
    message RpbGetBucketTypeReq: GetBucketTypeReq {
        /// Bucket type.
        required bytes bucket_type = 1;
    }

    /// Changes properties of a bucket type.
    message RpbSetBucketTypeReq: SetBucketTypeReq {
        /// Bucket type.
        required bytes bucket_type = 1;
        /// Properties that change.
        required message(RpbBucketProps) props = 2;
    }
}
