//! A write that is to be replicated, and the forms in which replicas receive it.

use crate::coordinator::fence::GrantNumbers;
use crate::records::SentChange;
use crate::replica::{Replicated, SentDelta};
use crate::topology::Topology;
use bytes::Bytes;
use quoit_cluster::Lane;
use quoit_model::hash::Partition;
use quoit_model::props::WriteQuorums;
use quoit_planted::planted;
use quoit_store::engine::Ticket;
use quoit_wire::internode::data::{self, AckMoment};

/// Size in bytes from which an object goes over the connection for large messages.
const LARGE_BYTES: usize = 64 << 10;

/// A write that other replicas are to receive: one that is in this node's log, or an object from another
/// cluster.
#[derive(Debug)]
pub(crate) struct ReplicatedWrite {
    /// Encoded name of the record.
    pub(crate) key: Bytes,
    /// Partition of the record.
    pub(crate) partition: Partition,
    /// The form in which the other replicas receive the write.
    pub(crate) sent: SentForm,
    /// State of the write in this node's own copy.
    pub(crate) own: OwnWrite,
    /// Quorums that the write waits for.
    pub(crate) quorums: WriteQuorums,
    /// True if fallbacks may take the write for primaries that are down.
    pub(crate) sloppy: bool,
    /// Milliseconds after which the write fails with `timeout`; `None` means the default.
    pub(crate) timeout_ms: Option<u32>,
}

/// State of a write on the node that sends it to the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OwnWrite {
    /// The node is not one of those that should have the write.
    None,
    /// The node has the write, which is synced when the ticket is.
    Logged(Ticket),
    /// The node has the write, or need not have it, and nothing is left to be synced.
    Settled,
}

impl OwnWrite {
    /// The state after a change of the node's copy; `None` if nothing was written.
    pub(crate) fn of(ticket: Option<Ticket>) -> Self {
        ticket.map_or(Self::Settled, Self::Logged)
    }

    /// Position of the write in the node's log; `None` if it is not there or needs no sync.
    pub(crate) const fn ticket(self) -> Option<Ticket> {
        match self {
            Self::Logged(ticket) => Some(ticket),
            Self::None | Self::Settled => None,
        }
    }
}

/// Form in which replicas receive a write.
#[derive(Debug)]
pub(crate) enum SentForm {
    /// The object after the write.
    Object(Replicated),
    /// The object, for primaries that take it only under their grants.
    Granted(Box<GrantedObject>),
    /// The delta of an operation on a large set or map. A replica that can't use it says so, and is sent
    /// the whole object.
    Delta(SentDelta),
}

impl From<SentChange> for SentForm {
    fn from(change: SentChange) -> Self {
        match change {
            SentChange::Object(replicated) => Self::Object(replicated),
            SentChange::Delta(delta) => Self::Delta(delta),
        }
    }
}

/// An object after a write for which primaries have given grants.
#[derive(Debug)]
pub(crate) struct GrantedObject {
    /// The object.
    pub(crate) replicated: Replicated,
    /// The grants, by place of the primary in the topology.
    pub(crate) grants: GrantNumbers,
}

/// The message that carries an object to a replica, and the lane for it.
pub(crate) fn store_message(
    topology: &Topology,
    key: Bytes,
    partition: Partition,
    replicated: &Replicated,
    acks: AckMoment,
) -> (data::Store, Lane) {
    let header = data::Store {
        key,
        partition: u32::from(partition.0),
        // A write goes to all live layouts, so the newest of them says how old they are.
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

/// The message that carries a delta to a replica, and the lane for it.
pub(crate) fn join_message(
    topology: &Topology,
    key: Bytes,
    partition: Partition,
    sent: &SentDelta,
    acks: AckMoment,
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

/// The lane for a payload, by its size.
fn lane_of(payload: &Bytes) -> Lane {
    if payload.len() >= LARGE_BYTES { Lane::Large } else { Lane::Small }
}

/// The moments at which replicas should answer a write: when they have accepted it, when they have synced
/// it, or both if the quorums depend on both.
pub(super) const fn acks(quorums: &WriteQuorums) -> AckMoment {
    if quorums.dw == 0 {
        AckMoment::Accepted
    } else if quorums.w <= quorums.dw && quorums.pw <= quorums.dw {
        AckMoment::Synced
    } else {
        AckMoment::Both
    }
}
