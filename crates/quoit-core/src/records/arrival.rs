//! Objects that arrive for a record from other replicas, and the decisions about them.

use crate::shared_value;
use bytes::Bytes;
use quoit_model::object::Object;
use quoit_store::after_expiry;
use quoit_store::engine::{Record, RecordMeta, Ticket};
use quoit_wire::internode::data::MergeRule;

/// An object on its way to a replica, encoded.
#[derive(Clone, Debug)]
pub(crate) struct Replicated {
    /// Metadata for the engine.
    pub(crate) meta: RecordMeta,
    /// Rule by which it is merged with the replica's copy.
    pub(crate) rule: MergeRule,
    /// The encoded object.
    pub(crate) object: Bytes,
}

impl Replicated {
    /// Encodes an object for replicas.
    pub(crate) fn new(object: &Object, rule: MergeRule, n_val_class: u8) -> Self {
        let mut encoded = Vec::new();
        object.encode_into(&mut encoded);
        Self { meta: RecordMeta::of(object, n_val_class), rule, object: encoded.into() }
    }

    /// The tombstone that remains after the object has expired; `None` if nothing has to remain.
    pub(crate) fn after_expiry(&self) -> Option<Self> {
        let expired = Record { meta: self.meta, value: self.object.clone() };
        let Record { meta, value } = after_expiry(&expired)?;
        Some(Self { meta, rule: self.rule, object: value })
    }
}

/// Result of giving an object to a replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ApplyOutcome {
    /// The stored object already includes the incoming one, and the caller does not need a ticket for its
    /// sync.
    Known,
    /// Nothing is stored and nothing was written, because the object has expired or a reap record covers
    /// it. This outcome counts as synced: nothing can be lost.
    Nothing,
    /// Written. The record is synced when the ticket is.
    Written(Ticket, RecordMeta),
}

/// Decision about an object that arrives where nothing is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ArrivalDecision {
    /// The object is stored unchanged.
    AsItCame,
    /// Nothing of it is stored.
    Nothing,
    /// This object, the part that the tombstone has not seen, is stored instead.
    Rest(Box<Object>),
    /// The decision would have to wait for the disk.
    WouldBlock,
}

/// Decision about an incoming object, made under the record's lock.
pub(super) enum Verdict {
    Put(RecordMeta),
    Keep,
    /// Nothing is stored and nothing is written.
    Nothing,
    /// The front of the stored record is not enough to decide.
    Undecided,
    /// A reap record has to be read from disk, and the caller must not wait for it.
    WouldBlock,
}

/// Appends to `out` the part of an incoming object that is stored if nothing is stored yet. May leave the
/// end of it in `rest`.
pub(super) fn take_first(
    admitted: ArrivalDecision,
    incoming: &Replicated,
    out: &mut Vec<u8>,
    rest: Option<&mut Bytes>,
) -> Verdict {
    match admitted {
        ArrivalDecision::AsItCame => {
            shared_value::append(&incoming.object, out, rest);
            Verdict::Put(incoming.meta)
        }
        ArrivalDecision::Rest(rest) => {
            rest.encode_into(out);
            Verdict::Put(RecordMeta::of(&rest, incoming.meta.n_val_class))
        }
        ArrivalDecision::Nothing => Verdict::Nothing,
        ArrivalDecision::WouldBlock => Verdict::WouldBlock,
    }
}

/// Merges two copies of a record.
pub(crate) fn merge(ours: &Object, theirs: &Object, rule: MergeRule) -> Object {
    match rule {
        MergeRule::Causal => ours.merge(theirs),
        MergeRule::LastWriteWins => ours.merge_last_write_wins(theirs),
    }
}
