//! Messages of the data plane: what a coordinator asks of replicas.
//!
//! Objects and values are never fields: they follow the header as the frame's payload, in the form
//! in which they are stored. Names of records are encoded names (`KeyRef::encoded`).

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

/// Reads a record of the receiver: [`Fetch`] -> [`Fetched`].
pub const METHOD_FETCH: u16 = 0x0100;
/// Merges an object into a record of the receiver: [`Store`] -> [`Stored`].
pub const METHOD_STORE: u16 = 0x0101;
/// Has the receiver coordinate a write: [`Forward`] -> [`Forwarded`].
pub const METHOD_FORWARD: u16 = 0x0102;
/// Lists keys of the receiver, or entries of a secondary index: [`Scan`] -> [`Scanned`].
pub const METHOD_SCAN: u16 = 0x0106;
/// Lists buckets of the receiver: [`ListBuckets`] -> [`BucketsListed`].
pub const METHOD_LIST_BUCKETS: u16 = 0x0104;
/// Takes over what an operation on a data type has done elsewhere: [`Join`] -> [`Stored`].
pub const METHOD_JOIN: u16 = 0x0105;

/// Why a replica refuses: the request was made with a layout that is no longer live.
pub const REFUSED_STALE_LAYOUT: u32 = 1;
/// Why a replica refuses: its storage engine failed.
pub const REFUSED_STORAGE: u32 = 2;
/// Why a replica refuses: it does not understand the request.
pub const REFUSED_MALFORMED: u32 = 3;
/// Why a replica refuses: it has as much work as it takes.
pub const REFUSED_OVERLOAD: u32 = 4;
/// Why a replica refuses: an operator has switched off that it takes what others hand over.
pub const REFUSED_SWITCHED_OFF: u32 = 5;
/// Why a replica refuses: what has changed is of no use to it, it needs the whole object.
pub const REFUSED_NEEDS_WHOLE: u32 = 6;

/// How much of a record is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum Want {
    /// Its digest only.
    Digest = 0,
    /// Digest and object.
    Object = 1,
    /// Digest and a part of the data type that the object holds, as its state without the rest.
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
    /// The oldest live layout that the coordinator knows.
    #[prost(uint64, tag = "3")]
    pub layout_version: u64,
    /// How much is wanted.
    #[prost(enumeration = "Want", tag = "4")]
    pub want: i32,
    /// Of a part: the hash of the item that it begins with.
    #[prost(fixed64, tag = "5")]
    pub part_from: u64,
    /// Of a part: items from there on; 0 = those that are stored with the first one.
    #[prost(uint32, tag = "6")]
    pub part_count: u32,
    /// Of a part: only the number of items of the whole is wanted.
    #[prost(bool, tag = "7")]
    pub part_size_only: bool,
    /// Of a part: the set or map in the record that it is of, as the field and those around it, the outermost
    /// first; empty for the record itself.
    #[prost(message, repeated, tag = "8")]
    pub part_path: Vec<FieldStep>,
}

/// A replica's copy; the object is the payload if it was wanted.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Fetched {
    /// Whether there is anything.
    #[prost(bool, tag = "1")]
    pub found: bool,
    /// Digest of the object.
    #[prost(fixed64, tag = "2")]
    pub digest: u64,
    /// Of a part: the last hash of its range.
    #[prost(fixed64, tag = "3")]
    pub part_last: u64,
    /// Of a part: number of items of the whole.
    #[prost(uint64, tag = "4")]
    pub part_size: u64,
    /// Whether the copy has lost records: the answer is no primary's then.
    #[prost(bool, tag = "5")]
    pub has_lost: bool,
}

/// When a replica answers a [`Store`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum Acks {
    /// When the object survives the death of the process.
    Accepted = 0,
    /// When the object survives the death of the machine.
    Synced = 1,
    /// At both moments, with an answer each.
    Both = 2,
}

/// How two versions of an object become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum MergeRule {
    /// By causality: concurrent values stay beside each other.
    Causal = 0,
    /// The value with the latest time stays.
    LastWriteWins = 1,
}

/// Merges an object (the payload) into a record of the receiver.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Store {
    /// Name of the record.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Partition of the record.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// The oldest live layout that the coordinator knows.
    #[prost(uint64, tag = "3")]
    pub layout_version: u64,
    /// Digest of the object.
    #[prost(fixed64, tag = "4")]
    pub digest: u64,
    /// Whether the object is a tombstone.
    #[prost(bool, tag = "5")]
    pub tombstone: bool,
    /// Number of replicas of the record's bucket, capped at 15.
    #[prost(uint32, tag = "6")]
    pub n_val_class: u32,
    /// When the object expires, seconds since 1970; 0 = never.
    #[prost(uint32, tag = "7")]
    pub expires_at_secs: u32,
    /// How the object becomes one with what is there.
    #[prost(enumeration = "MergeRule", tag = "8")]
    pub rule: i32,
    /// When to answer.
    #[prost(enumeration = "Acks", tag = "9")]
    pub acks: i32,
    /// Whether the object has index entries.
    #[prost(bool, tag = "10")]
    pub indexed: bool,
    /// Number of the receiver's grant without which it must not take the object
    /// ([`Grant`](super::grants::Grant)); 0 = none is needed.
    #[prost(fixed64, tag = "11")]
    pub grant: u64,
}

/// Takes over what an operation on a data type (the payload is its delta) has done elsewhere.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Join {
    /// Name of the record.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Partition of the record.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// The oldest live layout that the coordinator knows.
    #[prost(uint64, tag = "3")]
    pub layout_version: u64,
    /// Number of replicas of the record's bucket, capped at 15.
    #[prost(uint32, tag = "4")]
    pub n_val_class: u32,
    /// When the operation was done, microseconds since 1970.
    #[prost(fixed64, tag = "5")]
    pub last_modified_us: u64,
    /// When to answer.
    #[prost(enumeration = "Acks", tag = "6")]
    pub acks: i32,
    /// Whether the replica is to refuse the delta unless it has a state with all earlier events of the
    /// delta's actor.
    #[prost(bool, tag = "7")]
    pub needs_earlier: bool,
}

/// A replica has taken an object or a change.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Stored {
    /// Whether it survives the death of the machine.
    #[prost(bool, tag = "1")]
    pub synced: bool,
}

/// Quorums and limits of a forwarded write. Quorums as Protocol Buffers clients spell them; absent =
/// as the bucket's properties say.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ForwardedOptions {
    /// Read quorum, of the read that comes before some writes.
    #[prost(uint32, optional, tag = "1")]
    pub r: Option<u32>,
    /// Read quorum among primaries.
    #[prost(uint32, optional, tag = "2")]
    pub pr: Option<u32>,
    /// Write quorum: accepted.
    #[prost(uint32, optional, tag = "3")]
    pub w: Option<u32>,
    /// Write quorum: synced.
    #[prost(uint32, optional, tag = "4")]
    pub dw: Option<u32>,
    /// Write quorum among primaries.
    #[prost(uint32, optional, tag = "5")]
    pub pw: Option<u32>,
    /// Both quorums of a delete.
    #[prost(uint32, optional, tag = "6")]
    pub rw: Option<u32>,
    /// Distinct nodes.
    #[prost(uint32, optional, tag = "7")]
    pub node_confirms: Option<u32>,
    /// Replicas.
    #[prost(uint32, optional, tag = "8")]
    pub n_val: Option<u32>,
    /// Whether fallbacks may stand in.
    #[prost(bool, optional, tag = "9")]
    pub sloppy_quorum: Option<bool>,
    /// 0 backend, 1 one, 2 all.
    #[prost(uint32, optional, tag = "10")]
    pub sync_on_write: Option<u32>,
    /// Milliseconds until `timeout`.
    #[prost(uint32, optional, tag = "11")]
    pub timeout_ms: Option<u32>,
    /// Give up a read on a majority of misses.
    #[prost(bool, optional, tag = "12")]
    pub basic_quorum: Option<bool>,
    /// Whether a miss counts as an answer.
    #[prost(bool, optional, tag = "13")]
    pub notfound_ok: Option<bool>,
}

/// Entity tags of a condition.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ForwardedTags {
    /// Any existing object.
    #[prost(bool, tag = "1")]
    pub any: bool,
    /// These tags.
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
    /// None of the tags may be the record's.
    #[prost(message, optional, tag = "3")]
    pub none_match: Option<ForwardedTags>,
    /// One of the tags must be the record's.
    #[prost(message, optional, tag = "4")]
    pub any_match: Option<ForwardedTags>,
    /// The record must not have been written after this second.
    #[prost(uint64, optional, tag = "5")]
    pub unmodified_since_secs: Option<u64>,
}

/// Has the receiver, a replica, coordinate a write. The payload is the new value as an object of one
/// sibling without a dot, under the writer's context as its clock; a delete has no payload; that of an update
/// of a data type is the operation.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Forward {
    /// Name of the record.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// The oldest live layout that the sender knows.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
    /// Whether this is a delete.
    #[prost(bool, tag = "3")]
    pub delete: bool,
    /// Context that a delete's client had read; absent = whatever is stored.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub context: Option<Bytes>,
    /// Store the value under the context itself.
    #[prost(bool, tag = "5")]
    pub as_is: bool,
    /// Whether the stored object is wanted back.
    #[prost(bool, tag = "6")]
    pub return_object: bool,
    /// Quorums and limits.
    #[prost(message, optional, tag = "7")]
    pub options: Option<ForwardedOptions>,
    /// Conditions.
    #[prost(message, optional, tag = "8")]
    pub condition: Option<ForwardedCondition>,
    /// Why the value may not be stored, if the request has no other fault.
    #[prost(string, optional, tag = "9")]
    pub vetoed: Option<String>,
    /// Whether this is an update of a data type; its context is what its client had read, as it was sent.
    #[prost(bool, tag = "10")]
    pub updates_data_type: bool,
    /// Whether the payload is a whole object that was made elsewhere, with all its siblings and their events.
    #[prost(bool, tag = "11")]
    pub whole_object: bool,
    /// Version of the state in which properties of a bucket or a type changed last, as the sender knows.
    #[prost(uint64, tag = "12")]
    pub props_changed_at: u64,
}

/// Outcome of a forwarded write; the object, if it was wanted, is the payload.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Forwarded {
    /// Whether something was written; false for a delete of nothing.
    #[prost(bool, tag = "1")]
    pub written: bool,
    /// The fault, if it failed.
    #[prost(message, optional, tag = "2")]
    pub fault: Option<Fault>,
    /// Whether the payload is an object.
    #[prost(bool, tag = "3")]
    pub has_object: bool,
}

/// Why a forwarded request failed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Fault {
    /// Kind of the fault; the store's own numbers.
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    /// Numbers of the fault, by kind.
    #[prost(uint64, repeated, tag = "2")]
    pub numbers: Vec<u64>,
    /// Words of the fault, by kind.
    #[prost(string, tag = "3")]
    pub text: String,
}
