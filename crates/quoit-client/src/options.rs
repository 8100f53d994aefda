//! Options of requests. An option left at its default is not sent, so that the bucket's property decides.

use crate::object::Context;
use quoit_wire::Quorum;
use std::time::Duration;

/// Options of a read.
#[derive(Debug, Clone, Default)]
pub struct GetOptions {
    /// Replicas that must answer.
    pub r: Quorum,
    /// Primary replicas that must answer.
    pub pr: Quorum,
    /// True if a majority of failed replicas ends the read early.
    pub basic_quorum: Option<bool>,
    /// True if a replica without the object counts as an answer.
    pub notfound_ok: Option<bool>,
    /// Answer [`Fetched::Unchanged`](crate::Fetched::Unchanged) if the object still has this context.
    pub if_modified: Option<Context>,
    /// Ask for metadata only; values come back empty.
    pub head: bool,
    /// Ask for the context of a deleted object, as
    /// [`Fetched::Tombstone`](crate::Fetched::Tombstone).
    pub tombstone: bool,
    /// Longest time that the server may take, in whole milliseconds.
    pub timeout: Option<Duration>,
    /// False if only primaries may take part.
    pub sloppy_quorum: Option<bool>,
    /// Number of positions of the preference list that the request uses.
    pub n_val: Option<u32>,
    /// Number of distinct nodes that must take part.
    pub node_confirms: Option<u32>,
}

/// Options of a write.
#[derive(Debug, Clone, Default)]
pub struct PutOptions {
    /// Context of the siblings that the write replaces. Without it the stored siblings stay beside the new
    /// value, in buckets that keep siblings.
    pub context: Option<Context>,
    /// Replicas that must have accepted the write.
    pub w: Quorum,
    /// Replicas that must have the write on stable storage.
    pub dw: Quorum,
    /// Primary replicas that must have accepted the write.
    pub pw: Quorum,
    /// Return the object as stored.
    pub return_body: bool,
    /// Return the object as stored with empty values.
    pub return_head: bool,
    /// Write only if the object still has `context`.
    pub if_not_modified: bool,
    /// Write only if there is no object.
    pub if_none_match: bool,
    /// Longest time that the server may take, in whole milliseconds.
    pub timeout: Option<Duration>,
    /// Store `context` as it is and add no event to it: for tools that copy objects.
    pub asis: bool,
    /// False if only primaries may take part.
    pub sloppy_quorum: Option<bool>,
    /// Number of positions of the preference list that the request uses.
    pub n_val: Option<u32>,
    /// Number of distinct nodes that must take part.
    pub node_confirms: Quorum,
    /// Send the write again, to another node if there is one, if the connection broke before the answer.
    /// The server may then carry it out twice: in a bucket that keeps siblings the value may become a
    /// sibling of itself, in another bucket it may replace a value that another client wrote in between.
    pub resend: bool,
}

/// Options of a delete.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    /// Context of the siblings to delete. Without it the server reads the object first and deletes all
    /// siblings that it finds.
    pub context: Option<Context>,
    /// Quorum of both the read and the write: the protocol's oldest form, before `r` and `w`.
    pub rw: Quorum,
    /// Replicas that must answer the read.
    pub r: Quorum,
    /// Primary replicas that must answer the read.
    pub pr: Quorum,
    /// Replicas that must have accepted the delete.
    pub w: Quorum,
    /// Primary replicas that must have accepted the delete.
    pub pw: Quorum,
    /// Replicas that must have the delete on stable storage.
    pub dw: Quorum,
    /// Longest time that the server may take, in whole milliseconds.
    pub timeout: Option<Duration>,
    /// False if only primaries may take part.
    pub sloppy_quorum: Option<bool>,
    /// Number of positions of the preference list that the request uses.
    pub n_val: Option<u32>,
    /// Send the delete again, to another node if there is one, if the connection broke before the answer.
    /// Deletes with a `context` are always sent again. Without a context the repetition may delete a value
    /// that another client wrote in between.
    pub resend: bool,
}

/// Options of a read of a data type.
#[derive(Debug, Clone, Default)]
pub struct FetchOptions {
    /// Replicas that must answer.
    pub r: Quorum,
    /// Primary replicas that must answer.
    pub pr: Quorum,
    /// True if a majority of failed replicas ends the read early.
    pub basic_quorum: Option<bool>,
    /// True if a replica without the record counts as an answer.
    pub notfound_ok: Option<bool>,
    /// Longest time that the server may take, in whole milliseconds.
    pub timeout: Option<Duration>,
    /// False if only primaries may take part.
    pub sloppy_quorum: Option<bool>,
    /// Number of positions of the preference list that the request uses.
    pub n_val: Option<u32>,
    /// Leave out the context, for a smaller answer. Removes are not possible without the context.
    pub without_context: bool,
    /// Number of distinct nodes that must take part.
    pub node_confirms: Option<u32>,
}

/// Options of a change of a data type.
#[derive(Debug, Clone, Default)]
pub struct DataTypeOptions {
    /// The context of the value that was read. Removes take away only elements and fields that this read
    /// has seen, and keep those that other clients have added since.
    pub context: Option<Context>,
    /// Carry out removes without a context, on the elements and fields that the server finds.
    pub without_context: bool,
    /// Replicas that must have accepted the change.
    pub w: Quorum,
    /// Replicas that must have the change on stable storage.
    pub dw: Quorum,
    /// Primary replicas that must have accepted the change.
    pub pw: Quorum,
    /// Return the record as it is after the change.
    pub return_body: bool,
    /// Longest time that the server may take, in whole milliseconds.
    pub timeout: Option<Duration>,
    /// False if only primaries may take part.
    pub sloppy_quorum: Option<bool>,
    /// Number of positions of the preference list that the request uses.
    pub n_val: Option<u32>,
    /// Number of distinct nodes that must take part.
    pub node_confirms: Quorum,
    /// Send the change again, to another node if there is one, if the connection broke before the answer. A
    /// counter may then count it twice.
    pub resend: bool,
}

/// Converts a duration to the protocol's form: whole milliseconds, at least 1 ms, at most 49 days.
pub(crate) fn timeout_ms(timeout: Option<Duration>) -> Option<u32> {
    timeout.map(|timeout| u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX).max(1))
}
