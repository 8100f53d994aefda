//! Properties of buckets and bucket types.

use super::declare::messages;

/// Between which clusters objects are copied, as a property of their bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum RpbReplMode {
    /// Not copied.
    False = 0,
    /// As they are written.
    Realtime = 1,
    /// By periodic comparison.
    Fullsync = 2,
    /// Both.
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
        /// The name of a JavaScript function; not looked at beside `modfun`.
        optional bytes name = 2;
    }

    /// Properties: all of them in answers, those to change in requests.
    message RpbBucketProps {
        /// Number of replicas.
        optional uint32 n_val = 1;
        /// Whether concurrent writes are kept as siblings.
        optional bool allow_mult = 2;
        /// Whether the last write simply replaces what was there.
        optional bool last_write_wins = 3;
        /// Hooks before writes.
        repeated message(RpbCommitHook) precommit = 4;
        /// Whether `precommit` is meant, also when it is empty.
        optional bool has_precommit = 5;
        /// Hooks after writes.
        repeated message(RpbCommitHook) postcommit = 6;
        /// Whether `postcommit` is meant, also when it is empty.
        optional bool has_postcommit = 7;
        /// The function from key to partition.
        optional message(RpbModFun) chash_keyfun = 8;
        /// The function that finds links in an object.
        optional message(RpbModFun) linkfun = 9;
        /// Clock pruning: entries older than this, in seconds, may go.
        optional uint32 old_vclock = 10;
        /// Clock pruning: entries younger than this, in seconds, stay.
        optional uint32 young_vclock = 11;
        /// Clock pruning: clocks with more entries are pruned.
        optional uint32 big_vclock = 12;
        /// Clock pruning: clocks with fewer entries are left alone.
        optional uint32 small_vclock = 13;
        /// Primary replicas that must answer a read.
        optional uint32 pr = 14;
        /// Replicas that must answer a read.
        optional uint32 r = 15;
        /// Replicas that must have accepted a write.
        optional uint32 w = 16;
        /// Primary replicas that must have accepted a write.
        optional uint32 pw = 17;
        /// Replicas that must have a write on stable storage.
        optional uint32 dw = 18;
        /// Read and write quorum of deletes in one, the oldest form.
        optional uint32 rw = 19;
        /// Whether a majority of failures ends a read early.
        optional bool basic_quorum = 20;
        /// Whether a replica without the object counts as an answer.
        optional bool notfound_ok = 21;
        /// The engine's name, where there are several.
        optional bytes backend = 22;
        /// The flag of the first search.
        optional bool search = 23;
        /// Replication to other clusters.
        optional enumeration(RpbReplMode) repl = 24;
        /// The search index, `_dont_index_` for none.
        optional bytes search_index = 25;
        /// `counter`, `set`, `map`, `hll` or `gset`.
        optional bytes datatype = 26;
        /// Strong consistency.
        optional bool consistent = 27;
        /// Objects are written once and never changed.
        optional bool write_once = 28;
        /// Precision of HyperLogLogs, 4 to 16.
        optional uint32 hll_precision = 29;
    }

    /// Asks for a bucket's properties.
    message RpbGetBucketReq: GetBucketReq {
        /// Bucket.
        required bytes bucket = 1;
        /// Bucket type.
        optional bytes bucket_type = 2;
    }

    /// The answer of [`RpbGetBucketReq`] and [`RpbGetBucketTypeReq`].
    message RpbGetBucketResp: GetBucketResp {
        /// All properties as they hold.
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

    /// The answer of [`RpbSetBucketReq`] and [`RpbSetBucketTypeReq`].
    message RpbSetBucketResp: SetBucketResp {}

    /// Drops a bucket's own properties, so that it has those of its type again.
    message RpbResetBucketReq: ResetBucketReq {
        /// Bucket.
        required bytes bucket = 1;
        /// Bucket type.
        optional bytes bucket_type = 2;
    }

    /// The answer of [`RpbResetBucketReq`].
    message RpbResetBucketResp: ResetBucketResp {}

    /// Asks for the properties of a bucket type.
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
