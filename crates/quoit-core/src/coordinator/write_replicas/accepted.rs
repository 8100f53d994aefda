//! Writes that were decided, and the nodes that they go to. Puts, deletes, operations on data types and
//! objects from other clusters choose their nodes and wait for them in the same way.

use super::{GrantedObject, OwnWrite, ReplicatedWrite, SentForm};
use crate::coordinator::Coordinator;
use crate::coordinator::fence::GrantNumbers;
use crate::error::RequestError;
use crate::grants::majority::majority;
use crate::options::WriteOptions;
use crate::records::Changed;
use crate::request_log::AskedNodes;
use crate::topology::Topology;
use crate::votes::{Layouts, WriteNeed, WriteTally};
use bytes::Bytes;
use quoit_model::hash::Partition;
use quoit_model::object::Object;
use quoit_model::props::{BucketProps, WriteQuorums};
use quoit_store::engine::{RecordAt, Ticket};
use std::sync::Arc;

/// The nodes that a write goes to, and the quorums that it needs of them.
#[derive(Clone)]
pub(crate) struct WriteTargets {
    /// Quorums that the write waits for.
    pub(crate) quorums: WriteQuorums,
    /// True if fallbacks may take the write for primaries that are down.
    pub(crate) sloppy: bool,
    /// The nodes, for each live layout. Empty on a node that is alone.
    pub(crate) layouts: Layouts,
}

impl WriteTargets {
    /// Chooses the nodes among those that are up.
    #[inline]
    pub(crate) fn new(
        topology: &Topology,
        partition: Partition,
        quorums: WriteQuorums,
        sloppy: bool,
    ) -> Self {
        let layouts = match topology.is_alone() {
            true => Layouts::new(),
            false => topology.writers(partition, quorums.n_val, sloppy, &[]),
        };
        Self { quorums, sloppy, layouts }
    }

    /// Chooses the nodes by the options of a request.
    ///
    /// # Errors
    ///
    /// Quorums that don't suit the bucket, or that the nodes that are up can't meet.
    pub(crate) fn of(
        topology: &Topology,
        at: &RecordAt<'_>,
        props: &BucketProps,
        options: &WriteOptions,
    ) -> Result<Self, RequestError> {
        let quorums = options.resolve(props)?;
        let targets = Self::new(topology, at.partition, quorums, options.is_sloppy());
        targets.check(topology)?;
        Ok(targets)
    }

    /// No nodes, for a write that has nothing to do.
    pub(crate) fn none() -> Self {
        let quorums = WriteQuorums { n_val: 1, w: 0, dw: 0, pw: 0, node_confirms: 0 };
        Self { quorums, sloppy: true, layouts: Layouts::new() }
    }

    /// Checks before anything is written that the nodes that are up can meet the quorums.
    pub(crate) fn check(&self, topology: &Topology) -> Result<(), RequestError> {
        match topology.is_alone() {
            true => WriteTally::check_nodes(self.quorums.node_confirms, 1),
            false => WriteTally::check(&WriteNeed::from(&self.quorums), &self.layouts),
        }
    }
}

/// A write that was decided and, if it changes anything, is in this node's log.
pub(crate) struct Accepted<'a> {
    pub(crate) at: RecordAt<'a>,
    pub(crate) targets: WriteTargets,
    /// The object after the change; `None` if there was nothing to change, or if the object is not at
    /// hand.
    pub(crate) object: Option<Object>,
    /// State of the write in this node's own copy.
    pub(crate) own: OwnWrite,
    /// The form in which the other replicas receive it; `None` if nothing is sent.
    pub(crate) sent: Option<SentForm>,
}

impl<'a> Accepted<'a> {
    /// A change of this node's copy, which is sent to the other replicas if there are any.
    pub(crate) fn of(
        topology: &Topology,
        at: RecordAt<'a>,
        targets: WriteTargets,
        changed: Changed,
    ) -> Self {
        let Changed { object, ticket, sent } = changed;
        debug_assert!(
            ticket.is_some() || sent.is_none(),
            "a write that is sent to others is in this node's log"
        );
        let is_sent = ticket.is_some() && !topology.is_alone();
        let sent = sent.filter(|_| is_sent).map(SentForm::from);
        Self { at, targets, object, own: OwnWrite::of(ticket), sent }
    }

    /// Makes the write count only under these grants: a majority of the positions has to take it and sync
    /// it as primaries.
    pub(crate) fn require(&mut self, grants: GrantNumbers) {
        let quorums = &mut self.targets.quorums;
        let least = majority(quorums.n_val);
        for quorum in [&mut quorums.w, &mut quorums.dw, &mut quorums.pw] {
            *quorum = (*quorum).max(least);
        }
        self.sent = match self.sent.take() {
            Some(SentForm::Object(replicated)) => {
                Some(SentForm::Granted(Box::new(GrantedObject { replicated, grants })))
            }
            sent => {
                debug_assert!(sent.is_none(), "a write under grants is sent as an object");
                sent
            }
        };
    }
}

impl Coordinator {
    /// Sends a write to the other replicas, and waits until its quorums are met. Adds to `asked` the
    /// nodes that were sent it.
    pub(crate) async fn confirm_all(
        &self,
        topology: Arc<Topology>,
        accepted: Accepted<'_>,
        timeout_ms: Option<u32>,
        asked: &mut AskedNodes,
    ) -> Result<Option<Object>, RequestError> {
        let Accepted { at, targets, object, own, sent } = accepted;
        debug_assert!(
            own.ticket().is_none() || sent.is_some() || topology.is_alone(),
            "a write in the log of a cluster's node is sent to the other replicas"
        );
        let WriteTargets { quorums, sloppy, layouts } = targets;
        match sent {
            Some(sent) => {
                let (key, partition) = (Bytes::copy_from_slice(at.encoded), at.partition);
                let write =
                    ReplicatedWrite { key, partition, sent, own, quorums, sloppy, timeout_ms };
                // Boxed, because the future of every put would reserve space otherwise.
                Box::pin(self.write_replicas(topology, layouts, &write, asked)).await?;
            }
            None => self.confirm(&quorums, own.ticket(), timeout_ms).await?,
        }
        Ok(object)
    }

    /// Waits until the quorums of a write are met on a node that is alone.
    pub(crate) async fn confirm(
        &self,
        quorums: &WriteQuorums,
        ticket: Option<Ticket>,
        timeout_ms: Option<u32>,
    ) -> Result<(), RequestError> {
        let Some(ticket) = ticket else { return Ok(()) };
        if quorums.dw > 0 {
            self.local.durable(ticket, timeout_ms).await?;
        }
        Ok(())
    }
}
