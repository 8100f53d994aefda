//! A write that was made, and the forms in which replicas get it.

use crate::coordinator::fence::GrantNumbers;
use crate::replica::{Replicated, SentDelta};
use crate::topology::Topology;
use bytes::Bytes;
use quoit_cluster::Lane;
use quoit_model::hash::Partition;
use quoit_model::props::WriteQuorums;
use quoit_planted::planted;
use quoit_store::engine::Ticket;
use quoit_wire::internode::data::{self, Acks};

/// Objects from this size on take the lane for large ones.
const LARGE_BYTES: usize = 64 << 10;

/// A write that is in this node's log, or an object of another cluster.
#[derive(Debug)]
pub(crate) struct Made {
    /// Name of the record, encoded.
    pub(crate) key: Bytes,
    /// Its partition.
    pub(crate) partition: Partition,
    /// The form in which the other replicas get the write.
    pub(crate) sent: SentForm,
    /// This node's own copy.
    pub(crate) own: OwnWrite,
    /// Quorums that the write waits for.
    pub(crate) quorums: WriteQuorums,
    /// Whether fallbacks may stand in for dead primaries.
    pub(crate) sloppy: bool,
    /// Milliseconds until `timeout`.
    pub(crate) timeout_ms: Option<u32>,
}

/// The copy of a write on the node that takes it to the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OwnWrite {
    /// The node is none of those that should have the write.
    None,
    /// It has the write, which is synced when the ticket is.
    Logged(Ticket),
    /// It has the write, or need not have it, and there is nothing to be synced.
    Settled,
}

/// Form in which replicas get a write.
#[derive(Debug)]
pub(crate) enum SentForm {
    /// The object after it.
    Object(Replicated),
    /// The object, for primaries that take it under their grants alone.
    Granted(Box<GrantedObject>),
    /// The change of a record that lies in pages. A replica that can't make use of it says so, and is sent
    /// the object.
    Delta(SentDelta),
}

/// An object after a write for which primaries have given grants.
#[derive(Debug)]
pub(crate) struct GrantedObject {
    /// The object.
    pub(crate) replicated: Replicated,
    /// Grants, by place in the topology.
    pub(crate) grants: GrantNumbers,
}

/// The message that takes an object to a replica, and the lane that it takes.
pub(crate) fn store_message(
    topology: &Topology,
    key: Bytes,
    partition: Partition,
    replicated: &Replicated,
    acks: Acks,
) -> (data::Store, Lane) {
    let header = data::Store {
        key,
        partition: u32::from(partition.0),
        // Writes go by all live layouts, so the newest says how old they are.
        layout_version: topology.newest_layout(),
        digest: replicated.meta.digest,
        tombstone: replicated.meta.tombstone,
        n_val_class: u32::from(replicated.meta.n_val_class),
        expires_at_secs: replicated.meta.expires_at_secs,
        indexed: replicated.meta.indexed,
        grant: 0,
        rule: replicated.rule.into(),
        acks: acks.into(),
    };
    (header, lane_of(&replicated.object))
}

/// The message that takes a delta to a replica, and the lane that it takes.
pub(crate) fn join_message(
    topology: &Topology,
    key: Bytes,
    partition: Partition,
    sent: &SentDelta,
    acks: Acks,
) -> (data::Join, Lane) {
    let header = data::Join {
        key,
        partition: u32::from(partition.0),
        layout_version: match planted!(JoinsByOldestLayout) {
            true => topology.layout_version(),
            false => topology.newest_layout(),
        },
        n_val_class: u32::from(sent.n_val_class),
        last_modified_us: sent.last_modified_us,
        acks: acks.into(),
        needs_earlier: false,
    };
    (header, lane_of(&sent.delta))
}

/// The lane that a payload of this size takes.
fn lane_of(payload: &Bytes) -> Lane {
    if payload.len() >= LARGE_BYTES { Lane::Large } else { Lane::Small }
}

/// When replicas should answer: once, at the moment that decides the quorums.
pub(super) const fn acks(quorums: &WriteQuorums) -> Acks {
    if quorums.dw == 0 {
        Acks::Accepted
    } else if quorums.w <= quorums.dw && quorums.pw <= quorums.dw {
        Acks::Synced
    } else {
        Acks::Both
    }
}
