//! Replication of a write: the coordinator sends it to the other replicas and waits until its quorums are
//! met.
//!
//! 1. All nodes with votes in any live layout are sent the object, or the delta of a large set or map, at
//!    once.
//! 2. A node that fails is replaced by a fallback if the write allows that.
//! 3. The write is done when w, dw, pw and node_confirms are met in every live layout. If a newer layout
//!    has come in the meantime, the quorums must be met there too.
//! 4. However the write ends, a hint is noted for every primary that missed it. The write stays stored
//!    even if its quorums are not met.

mod accepted;
mod replicated_write;

pub(crate) use accepted::{Accepted, WriteTargets};
use replicated_write::acks;
pub(crate) use replicated_write::{
    GrantedObject, OwnWrite, ReplicatedWrite, SentForm, join_message, store_message,
};

use crate::coordinator::Coordinator;
use crate::error::RequestError;
use crate::placement::{PlacedKey, n_val_of};
use crate::replica::{Copy, Replicated, SentDelta};
use crate::request_log::AskedNodes;
use crate::settings::TIMEOUT_MS_DEFAULT;
use crate::stats::Counter;
use crate::stored::decode;
use crate::topology::{NodeConnection, Topology};
use crate::votes::{Layouts, NodeIndex, WriteNeed, WriteTally};
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{CallError, Replies, Reply};
use quoit_planted::planted;
use quoit_store::engine::RecordAt;
use quoit_wire::internode::data::{
    self, AckMoment, MergeRule, REFUSED_NEEDS_WHOLE, REFUSED_STALE_LAYOUT, Stored,
};
use smallvec::SmallVec;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Interval at which a waiting write checks whether the nodes that it waits for are still up.
const TICK: Duration = Duration::from_millis(100);
/// Result of an attempt.
enum WriteAttemptEnd {
    Met,
    StaleLayout,
}

/// Event of a waiting write.
enum WriteEvent {
    /// This node's copy is synced.
    Synced,
    Reply(NodeIndex, Result<Reply, CallError>),
}

impl Coordinator {
    /// Sends a write to the other replicas and waits until its quorums are met. `layouts` are the nodes
    /// that should receive it by `topology`.
    pub(crate) async fn write_replicas(
        &self,
        mut topology: Arc<Topology>,
        mut layouts: Layouts,
        write: &ReplicatedWrite,
        asked: &mut AskedNodes,
    ) -> Result<(), RequestError> {
        self.replica.note_written(write.partition, &write.key);
        let timeout_ms = u64::from(write.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT));
        let began = Instant::now();
        let deadline = began + Duration::from_millis(timeout_ms);
        let sends_until = began + self.local.send_window();
        loop {
            let (version, newest) = (topology.version(), topology.newest_layout());
            let run = WriteRun::new(self, topology, layouts, write, sends_until);
            let ended = run.run(deadline, asked).await;
            if matches!(write.sent, SentForm::Granted(_)) {
                // Replicas may have taken the write, and grants belong to one topology, so the write is
                // not tried again.
                let is_met = matches!(ended, Ok(WriteAttemptEnd::Met));
                let is_newest = self.local.topology_now().newest_layout() == newest;
                return if is_met && is_newest { Ok(()) } else { Err(RequestError::Timeout) };
            }
            match ended? {
                // A layout that came in the meantime has to be satisfied too: its new copies are filled
                // from reads that may have happened before this write.
                WriteAttemptEnd::Met if self.local.topology_now().newest_layout() == newest => {
                    if self.local.topology_now().n_val_raised_at() > version {
                        self.note_added(write);
                    }
                    return Ok(());
                }
                WriteAttemptEnd::Met => {}
                WriteAttemptEnd::StaleLayout => {
                    self.local.wait_for_newer(version, deadline.min(sends_until)).await?;
                }
            }
            topology = self.local.topology();
            let n_val = write.quorums.n_val;
            layouts = topology.writers(write.partition, n_val, write.sloppy, &[]);
        }
    }

    /// Notes hints for primaries that a bucket's raised n_val has added during the write: they may be
    /// filled from copies that were read before the write.
    fn note_added(&self, write: &ReplicatedWrite) {
        let topology = self.local.topology();
        let written = topology.primaries(write.partition, write.quorums.n_val);
        if let Some(n_val) = n_val_of(&self.local.control.read(), &write.key) {
            self.missed.note(&topology, &write.key, write.partition, n_val, &written);
        }
    }

    /// Sends an object to a replica that lacks it, without waiting for the outcome.
    pub(crate) fn repair(
        &self,
        topology: &Topology,
        node: NodeIndex,
        at: &RecordAt<'_>,
        replicated: &Replicated,
    ) {
        let repaired = match &topology.node(node).connection {
            NodeConnection::Own => self.replica.merge_into_own_copy(at, replicated).is_ok(),
            NodeConnection::Peer(peer) => {
                let key = Bytes::copy_from_slice(at.encoded);
                let (partition, acks) = (at.partition, AckMoment::Accepted);
                let (header, lane) = store_message(topology, key, partition, replicated, acks);
                let nobody = Replies::new();
                let object = &replicated.object;
                peer.send(data::METHOD_STORE, &header, object, lane, &nobody, node).is_ok()
            }
            NodeConnection::Unknown => false,
        };
        self.local.stats.count(match repaired {
            true => Counter::ReadRepairs,
            false => Counter::ReadRepairsSkipped,
        });
    }
}

/// One attempt of a write.
struct WriteRun<'a> {
    coordinator: &'a Coordinator,
    topology: Arc<Topology>,
    write: &'a ReplicatedWrite,
    layouts: Layouts,
    tally: WriteTally,
    /// Nodes that were sent the object, this one included.
    sent: SmallVec<[NodeIndex; 6]>,
    /// Nodes among `sent` that still have to answer.
    waiting: SmallVec<[NodeIndex; 6]>,
    failed: SmallVec<[NodeIndex; 4]>,
    /// Nodes that need the whole object in place of the delta.
    wanting: SmallVec<[NodeIndex; 2]>,
    /// Time after which the object is sent to no further node.
    sends_until: Instant,
    /// True while the write waits for this node's sync.
    syncing: bool,
    replies: Replies,
}

impl<'a> WriteRun<'a> {
    fn new(
        coordinator: &'a Coordinator,
        topology: Arc<Topology>,
        layouts: Layouts,
        write: &'a ReplicatedWrite,
        sends_until: Instant,
    ) -> Self {
        let mut run = Self {
            coordinator,
            topology,
            write,
            layouts,
            tally: WriteTally::new(WriteNeed::from(&write.quorums)),
            sent: SmallVec::new(),
            waiting: SmallVec::new(),
            failed: SmallVec::new(),
            wanting: SmallVec::new(),
            sends_until,
            syncing: write.quorums.dw > 0 && matches!(write.own, OwnWrite::Logged(_)),
            replies: Replies::new(),
        };
        if let Some(own) = run.topology.own().filter(|_| write.own != OwnWrite::None) {
            run.sent.push(own);
            run.tally.accept(own);
            if write.own == OwnWrite::Settled || planted!(CountsOwnCopySynced) {
                run.tally.sync(own);
            }
        }
        run.spread();
        run.check();
        run
    }

    /// Checks in debug builds that the lists of nodes agree with each other and with the voters.
    fn check(&self) {
        let mut of_lists = self.waiting.iter().chain(&self.wanting).chain(&self.failed);
        debug_assert!(
            of_lists.all(|node| self.sent.contains(node)),
            "only nodes that were sent the write answer, fail or want it whole"
        );
        let mut voters = self.layouts.iter().flat_map(|voters| voters.iter());
        debug_assert!(
            voters.all(|voter| !self.failed.contains(&voter.node)),
            "a node that has failed has no vote"
        );
    }

    /// Sends the object to all nodes that should have it and were not sent it yet. If a node fails at
    /// once, sends it to the node that takes its place.
    fn spread(&mut self) {
        loop {
            let mut nodes: SmallVec<[NodeIndex; 8]> = SmallVec::new();
            for voters in &self.layouts {
                nodes.extend(voters.iter().map(|voter| voter.node));
            }
            let failed_before = self.failed.len();
            for node in nodes {
                if !self.sent.contains(&node) {
                    self.send(node);
                }
            }
            if self.failed.len() == failed_before {
                return;
            }
            self.reassign_voters();
        }
    }

    /// Works out which nodes should have the object, without those that have failed.
    fn reassign_voters(&mut self) {
        let (partition, n_val) = (self.write.partition, self.write.quorums.n_val);
        self.layouts = self.topology.writers(partition, n_val, self.write.sloppy, &self.failed);
    }

    /// Sends the write to a node, in the form that the write has.
    fn send(&mut self, node: NodeIndex) {
        self.sent.push(node);
        let ReplicatedWrite { key, partition, sent, quorums, .. } = self.write;
        let is_sent = match sent {
            SentForm::Object(replicated) => self.send_object(node, replicated, 0),
            SentForm::Granted(granted) => {
                // A primary that gave no grant would refuse the object. It is noted a hint instead.
                let number = granted.grants.iter().find(|(primary, _)| *primary == node);
                let Some((_, number)) = number else {
                    self.failed.push(node);
                    return;
                };
                self.send_object(node, &granted.replicated, number.0)
            }
            SentForm::Delta(sent) => {
                let (header, lane) =
                    join_message(&self.topology, key.clone(), *partition, sent, acks(quorums));
                let (delta, replies) = (&sent.delta, &self.replies);
                self.topology.peer(node).is_some_and(|peer| {
                    peer.send(data::METHOD_JOIN, &header, delta, lane, replies, node).is_ok()
                })
            }
        };
        match is_sent {
            true => self.waiting.push(node),
            false => self.failed.push(node),
        }
    }

    /// Sends an object to a node, under the grant with this number or, for 0, without one. Returns false
    /// if the node can't be reached.
    fn send_object(&self, node: NodeIndex, replicated: &Replicated, grant: u64) -> bool {
        let Some(peer) = self.topology.peer(node) else { return false };
        let ReplicatedWrite { key, partition, quorums, .. } = self.write;
        let (header, lane) =
            store_message(&self.topology, key.clone(), *partition, replicated, acks(quorums));
        let header = data::Store { grant, ..header };
        let object = &replicated.object;
        peer.send(data::METHOD_STORE, &header, object, lane, &self.replies, node).is_ok()
    }

    /// Sends the current object to the nodes that can't use the delta.
    async fn send_whole(&mut self) -> Result<(), RequestError> {
        let ReplicatedWrite {
            key,
            partition,
            sent: SentForm::Delta(SentDelta { n_val_class, .. }),
            ..
        } = self.write
        else {
            return Ok(());
        };
        let place = PlacedKey::new(key, *partition).map_err(RequestError::from)?;
        let stored = match self.coordinator.replica.written_copy(&place.at()).await {
            Ok(Copy::Found(_, Some(stored))) => Some(stored),
            // The record has been removed since, so there is nothing to send.
            Ok(_) => None,
            // Other replicas may have the write. An error of the storage would look like a coordinator
            // that wrote nothing, and another node would make the write again.
            Err(fault) => {
                tracing::error!(%fault, "reading back a written record failed");
                None
            }
        };
        let Some(stored) = stored else {
            for node in std::mem::take(&mut self.wanting) {
                self.fail(node);
            }
            return Ok(());
        };
        let object = Replicated::new(&decode(&stored)?, MergeRule::Causal, *n_val_class);
        for node in std::mem::take(&mut self.wanting) {
            match self.send_object(node, &object, 0) {
                true => self.waiting.push(node),
                false => self.fail(node),
            }
        }
        self.check();
        Ok(())
    }

    /// True if the own node of every position was up and has not failed, in every live layout.
    fn goes_to_all(&self) -> bool {
        let n_val = self.write.quorums.n_val;
        self.layouts.iter().all(|voters| voters.primary_votes() == n_val)
    }

    async fn run(
        mut self,
        deadline: Instant,
        asked: &mut AskedNodes,
    ) -> Result<WriteAttemptEnd, RequestError> {
        let ended = self.end(deadline).await;
        asked.add_all(&self.topology, self.sent.iter().copied());
        ended
    }

    /// Waits until the quorums are met, the layout turns out to be stale, no answer can help any more, or
    /// the deadline has passed.
    async fn end(&mut self, deadline: Instant) -> Result<WriteAttemptEnd, RequestError> {
        loop {
            if !self.wanting.is_empty() {
                self.send_whole().await?;
            }
            if self.tally.is_met(&self.layouts) {
                return Ok(WriteAttemptEnd::Met);
            }
            if self.waiting.is_empty() && !self.syncing {
                self.tally.missing(&self.layouts)?;
            }
            let tick = Instant::now() + TICK;
            match timeout_at(tick.min(deadline), self.next_event()).await {
                Ok(Ok(WriteEvent::Synced)) => {
                    self.syncing = false;
                    if let Some(own) = self.topology.own() {
                        self.tally.sync(own);
                    }
                }
                Ok(Ok(WriteEvent::Reply(node, reply))) => {
                    if let Some(end) = self.answered(node, reply) {
                        return Ok(end);
                    }
                }
                Ok(Err(fault)) => {
                    // The other replicas may still meet the quorum.
                    tracing::error!(%fault, "syncing the local copy of a write failed");
                    self.syncing = false;
                }
                Err(_) if Instant::now() >= deadline => return Err(RequestError::Timeout),
                Err(_) => self.give_up_dead_replicas(),
            }
        }
    }

    /// Waits for this node's sync or for the next answer.
    async fn next_event(&mut self) -> Result<WriteEvent, RequestError> {
        let (coordinator, own) = (self.coordinator, self.write.own);
        let (syncing, replies) = (self.syncing, &mut self.replies);
        poll_fn(|context| {
            if let Poll::Ready(Some((node, reply))) = replies.poll_next(context) {
                return Poll::Ready(Ok(WriteEvent::Reply(node, reply)));
            }
            if syncing
                && let OwnWrite::Logged(ticket) = own
                && let Poll::Ready(synced) =
                    coordinator.local.engine.poll_durable(ticket, context.waker())
            {
                return Poll::Ready(
                    synced.map(|()| WriteEvent::Synced).map_err(RequestError::from),
                );
            }
            Poll::Pending
        })
        .await
    }

    /// Takes the answer of a replica. Returns the end of the attempt if the replica knows the layout to
    /// be retired.
    fn answered(
        &mut self,
        node: NodeIndex,
        reply: Result<Reply, CallError>,
    ) -> Option<WriteAttemptEnd> {
        match reply {
            Ok(reply) => {
                if reply.last {
                    self.waiting.retain(|other| *other != node);
                }
                match Stored::decode(reply.header) {
                    Ok(Stored { synced: true }) => self.tally.sync(node),
                    Ok(Stored { synced: false }) => self.tally.accept(node),
                    Err(_) => self.fail(node),
                }
            }
            Err(CallError::Refused { code: REFUSED_STALE_LAYOUT, .. }) => {
                return Some(WriteAttemptEnd::StaleLayout);
            }
            Err(CallError::Refused { code: REFUSED_NEEDS_WHOLE, .. }) => {
                self.waiting.retain(|other| *other != node);
                self.wanting.push(node);
            }
            Err(fault) => {
                let replica = self.topology.peer(node).map(|peer| peer.name());
                tracing::debug!(?replica, %fault, "a replica did not take a write");
                self.fail(node);
            }
        }
        self.check();
        None
    }

    /// Notes that a node failed, and sends the object to the node that takes its place.
    fn fail(&mut self, node: NodeIndex) {
        self.waiting.retain(|other| *other != node);
        self.failed.push(node);
        self.reassign_voters();
        // A late copy must not be sent to further nodes: the record may have been deleted and its
        // tombstone reaped in the meantime.
        if Instant::now() < self.sends_until {
            self.spread();
        }
    }

    /// Gives the votes of nodes that have gone down to other nodes.
    fn give_up_dead_replicas(&mut self) {
        let dead: SmallVec<[NodeIndex; 4]> =
            self.waiting.iter().copied().filter(|node| !self.topology.is_up(*node)).collect();
        dead.into_iter().for_each(|node| self.fail(node));
    }
}

impl Drop for WriteRun<'_> {
    /// Notes a hint for every primary that missed the write, however the write ended. Answers that are
    /// still outstanding are left to the hints, which take note if one of them fails.
    fn drop(&mut self) {
        let (coordinator, write) = (self.coordinator, self.write);
        if !self.waiting.is_empty() {
            let hints = coordinator.missed.late();
            std::mem::take(&mut self.replies).leave(hints, write.key.clone());
        }
        // The attempt ended before these nodes were sent the whole object: the request was cancelled while
        // the object was read, or the object could not be decoded.
        if !self.wanting.is_empty() {
            self.failed.extend(std::mem::take(&mut self.wanting));
            self.reassign_voters();
        }
        if !self.goes_to_all() {
            let sent = self.sent.iter().copied();
            let has_it =
                |node: &NodeIndex| !self.failed.contains(node) || planted!(CountsSentAsReached);
            let reached: SmallVec<[NodeIndex; 6]> = sent.filter(has_it).collect();
            let (partition, n_val) = (write.partition, write.quorums.n_val);
            coordinator.missed.note(&self.topology, &write.key, partition, n_val, &reached);
        }
    }
}
