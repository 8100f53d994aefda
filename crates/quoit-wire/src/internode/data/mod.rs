//! Messages of the data plane: requests of coordinators to replicas.
//!
//! Objects and values are not fields: they follow the header as the frame's payload, in stored
//! form. Names of records are encoded names (`KeyRef::encoded`).

mod listing;

use super::ranges::FieldStep;
use bytes::Bytes;

pub use listing::{
    BucketsListed, KeySpan, ListBuckets, RecordSpan, RecordSummary, Scan, ScanSpan, Scanned,
    SegmentSpan, TermSpan,
};

/// First method number of the data plane.
pub const METHOD_FIRST: u16 = 0x0100;
/// Last method number of the data plane.
pub const METHOD_LAST: u16 = 0x01ff;

/// Reads a record from the receiver: [`Fetch`] -> [`Fetched`].
pub const METHOD_FETCH: u16 = 0x0100;
/// Merges an object into the receiver's record: [`Store`] -> [`Stored`].
pub const METHOD_STORE: u16 = 0x0101;
/// Makes the receiver coordinate a write: [`Forward`] -> [`Forwarded`].
pub const METHOD_FORWARD: u16 = 0x0102;
/// Lists keys or index entries of the receiver: [`Scan`] -> [`Scanned`].
pub const METHOD_SCAN: u16 = 0x0106;
/// Lists buckets of the receiver: [`ListBuckets`] -> [`BucketsListed`].
pub const METHOD_LIST_BUCKETS: u16 = 0x0104;
/// Applies the delta of a data type that another node has coordinated: [`Join`] -> [`Stored`].
pub const METHOD_JOIN: u16 = 0x0105;

/// Refusal: the request was made with a layout that is no longer live.
pub const REFUSED_STALE_LAYOUT: u32 = 1;
/// Refusal: the replica's storage engine failed.
pub const REFUSED_STORAGE: u32 = 2;
/// Refusal: the replica can't decode the request.
pub const REFUSED_MALFORMED: u32 = 3;
/// Refusal: the replica is overloaded.
pub const REFUSED_OVERLOAD: u32 = 4;
/// Refusal: an operator has disabled incoming transfers on the replica.
pub const REFUSED_SWITCHED_OFF: u32 = 5;
/// Refusal: the replica can't apply the delta and needs the whole object.
pub const REFUSED_NEEDS_WHOLE: u32 = 6;

/// Part of a record that is requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum FetchedPart {
    /// The digest alone.
    Digest = 0,
    /// Digest and object.
    Object = 1,
    /// The digest, and a part of the data type that the object holds, as its state without the
    /// rest.
    Part = 2,
}

/// Reads a record of the receiver.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Fetch {
    /// Name of the record.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Partition of the record.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// Version of the layout by which the coordinator reads the partition.
    #[prost(uint64, tag = "3")]
    pub layout_version: u64,
    /// Requested part: a [`FetchedPart`].
    #[prost(enumeration = "FetchedPart", tag = "4")]
    pub want: i32,
    /// For a part: hash of the item at which it begins.
    #[prost(fixed64, tag = "5")]
    pub part_from: u64,
    /// For a part: number of items from there on; 0 for all items that are stored with the first
    /// one.
    #[prost(uint32, tag = "6")]
    pub part_count: u32,
    /// For a part: true if only the number of items of the whole is requested.
    #[prost(bool, tag = "7")]
    pub part_size_only: bool,
    /// For a part: path of the set or map in the record, the outermost field first; empty for the
    /// record itself.
    #[prost(message, repeated, tag = "8")]
    pub part_path: Vec<FieldStep>,
}

/// A replica's copy. The object, if it was requested, is the payload.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Fetched {
    /// True if the replica has the record.
    #[prost(bool, tag = "1")]
    pub found: bool,
    /// Digest of the object.
    #[prost(fixed64, tag = "2")]
    pub digest: u64,
    /// For a part: last hash of its range.
    #[prost(fixed64, tag = "3")]
    pub part_last: u64,
    /// For a part: number of items of the whole.
    #[prost(uint64, tag = "4")]
    pub part_size: u64,
    /// True if the copy has lost records. The answer then does not count as a primary's.
    #[prost(bool, tag = "5")]
    pub has_lost: bool,
}

/// Moment at which a replica answers a [`Store`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum AckMoment {
    /// Once the object survives the death of the process.
    Accepted = 0,
    /// Once the object survives the death of the machine.
    Synced = 1,
    /// At both moments, with one answer each.
    Both = 2,
}

/// Rule by which two versions of an object are merged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum MergeRule {
    /// By causality: concurrent values become siblings.
    Causal = 0,
    /// The value with the latest time stays.
    LastWriteWins = 1,
}

/// Merges an object (the payload) into the receiver's record.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Store {
    /// Name of the record.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Partition of the record.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// Version of the newest live layout that the coordinator knows.
    #[prost(uint64, tag = "3")]
    pub layout_version: u64,
    /// Digest of the object.
    #[prost(fixed64, tag = "4")]
    pub digest: u64,
    /// True if the object is a tombstone.
    #[prost(bool, tag = "5")]
    pub tombstone: bool,
    /// Number of replicas of the record's bucket, capped at 15.
    #[prost(uint32, tag = "6")]
    pub n_val_class: u32,
    /// Time at which the object expires, in seconds since 1970; 0 for never.
    #[prost(uint32, tag = "7")]
    pub expires_at_secs: u32,
    /// Rule for the merge with the stored object: a [`MergeRule`].
    #[prost(enumeration = "MergeRule", tag = "8")]
    pub rule: i32,
    /// Moment of the answer: an [`AckMoment`].
    #[prost(enumeration = "AckMoment", tag = "9")]
    pub acks: i32,
    /// True if the object has index entries.
    #[prost(bool, tag = "10")]
    pub indexed: bool,
    /// Number of the receiver's grant without which it must refuse the object
    /// ([`Grant`](super::grants::Grant)); 0 if no grant is needed.
    #[prost(fixed64, tag = "11")]
    pub grant: u64,
}

/// Applies the delta (the payload) of an operation on a data type that another node has
/// coordinated.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Join {
    /// Name of the record.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Partition of the record.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// Version of the newest live layout that the coordinator knows.
    #[prost(uint64, tag = "3")]
    pub layout_version: u64,
    /// Number of replicas of the record's bucket, capped at 15.
    #[prost(uint32, tag = "4")]
    pub n_val_class: u32,
    /// Time of the operation in microseconds since 1970.
    #[prost(fixed64, tag = "5")]
    pub last_modified_us: u64,
    /// Moment of the answer: an [`AckMoment`].
    #[prost(enumeration = "AckMoment", tag = "6")]
    pub acks: i32,
    /// True if the replica must refuse the delta unless its state has all earlier events of the
    /// delta's actor.
    #[prost(bool, tag = "7")]
    pub needs_earlier: bool,
}

/// A replica has stored an object or applied a delta.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Stored {
    /// True if it survives the death of the machine.
    #[prost(bool, tag = "1")]
    pub synced: bool,
}

/// Quorums and limits of a forwarded write. Quorums have the form of the Protocol Buffers
/// interface; absent ones stand for the bucket's property.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ForwardedOptions {
    /// Read quorum, for the read that precedes some writes.
    #[prost(uint32, optional, tag = "1")]
    pub r: Option<u32>,
    /// Read quorum among primaries.
    #[prost(uint32, optional, tag = "2")]
    pub pr: Option<u32>,
    /// Write quorum: replicas that accepted the write.
    #[prost(uint32, optional, tag = "3")]
    pub w: Option<u32>,
    /// Write quorum: replicas on which the write is synced.
    #[prost(uint32, optional, tag = "4")]
    pub dw: Option<u32>,
    /// Write quorum among primaries.
    #[prost(uint32, optional, tag = "5")]
    pub pw: Option<u32>,
    /// Quorum of both the read and the write of a delete.
    #[prost(uint32, optional, tag = "6")]
    pub rw: Option<u32>,
    /// Number of distinct nodes that must have the write.
    #[prost(uint32, optional, tag = "7")]
    pub node_confirms: Option<u32>,
    /// Number of replicas to use.
    #[prost(uint32, optional, tag = "8")]
    pub n_val: Option<u32>,
    /// True if fallbacks may take part.
    #[prost(bool, optional, tag = "9")]
    pub sloppy_quorum: Option<bool>,
    /// Replicas that sync the write: 0 backend, 1 one, 2 all.
    #[prost(uint32, optional, tag = "10")]
    pub sync_on_write: Option<u32>,
    /// Timeout in milliseconds.
    #[prost(uint32, optional, tag = "11")]
    pub timeout_ms: Option<u32>,
    /// True to give up a read once a majority has not found the record.
    #[prost(bool, optional, tag = "12")]
    pub basic_quorum: Option<bool>,
    /// True if "not found" counts as an answer.
    #[prost(bool, optional, tag = "13")]
    pub notfound_ok: Option<bool>,
    /// Number of distinct nodes that must answer the read that comes before some writes.
    #[prost(uint32, optional, tag = "14")]
    pub read_node_confirms: Option<u32>,
}

/// Entity tags of a condition.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ForwardedTags {
    /// Matches any existing object.
    #[prost(bool, tag = "1")]
    pub any: bool,
    /// Matches objects with one of these tags.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub tags: Vec<Bytes>,
}

/// Conditions of a forwarded write.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ForwardedCondition {
    /// The record must not exist.
    #[prost(bool, tag = "1")]
    pub not_exists: bool,
    /// The record must have this clock, encoded as a context.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub clock: Option<Bytes>,
    /// The record must have none of these tags.
    #[prost(message, optional, tag = "3")]
    pub none_match: Option<ForwardedTags>,
    /// The record must have one of these tags.
    #[prost(message, optional, tag = "4")]
    pub any_match: Option<ForwardedTags>,
    /// The record must not have been written after this time, in seconds since 1970.
    #[prost(uint64, optional, tag = "5")]
    pub unmodified_since_secs: Option<u64>,
}

/// Makes the receiver, a replica, coordinate a write. The payload of a put is an object of one
/// sibling without a dot, whose clock is the writer's context. A delete has no payload. The payload
/// of an update of a data type is the operation.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Forward {
    /// Name of the record.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Version of the newest live layout that the sender knows.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
    /// True for a delete.
    #[prost(bool, tag = "3")]
    pub delete: bool,
    /// Context that the client of a delete had read; absent to delete whatever is stored.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub context: Option<Bytes>,
    /// True to store the value under the given context, without a new event.
    #[prost(bool, tag = "5")]
    pub as_is: bool,
    /// True to return the stored object.
    #[prost(bool, tag = "6")]
    pub return_object: bool,
    /// Quorums and limits.
    #[prost(message, optional, tag = "7")]
    pub options: Option<ForwardedOptions>,
    /// Conditions.
    #[prost(message, optional, tag = "8")]
    pub condition: Option<ForwardedCondition>,
    /// Reason for refusing the value if the request has no other fault.
    #[prost(string, optional, tag = "9")]
    pub vetoed: Option<String>,
    /// True for an update of a data type. The context is then the one that the client sent.
    #[prost(bool, tag = "10")]
    pub updates_data_type: bool,
    /// True if the payload is a whole object from elsewhere, with all its siblings and their
    /// events.
    #[prost(bool, tag = "11")]
    pub whole_object: bool,
    /// Version of the state in which the properties of a bucket or type last changed, as the sender
    /// knows.
    #[prost(uint64, tag = "12")]
    pub props_changed_at: u64,
}

/// Outcome of a forwarded write. The object, if it was requested, is the payload.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Forwarded {
    /// True if something was written; false for a delete of an absent record.
    #[prost(bool, tag = "1")]
    pub written: bool,
    /// The fault, if the write failed.
    #[prost(message, optional, tag = "2")]
    pub fault: Option<Fault>,
    /// True if the payload is an object.
    #[prost(bool, tag = "3")]
    pub has_object: bool,
}

/// Fault of a forwarded request.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Fault {
    /// Kind of the fault, as numbered by the core.
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    /// Numbers that belong to the fault, by kind.
    #[prost(uint64, repeated, tag = "2")]
    pub numbers: Vec<u64>,
    /// Text that belongs to the fault, by kind.
    #[prost(string, tag = "3")]
    pub text: String,
}
