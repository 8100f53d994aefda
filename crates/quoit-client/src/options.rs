//! Options of requests. Those left at their default are not sent: the bucket's properties rule.

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
    /// Whether a majority of failures ends the read early.
    pub basic_quorum: Option<bool>,
    /// Whether a replica without the object counts as an answer.
    pub notfound_ok: Option<bool>,
    /// Answer [`Fetched::Unchanged`](crate::Fetched::Unchanged) if the object still has this
    /// context.
    pub if_modified: Option<Context>,
    /// Ask for metadata only; values come back empty.
    pub head: bool,
    /// Ask for the context of a deleted object, as
    /// [`Fetched::Tombstone`](crate::Fetched::Tombstone).
    pub tombstone: bool,
    /// How long the server may take; to the millisecond.
    pub timeout: Option<Duration>,
    /// False: primary replicas only.
    pub sloppy_quorum: Option<bool>,
    /// Use only that many of the preference list.
    pub n_val: Option<u32>,
    /// Distinct nodes that must take part.
    pub node_confirms: Option<u32>,
}

/// Options of a write.
#[derive(Debug, Clone, Default)]
pub struct PutOptions {
    /// Context of the values that the write replaces; without it, stored values stay beside it
    /// where siblings are kept.
    pub context: Option<Context>,
    /// Replicas that must have accepted the write.
    pub w: Quorum,
    /// Replicas that must have it on stable storage.
    pub dw: Quorum,
    /// Primary replicas that must have accepted the write.
    pub pw: Quorum,
    /// Return the object as stored.
    pub return_body: bool,
    /// Return the object as stored with empty values.
    pub return_head: bool,
    /// Write only if the object has `context`.
    pub if_not_modified: bool,
    /// Write only if there is no object.
    pub if_none_match: bool,
    /// How long the server may take; to the millisecond.
    pub timeout: Option<Duration>,
    /// Store `context` as it is, with no event added: for tools that copy objects.
    pub asis: bool,
    /// False: primary replicas only.
    pub sloppy_quorum: Option<bool>,
    /// Use only that many of the preference list.
    pub n_val: Option<u32>,
    /// Distinct nodes that must take part.
    pub node_confirms: Quorum,
    /// Send the write again, to another node if there is one, when its connection broke before
    /// the answer. It may then be carried out twice: where siblings are kept the value may become
    /// a sibling of itself, and where they are not it may replace what others wrote in between.
    pub resend: bool,
}

/// Options of a delete.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    /// Context of the values that are deleted; without it the server reads the object first and
    /// deletes what it finds.
    pub context: Option<Context>,
    /// Read and write quorum in one, the oldest form.
    pub rw: Quorum,
    /// Replicas that must answer the read.
    pub r: Quorum,
    /// Primary replicas that must answer the read.
    pub pr: Quorum,
    /// Replicas that must have accepted the delete.
    pub w: Quorum,
    /// Primary replicas that must have accepted the delete.
    pub pw: Quorum,
    /// Replicas that must have it on stable storage.
    pub dw: Quorum,
    /// How long the server may take; to the millisecond.
    pub timeout: Option<Duration>,
    /// False: primary replicas only.
    pub sloppy_quorum: Option<bool>,
    /// Use only that many of the preference list.
    pub n_val: Option<u32>,
    /// Send the delete again, to another node if there is one, when its connection broke before
    /// the answer. With a `context` that is done in any case; without one it may delete what
    /// others wrote in between.
    pub resend: bool,
}

/// Options of a read of a data type.
#[derive(Debug, Clone, Default)]
pub struct FetchOptions {
    /// Replicas that must answer.
    pub r: Quorum,
    /// Primary replicas that must answer.
    pub pr: Quorum,
    /// Whether a majority of failures ends the read early.
    pub basic_quorum: Option<bool>,
    /// Whether a replica without the record counts as an answer.
    pub notfound_ok: Option<bool>,
    /// How long the server may take; to the millisecond.
    pub timeout: Option<Duration>,
    /// False: primary replicas only.
    pub sloppy_quorum: Option<bool>,
    /// Use only that many of the preference list.
    pub n_val: Option<u32>,
    /// Do without the context, for a smaller answer; nothing can then be removed.
    pub without_context: bool,
    /// Distinct nodes that must take part.
    pub node_confirms: Option<u32>,
}

/// Options of a change of a data type.
#[derive(Debug, Clone, Default)]
pub struct DataTypeOptions {
    /// The context of what was read: removes take away what was seen then and nothing that others
    /// have added since.
    pub context: Option<Context>,
    /// Carry out removes without a context, on whatever the server finds.
    pub without_context: bool,
    /// Replicas that must have accepted the change.
    pub w: Quorum,
    /// Replicas that must have it on stable storage.
    pub dw: Quorum,
    /// Primary replicas that must have accepted the change.
    pub pw: Quorum,
    /// Return the record as it is after the change.
    pub return_body: bool,
    /// How long the server may take; to the millisecond.
    pub timeout: Option<Duration>,
    /// False: primary replicas only.
    pub sloppy_quorum: Option<bool>,
    /// Use only that many of the preference list.
    pub n_val: Option<u32>,
    /// Distinct nodes that must take part.
    pub node_confirms: Quorum,
    /// Send the change again, to another node if there is one, when its connection broke before the
    /// answer. Counters may then count it twice.
    pub resend: bool,
}

/// A duration as the protocol has it: whole milliseconds, at least 1, at most 49 days.
pub(crate) fn timeout_ms(timeout: Option<Duration>) -> Option<u32> {
    timeout.map(|timeout| u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX).max(1))
}
