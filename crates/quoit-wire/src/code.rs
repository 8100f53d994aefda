//! Message codes: the byte of a frame that says which message its body is.

use std::fmt;

/// Declares the codes once: the enumeration, its names and its decoding come from one table.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $value:literal,)*) => {
        /// The messages of the Protocol Buffers interface that Quoit knows.
        ///
        /// The variants are named as the messages of the protocol without their `Rpb` prefix.
        /// A code that is not here is answered with `Unknown message code: N`, and the
        /// connection stays open.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum MessageCode {
            $($(#[$doc])* $variant = $value,)*
        }

        impl MessageCode {
            /// Every known code, ascending.
            pub const ALL: &[MessageCode] = &[$(MessageCode::$variant,)*];

            /// The code of a byte, or `None` when no message of ours has it.
            pub const fn from_byte(code: u8) -> Option<MessageCode> {
                match code {
                    $($value => Some(MessageCode::$variant),)*
                    _ => None,
                }
            }

            /// The message's name without the `Rpb` prefix, as in `GetReq`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(MessageCode::$variant => stringify!($variant),)*
                }
            }
        }
    };
}

codes! {
    /// The answer of any request that failed.
    ErrorResp = 0,
    /// Are you there?
    PingReq = 1,
    /// Yes.
    PingResp = 2,
    /// Asks for the connection's client id.
    GetClientIdReq = 3,
    /// The connection's client id.
    GetClientIdResp = 4,
    /// Sets the connection's client id.
    SetClientIdReq = 5,
    /// The client id is set.
    SetClientIdResp = 6,
    /// Asks for the node's name and version.
    GetServerInfoReq = 7,
    /// The node's name and version.
    GetServerInfoResp = 8,
    /// Reads an object.
    GetReq = 9,
    /// The object read.
    GetResp = 10,
    /// Writes an object.
    PutReq = 11,
    /// The object is written.
    PutResp = 12,
    /// Deletes an object.
    DelReq = 13,
    /// The object is deleted, or never was.
    DelResp = 14,
    /// Lists buckets.
    ListBucketsReq = 15,
    /// Names of buckets.
    ListBucketsResp = 16,
    /// Lists the keys of a bucket.
    ListKeysReq = 17,
    /// A batch of keys.
    ListKeysResp = 18,
    /// Asks for the properties of a bucket.
    GetBucketReq = 19,
    /// The properties of a bucket or of a bucket type.
    GetBucketResp = 20,
    /// Changes properties of a bucket.
    SetBucketReq = 21,
    /// The properties are changed.
    SetBucketResp = 22,
    /// Runs a MapReduce job.
    MapRedReq = 23,
    /// Results of one phase of a MapReduce job.
    MapRedResp = 24,
    /// Queries a secondary index.
    IndexReq = 25,
    /// Matches of an index query.
    IndexResp = 26,
    /// Drops a bucket's own properties.
    ResetBucketReq = 29,
    /// The properties are dropped.
    ResetBucketResp = 30,
    /// Asks for the properties of a bucket type; answered by `GetBucketResp`.
    GetBucketTypeReq = 31,
    /// Changes properties of a bucket type; answered by `SetBucketResp`.
    SetBucketTypeReq = 32,
    /// Asks which nodes hold a key.
    GetBucketKeyPreflistReq = 33,
    /// The nodes that hold a key, in order of preference.
    GetBucketKeyPreflistResp = 34,
    /// Folds over a range of a bucket's objects, bodies included.
    CSBucketReq = 40,
    /// A batch of the objects of such a fold.
    CSBucketResp = 41,
    /// Matches of an index query, with their objects.
    IndexBodyResp = 42,
    /// Adds to a counter of the 1.4 kind.
    CounterUpdateReq = 50,
    /// The counter of the 1.4 kind is changed.
    CounterUpdateResp = 51,
    /// Reads a counter of the 1.4 kind.
    CounterGetReq = 52,
    /// The value of a counter of the 1.4 kind.
    CounterGetResp = 53,
    /// Asks for a plan that covers a bucket.
    CoverageReq = 70,
    /// A plan that covers a bucket.
    CoverageResp = 71,
    /// Reads a data type.
    DtFetchReq = 80,
    /// The value of a data type.
    DtFetchResp = 81,
    /// Changes a data type.
    DtUpdateReq = 82,
    /// The data type is changed.
    DtUpdateResp = 83,
    /// Asks for the cluster's layout; Quoit's own.
    GetLayoutReq = 160,
    /// The cluster's layout; Quoit's own.
    GetLayoutResp = 161,
    /// Asks about a part of a data type; Quoit's own.
    DtQueryReq = 162,
    /// A part of a data type; Quoit's own.
    DtQueryResp = 163,
    /// Takes entries of a source queue and confirms former ones; Quoit's own.
    QueueTakeReq = 164,
    /// Entries of a source queue; Quoit's own.
    QueueTakeResp = 165,
    /// Asks for digests of what the cluster has; Quoit's own.
    ClusterDigestsReq = 166,
    /// Digests of what the cluster has; Quoit's own.
    ClusterDigestsResp = 167,
    /// Queues records for another cluster; Quoit's own.
    QueuePutReq = 168,
    /// The records are queued; Quoit's own.
    QueuePutResp = 169,
    /// Deletes records that another cluster has deleted; Quoit's own.
    DeleteSeenReq = 170,
    /// The number of records that were deleted; Quoit's own.
    DeleteSeenResp = 171,
    /// Asks for a page of a partition; Quoit's own.
    CopyPageReq = 172,
    /// A page of a partition; Quoit's own.
    CopyPageResp = 173,
    /// Asks for bucket types and properties; Quoit's own.
    BucketTypesReq = 174,
    /// Bucket types and properties; Quoit's own.
    BucketTypesResp = 175,
    /// Asks for ranges of a node's copy of a large set or map; Quoit's own.
    CopyRangesReq = 176,
    /// Ranges of a copy; Quoit's own.
    CopyRangesResp = 177,
    /// Asks for the next entry of a queue of replication.
    FetchReq = 202,
    /// An entry of a queue, or that there is none.
    FetchResp = 203,
    /// Puts references to records into a queue of replication.
    PushReq = 204,
    /// The lengths of the queue.
    PushResp = 205,
    /// Asks for the addresses of the nodes that are up.
    MembershipReq = 206,
    /// The addresses of the nodes that are up.
    MembershipResp = 207,
    /// Asks for the root of the tree of an n_val.
    AaeFoldMergeRootNValReq = 210,
    /// Asks for branches of the tree of an n_val.
    AaeFoldMergeBranchNValReq = 211,
    /// Asks for the keys and clocks of segments of the tree of an n_val.
    AaeFoldFetchClocksNValReq = 212,
    /// Asks for a tree of a range.
    AaeFoldMergeTreesRangeReq = 213,
    /// Asks for the keys and clocks of a range.
    AaeFoldFetchClocksRangeReq = 214,
    /// Asks for keys with many siblings or bytes.
    AaeFoldFindKeysReq = 215,
    /// Asks for counts of records by size and siblings.
    AaeFoldObjectStatsReq = 216,
    /// Puts the keys of a range into a queue of replication.
    AaeFoldReplKeysReq = 217,
    /// Asks for tombstones.
    AaeFoldFindTombsReq = 218,
    /// Has all replicas of records read and repaired.
    AaeFoldRepairKeysReq = 219,
    /// A tree, or parts of one.
    AaeFoldTreeResp = 220,
    /// Keys with their clocks.
    AaeFoldKeyValueResp = 221,
    /// Keys or names with counts.
    AaeFoldKeyCountResp = 222,
    /// Asks for all buckets that hold a key.
    AaeFoldListBucketsReq = 223,
    /// Names of buckets.
    AaeFoldListBucketsResp = 224,
    /// Has tombstones reaped.
    AaeFoldReapTombsReq = 230,
    /// Has records deleted.
    AaeFoldEraseKeysReq = 231,
    /// Presents a user and a password.
    AuthReq = 253,
    /// The user is authenticated.
    AuthResp = 254,
    /// Asks to go on in TLS, and the agreement to it.
    StartTls = 255,
}

impl From<MessageCode> for u8 {
    fn from(code: MessageCode) -> u8 {
        code as u8
    }
}

impl fmt::Display for MessageCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), *self as u8)
    }
}
