//! Completes copies that the newest layout asks for.
//!
//! The sources of a copy walk through their partition, hand over what the new primary lacks, and tell it
//! when they are through. It tells the cluster when it has heard that of all of them.

use super::hand::{ANSWER_TIMEOUT, Handed, TransferError};
use super::progress::Kind;
use super::sources::{replaces_lost, sources};
use super::strays::{PAGE_COUNT, is_there};
use crate::service::refuse;
use crate::stats::Counter;
use crate::store::ReplicatedStore;
use quoit_cluster::{IncomingRequest, Lane, MemberStatus, NodeId, Peer, Responder, State};
use quoit_model::hash::{Identity, Partition};
use quoit_wire::internode::transfer::{Complete, Completed, METHOD_COMPLETE};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A copy that a node is to get.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct NewCopy {
    /// The layout that wants it.
    pub(super) layout_version: u64,
    pub(super) partition: Partition,
    pub(super) to: NodeId,
}

/// Copies as they get complete, for the newest layout.
#[derive(Default)]
pub(super) struct Copies {
    /// Copies that have from this node all that it had.
    handed: BTreeSet<NewCopy>,
    /// Copies of this node that it has shared with the other primaries, as far as it had records before.
    shared: BTreeSet<NewCopy>,
    /// For this node's own copies, who is through with them.
    heard: BTreeMap<NewCopy, BTreeSet<NodeId>>,
    /// This node's own copies that were counted as restored.
    restored: BTreeSet<NewCopy>,
}

impl Copies {
    /// Forgets what older layouts wanted.
    fn keep(&mut self, layout_version: u64) {
        self.handed.retain(|copy| copy.layout_version >= layout_version);
        self.shared.retain(|copy| copy.layout_version >= layout_version);
        self.heard.retain(|copy, _| copy.layout_version >= layout_version);
        self.restored.retain(|copy| copy.layout_version >= layout_version);
    }
}

impl ReplicatedStore {
    /// Copies that this node has a part in handing over, now that everybody writes by the newest layout.
    pub(super) fn copies_to_hand(&self, state: &State) -> Vec<NewCopy> {
        if !everybody_serves(state) {
            return Vec::new();
        }
        let own = state.node_id();
        let incomplete = wanted_copies(state).filter(|copy| copy.to != own);
        incomplete.filter(|copy| sources_of(state, *copy).contains(&own)).collect()
    }

    /// Copies of this node whose records it has to share with the other primaries yet: it may have
    /// served alone, or in other layouts.
    pub(super) fn copies_to_share(&self, state: &State) -> Vec<NewCopy> {
        if !everybody_serves(state) {
            return Vec::new();
        }
        let copies = self.transfers.copies.lock();
        let own = wanted_copies(state).filter(|copy| copy.to == state.node_id());
        own.filter(|copy| !copies.shared.contains(copy)).collect()
    }

    pub(super) async fn share_copy(self: &Arc<Self>, copy: NewCopy) -> Result<(), TransferError> {
        if self.hand_strays(copy.partition, true).await? {
            self.transfers.copies.lock().shared.insert(copy);
        }
        Ok(())
    }

    /// Hands a copy over and tells its node.
    pub(super) async fn hand_copy(self: &Arc<Self>, copy: NewCopy) -> Result<(), TransferError> {
        let Some(peer) = self.reachable(copy.to) else { return Ok(()) };
        if !self.transfers.copies.lock().handed.contains(&copy) {
            self.hand_partition(copy, &peer).await?;
            self.transfers.copies.lock().handed.insert(copy);
        }
        let complete = Complete {
            partition: u32::from(copy.partition.0),
            layout_version: copy.layout_version,
        };
        let call = peer.call(METHOD_COMPLETE, &complete, b"", Lane::Small, ANSWER_TIMEOUT);
        call.await.map_err(|fault| TransferError::Call { to: peer.name(), fault })?;
        Ok(())
    }

    async fn hand_partition(
        self: &Arc<Self>,
        copy: NewCopy,
        peer: &Peer,
    ) -> Result<(), TransferError> {
        let report = self.transfers.begin(copy.partition, Kind::Ownership, Some(copy.to));
        let mut from = Some(Identity(0));
        let mut count = PAGE_COUNT;
        while let Some(identity) = from {
            let page = self.page(copy.partition, identity, count).await?;
            count = page.next_count();
            let records: Vec<_> = page.records.iter().collect();
            if !records.is_empty() {
                let Handed { record_count, byte_count } =
                    self.hand(peer, copy.partition, &records, Vec::new()).await?;
                report.handed(record_count, byte_count);
            }
            report.reached(page.next);
            self.transfers.yielding.rest_after(page.read_for).await;
            from = page.next;
        }
        Ok(())
    }

    /// A source is through with a copy of this node.
    pub(crate) fn serve_complete(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        // The layout is checked against the newest one below.
        let complete = match self.read_header(request, |_: &Complete| u64::MAX) {
            Ok(complete) => complete,
            Err(refusal) => return refuse(reply, &refusal),
        };
        let state = self.state();
        let newest = state.layouts().newest();
        let partition = u16::try_from(complete.partition).ok().map(Partition);
        let partition = partition.filter(|partition| partition.0 < newest.ring_size().get());
        let noted = newest.version() == complete.layout_version && partition.is_some();
        if let Some(partition) = partition.filter(|_| noted) {
            let layout_version = newest.version();
            let copy = NewCopy { layout_version, partition, to: state.node_id() };
            let mut copies = self.transfers.copies.lock();
            copies.heard.entry(copy).or_default().insert(request.from);
        }
        if noted {
            self.transfers.wanted.notify_one();
        }
        reply.send(&Completed { noted }, b"");
    }

    /// Tells the cluster which copies of this node are complete.
    pub(super) async fn report_copies(&self, state: &State) {
        let newest = state.layouts().newest().version();
        self.transfers.copies.lock().keep(newest);
        if !everybody_serves(state) {
            return;
        }
        let own = state.node_id();
        let is_complete = |copy: &NewCopy| {
            let sources = sources_of(state, *copy);
            let copies = self.transfers.copies.lock();
            let heard = copies.heard.get(copy);
            copies.shared.contains(copy)
                && heard.map_or(sources.is_empty(), |heard| sources.is_subset(heard))
        };
        let complete: Vec<NewCopy> =
            wanted_copies(state).filter(|copy| copy.to == own).filter(is_complete).collect();
        if complete.is_empty() {
            return;
        }
        let partitions: Vec<Partition> = complete.iter().map(|copy| copy.partition).collect();
        match self.control.report_moved(&partitions).await {
            Ok(()) => self.count_restored(state, &complete),
            Err(fault) => tracing::debug!(%fault, "complete copies could not be reported"),
        }
    }

    /// Counts those of the copies of this node that take the place of lost ones.
    fn count_restored(&self, state: &State, complete: &[NewCopy]) {
        let (_, n_val_max) = super::n_vals(state);
        let newest = state.layouts().newest();
        let replaces_lost = |copy: &&NewCopy| {
            let before = state.layouts().for_reads(copy.partition);
            let is_there = |node| is_there(state, node);
            replaces_lost(before, newest, n_val_max, copy.partition, copy.to, is_there)
        };
        let mut copies = self.transfers.copies.lock();
        let restored = complete.iter().filter(replaces_lost);
        let new_count = restored.filter(|copy| copies.restored.insert(**copy)).count();
        self.stats().add(Counter::CopiesRestored, new_count as u64);
    }

    /// How many copies wait to be handed over by this node, by who gets them.
    pub(super) fn copies_waiting(&self) -> BTreeMap<NodeId, u64> {
        let state = self.state();
        let mut waiting = BTreeMap::new();
        let own = state.node_id();
        let mine = wanted_copies(&state)
            .filter(|copy| copy.to != own && sources_of(&state, *copy).contains(&own));
        let copies = self.transfers.copies.lock();
        for copy in mine.filter(|copy| !copies.handed.contains(copy)) {
            *waiting.entry(copy.to).or_default() += 1;
        }
        waiting
    }
}

/// Copies that primaries of the newest layout lack.
fn wanted_copies(state: &State) -> impl Iterator<Item = NewCopy> {
    let layouts = state.layouts();
    let newest = layouts.newest();
    let layout_version = newest.version();
    layouts
        .incomplete()
        .filter(|(_, node)| newest.node_index(*node).is_some())
        .map(move |(partition, to)| NewCopy { layout_version, partition, to })
}

fn sources_of(state: &State, copy: NewCopy) -> BTreeSet<NodeId> {
    let layouts = state.layouts();
    let complete = layouts.for_reads(copy.partition);
    let (_, n_val_max) = super::n_vals(state);
    let is_there = |node| is_there(state, node);
    sources(complete, layouts.newest(), n_val_max, copy.partition, copy.to, is_there)
}

/// Whether all members that are not marked as absent write by the newest layout. What was acknowledged
/// before is with the sources by then.
fn everybody_serves(state: &State) -> bool {
    let newest = state.layouts().newest().version();
    let mut members = state.members().iter().filter(|member| member.status != MemberStatus::Down);
    members.all(|member| state.layouts().acknowledged(member.id) >= Some(newest))
}
