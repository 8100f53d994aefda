//! Message codes. The code byte of a frame determines the message in its body.

use std::fmt;

/// Declares the codes. The enumeration, its names and its decoder come from one table.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $value:literal,)*) => {
        /// The messages of the Protocol Buffers interface that Quoit knows.
        ///
        /// The variants have the names of the protocol's messages without the `Rpb` prefix. The
        /// server answers an unknown code with `Unknown message code: N` and keeps the connection
        /// open.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum MessageCode {
            $($(#[$doc])* $variant = $value,)*
        }

        impl MessageCode {
            /// Every known code, ascending.
            pub const ALL: &[MessageCode] = &[$(MessageCode::$variant,)*];

            /// The code of a byte; `None` if no message has it.
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
    /// Answer to any request that failed.
    ErrorResp = 0,
    /// Checks that the node answers.
    PingReq = 1,
    /// Answer to `PingReq`.
    PingResp = 2,
    /// Requests the connection's client id.
    GetClientIdReq = 3,
    /// The connection's client id.
    GetClientIdResp = 4,
    /// Sets the connection's client id.
    SetClientIdReq = 5,
    /// The client id is set.
    SetClientIdResp = 6,
    /// Requests the node's name and version.
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
    /// The object was deleted, or did not exist.
    DelResp = 14,
    /// Lists buckets.
    ListBucketsReq = 15,
    /// Names of buckets.
    ListBucketsResp = 16,
    /// Lists the keys of a bucket.
    ListKeysReq = 17,
    /// A batch of keys.
    ListKeysResp = 18,
    /// Requests the properties of a bucket.
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
    /// Resets the properties of a bucket to those of its type.
    ResetBucketReq = 29,
    /// The properties were reset.
    ResetBucketResp = 30,
    /// Requests the properties of a bucket type; answered by `GetBucketResp`.
    GetBucketTypeReq = 31,
    /// Changes properties of a bucket type; answered by `SetBucketResp`.
    SetBucketTypeReq = 32,
    /// Requests the nodes that hold a key.
    GetBucketKeyPreflistReq = 33,
    /// The nodes that hold a key, in order of preference.
    GetBucketKeyPreflistResp = 34,
    /// Reads the objects in a range of a bucket's keys.
    CSBucketReq = 40,
    /// A batch of objects of such a read.
    CSBucketResp = 41,
    /// Matches of an index query, with their objects.
    IndexBodyResp = 42,
    /// Adds to a counter of the Riak 1.4 kind.
    CounterUpdateReq = 50,
    /// The counter of the Riak 1.4 kind was changed.
    CounterUpdateResp = 51,
    /// Reads a counter of the Riak 1.4 kind.
    CounterGetReq = 52,
    /// Value of a counter of the Riak 1.4 kind.
    CounterGetResp = 53,
    /// Requests a coverage plan of a bucket.
    CoverageReq = 70,
    /// A coverage plan of a bucket.
    CoverageResp = 71,
    /// Reads a data type.
    DtFetchReq = 80,
    /// The value of a data type.
    DtFetchResp = 81,
    /// Changes a data type.
    DtUpdateReq = 82,
    /// The data type is changed.
    DtUpdateResp = 83,
    /// Requests the cluster's layout; Quoit's own.
    GetLayoutReq = 160,
    /// The cluster's layout; Quoit's own.
    GetLayoutResp = 161,
    /// Queries a part of a data type; Quoit's own.
    DtQueryReq = 162,
    /// A part of a data type; Quoit's own.
    DtQueryResp = 163,
    /// Takes entries of a source queue and confirms earlier ones; Quoit's own.
    QueueTakeReq = 164,
    /// Entries of a source queue; Quoit's own.
    QueueTakeResp = 165,
    /// Requests digests of the cluster's records; Quoit's own.
    ClusterDigestsReq = 166,
    /// Digests of the cluster's records; Quoit's own.
    ClusterDigestsResp = 167,
    /// Queues records for another cluster; Quoit's own.
    QueuePutReq = 168,
    /// The records are queued; Quoit's own.
    QueuePutResp = 169,
    /// Deletes records that another cluster has deleted; Quoit's own.
    DeleteSeenReq = 170,
    /// The number of records that were deleted; Quoit's own.
    DeleteSeenResp = 171,
    /// Requests a page of a partition; Quoit's own.
    CopyPageReq = 172,
    /// A page of a partition; Quoit's own.
    CopyPageResp = 173,
    /// Requests bucket types and properties; Quoit's own.
    BucketTypesReq = 174,
    /// Bucket types and properties; Quoit's own.
    BucketTypesResp = 175,
    /// Requests ranges of a node's copy of a large set or map; Quoit's own.
    CopyRangesReq = 176,
    /// Ranges of a copy; Quoit's own.
    CopyRangesResp = 177,
    /// Requests the next entry of a replication queue.
    FetchReq = 202,
    /// An entry of a queue, or that the queue is empty.
    FetchResp = 203,
    /// Puts references to records into a replication queue.
    PushReq = 204,
    /// The lengths of the queue.
    PushResp = 205,
    /// Requests the addresses of the nodes that are up.
    MembershipReq = 206,
    /// The addresses of the nodes that are up.
    MembershipResp = 207,
    /// Requests the root of the hash tree of an n_val.
    AaeFoldMergeRootNValReq = 210,
    /// Requests branches of the hash tree of an n_val.
    AaeFoldMergeBranchNValReq = 211,
    /// Requests the keys and clocks in segments of the hash tree of an n_val.
    AaeFoldFetchClocksNValReq = 212,
    /// Requests a hash tree of a range of keys.
    AaeFoldMergeTreesRangeReq = 213,
    /// Requests the keys and clocks of a range.
    AaeFoldFetchClocksRangeReq = 214,
    /// Requests keys with many siblings or large objects.
    AaeFoldFindKeysReq = 215,
    /// Requests counts of records by size and siblings.
    AaeFoldObjectStatsReq = 216,
    /// Puts the keys of a range into a replication queue.
    AaeFoldReplKeysReq = 217,
    /// Requests tombstones.
    AaeFoldFindTombsReq = 218,
    /// Reads and repairs all replicas of records.
    AaeFoldRepairKeysReq = 219,
    /// A hash tree, or parts of one.
    AaeFoldTreeResp = 220,
    /// Keys with their clocks.
    AaeFoldKeyValueResp = 221,
    /// Keys or names with counts.
    AaeFoldKeyCountResp = 222,
    /// Requests all buckets that have a key.
    AaeFoldListBucketsReq = 223,
    /// Names of buckets.
    AaeFoldListBucketsResp = 224,
    /// Reaps tombstones.
    AaeFoldReapTombsReq = 230,
    /// Deletes records.
    AaeFoldEraseKeysReq = 231,
    /// Presents a user's name and password.
    AuthReq = 253,
    /// The user is authenticated.
    AuthResp = 254,
    /// Requests TLS, or agrees to it.
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
