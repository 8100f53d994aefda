//! Completes copies that the newest layout asks for.
//!
//! The sources of a copy walk through their partition, hand over what the new primary lacks, and tell it
//! when they are through. It tells the cluster when it has heard that of all of them.

use super::Transfers;
use super::damage::Damage;
use super::sources::{replaces_lost, sources, sources_after_loss};
use super::strays::is_there;
use crate::delivery::hand::{ANSWER_TIMEOUT, TransferError};
use crate::delivery::progress::Kind;
use crate::placement::n_vals;
use crate::placement::primaries;
use crate::refusal::refuse;
use crate::stats::Counter;
use crate::suspects::Walked;
use quoit_cluster::{IncomingRequest, Lane, NodeId, Peer, Responder, State};
use quoit_model::hash::{Identity, Partition};
use quoit_planted::planted;
use quoit_wire::internode::transfer::{Complete, Completed, METHOD_COMPLETE};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Reap records, which are small, that are handed over at once for each record of a page.
pub(super) const REAPED_PER_RECORD: usize = 4;

/// A copy that a node is to get.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct NewCopy {
    /// The layout that wants it.
    pub(super) layout_version: u64,
    pub(super) partition: Partition,
    pub(super) to: NodeId,
    /// Number of the loss after which the node gets it again; 0 = it has lost nothing.
    pub(super) loss: u64,
}

/// Copies as they get complete, for the newest layout.
#[derive(Default)]
pub(super) struct CopyStates {
    /// Copies that have from this node all that it had.
    handed: BTreeSet<NewCopy>,
    /// Copies of this node that it has shared with the other primaries, as far as it had records before.
    shared: BTreeSet<NewCopy>,
    /// For this node's own copies, who is through with them.
    heard: BTreeMap<NewCopy, BTreeSet<NodeId>>,
    /// This node's own copies that were counted as restored.
    restored: BTreeSet<NewCopy>,
}

impl CopyStates {
    /// Forgets what older layouts wanted.
    fn keep(&mut self, layout_version: u64) {
        self.handed.retain(|copy| copy.layout_version >= layout_version);
        self.shared.retain(|copy| copy.layout_version >= layout_version);
        self.heard.retain(|copy, _| copy.layout_version >= layout_version);
        self.restored.retain(|copy| copy.layout_version >= layout_version);
    }
}

impl Transfers {
    /// Copies that this node has a part in handing over, now that all members write by the newest layout.
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
        let copies = self.copies.lock();
        let own = wanted_copies(state).filter(|copy| copy.to == state.node_id());
        own.filter(|copy| copy.loss == 0 && !copies.shared.contains(copy)).collect()
    }

    pub(super) async fn share_copy(self: &Arc<Self>, copy: NewCopy) -> Result<(), TransferError> {
        if self.hand_strays(copy.partition, true).await? == Walked::Clean {
            self.copies.lock().shared.insert(copy);
        }
        Ok(())
    }

    /// Hands a copy over and tells its node.
    pub(super) async fn hand_copy(self: &Arc<Self>, copy: NewCopy) -> Result<(), TransferError> {
        let Some(peer) = self.local.reachable(copy.to) else { return Ok(()) };
        if !self.copies.lock().handed.contains(&copy) {
            if !self.hand_difference(copy, &peer).await? {
                self.hand_partition(copy, &peer).await?;
            }
            // After the records: of a tombstone that is reaped meanwhile at least one of the two is told.
            self.hand_reaped(&peer, copy.partition).await?;
            self.copies.lock().handed.insert(copy);
        }
        let complete = Complete {
            partition: u32::from(copy.partition.0),
            layout_version: copy.layout_version,
            loss: copy.loss,
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
        let report = self.delivery.begin(copy.partition, Kind::Ownership, Some(copy.to));
        let mut from = Some(Identity(0));
        let page_records_max = self.local.settings.page_records_max.0;
        let mut count = page_records_max;
        while let Some(identity) = from {
            let page = self.page(copy.partition, identity, count).await?;
            if page.damage == Damage::Open {
                return Err(TransferError::Damaged { partition: copy.partition });
            }
            count = page.next_count(page_records_max);
            self.hand_home(copy, peer, &page.records, &report).await?;
            report.reached(page.next);
            self.delivery.yielding.rest_after(page.read_for).await;
            from = page.next.filter(|_| !planted!(HandsOnePage));
        }
        Ok(())
    }

    /// Hands over the reap records of a partition, without which its records are no complete copy.
    async fn hand_reaped(
        self: &Arc<Self>,
        peer: &Peer,
        partition: Partition,
    ) -> Result<(), TransferError> {
        let mut from = Some(Identity(0));
        while let Some(identity) = from {
            let transfers = Arc::clone(self);
            let count = self.local.settings.page_records_max.0 * REAPED_PER_RECORD;
            let read =
                move || Ok(transfers.replica.reap_records.page(partition, identity, count)?);
            let (records, next) = self.local.settings.blocking.behind(read).await?;
            from = next;
            if !records.is_empty() {
                self.delivery.hand_reap_records(peer, records).await?;
            }
        }
        Ok(())
    }

    /// A source is through with a copy of this node.
    pub(crate) fn serve_complete(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        // The layout is checked against the newest one below.
        let complete = match self.local.read_header(request, |_: &Complete| u64::MAX) {
            Ok(complete) => complete,
            Err(refusal) => return refuse(reply, &refusal),
        };
        let state = self.local.state();
        let newest = state.layouts().newest();
        let partition = u16::try_from(complete.partition).ok().map(Partition);
        let partition = partition.filter(|partition| partition.0 < newest.ring_size().get());
        let noted = newest.version() == complete.layout_version && partition.is_some();
        if let Some(partition) = partition.filter(|_| noted) {
            let layout_version = newest.version();
            let (to, loss) = (state.node_id(), complete.loss);
            let copy = NewCopy { layout_version, partition, to, loss };
            let mut copies = self.copies.lock();
            copies.heard.entry(copy).or_default().insert(request.from);
        }
        if noted {
            self.wanted.notify_one();
        }
        reply.send(&Completed { noted }, b"");
    }

    /// Tells the cluster which copies of this node are complete.
    pub(super) async fn report_copies(&self, state: &State) {
        let newest = state.layouts().newest().version();
        self.copies.lock().keep(newest);
        if !everybody_serves(state) {
            return;
        }
        let own = state.node_id();
        let is_complete = |copy: &NewCopy| {
            let sources = sources_of(state, *copy);
            let copies = self.copies.lock();
            let heard = copies.heard.get(copy);
            let is_heard = heard.map_or(sources.is_empty(), |heard| sources.is_subset(heard));
            let is_shared = copy.loss != 0 || copies.shared.contains(copy);
            is_shared && is_heard || planted!(ClaimsCopies)
        };
        let complete: Vec<NewCopy> =
            wanted_copies(state).filter(|copy| copy.to == own).filter(is_complete).collect();
        if complete.is_empty() {
            return;
        }
        let partitions: Vec<Partition> = complete.iter().map(|copy| copy.partition).collect();
        match self.local.control.report_moved(&partitions).await {
            Ok(()) => self.count_restored(state, &complete),
            Err(fault) => tracing::debug!(%fault, "complete copies could not be reported"),
        }
    }

    /// Counts those of the copies of this node that take the place of lost ones.
    fn count_restored(&self, state: &State, complete: &[NewCopy]) {
        let (_, n_val_max) = n_vals(state);
        let newest = state.layouts().newest();
        let replaces_lost = |copy: &&NewCopy| {
            let before = state.layouts().for_reads(copy.partition);
            let is_there = |node| is_there(state, node);
            replaces_lost(before, newest, n_val_max, copy.partition, copy.to, is_there)
        };
        let mut copies = self.copies.lock();
        let restored = complete.iter().filter(replaces_lost);
        let new_count = restored.filter(|copy| copies.restored.insert(**copy)).count();
        self.local.stats.add(Counter::CopiesRestored, new_count as u64);
    }

    /// How many copies wait to be handed over by this node, by who gets them.
    pub(super) fn copies_waiting(&self) -> BTreeMap<NodeId, u64> {
        let state = self.local.state();
        let mut waiting = BTreeMap::new();
        let own = state.node_id();
        let mine = wanted_copies(&state)
            .filter(|copy| copy.to != own && sources_of(&state, *copy).contains(&own));
        let copies = self.copies.lock();
        for copy in mine.filter(|copy| !copies.handed.contains(copy)) {
            *waiting.entry(copy.to).or_default() += 1;
        }
        waiting
    }
}

impl Transfers {
    /// Nodes that can't be reached and have whole copies of what others have lost, by the node that lost
    /// records: its copies are not complete before it has heard of them.
    #[must_use]
    pub fn awaited_after_loss(&self) -> BTreeMap<NodeId, BTreeSet<NodeId>> {
        let state = self.local.state();
        let own = state.node_id();
        let mut awaited: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
        for copy in wanted_copies(&state).filter(|copy| copy.loss != 0) {
            let sources = sources_of(&state, copy).into_iter();
            let away = sources.filter(|node| *node != own && self.local.reachable(*node).is_none());
            awaited.entry(copy.to).or_default().extend(away);
        }
        awaited
    }
}

/// Copies that primaries of the newest layout lack.
fn wanted_copies(state: &State) -> impl Iterator<Item = NewCopy> {
    let layouts = state.layouts();
    let newest = layouts.newest();
    let layout_version = newest.version();
    layouts
        .incomplete()
        .filter(|(partition, node)| {
            newest.node_index(*node).is_some() || layouts.lost(*partition, *node).is_some()
        })
        .map(move |(partition, to)| {
            let loss = layouts.lost(partition, to).unwrap_or_default();
            NewCopy { layout_version, partition, to, loss }
        })
}

fn sources_of(state: &State, copy: NewCopy) -> BTreeSet<NodeId> {
    let layouts = state.layouts();
    let complete = layouts.for_reads(copy.partition);
    let (_, n_val_max) = n_vals(state);
    if copy.loss != 0 {
        let holders = primaries(state, copy.partition, n_val_max);
        let is_member = |node: &NodeId| state.members().get(*node).is_some();
        let others = holders.into_iter().filter(|node| *node != copy.to && is_member(node));
        let is_whole = |node| !layouts.is_incomplete(copy.partition, node);
        return sources_after_loss(&others.collect(), is_whole);
    }
    // A holder that has lost records hands nothing over while another one is whole.
    let has_lost = |node| layouts.lost(copy.partition, node).is_some();
    let holders = primaries(state, copy.partition, n_val_max);
    let has_whole = holders.iter().any(|node| *node != copy.to && !has_lost(*node));
    let is_there = |node| is_there(state, node) && !(has_whole && has_lost(node));
    sources(complete, layouts.newest(), n_val_max, copy.partition, copy.to, is_there)
}

/// Whether all members that are not marked as absent write by the newest layout. Writes that were
/// acknowledged before are with the sources by then.
fn everybody_serves(state: &State) -> bool {
    // The only layout is live because all members serve with it.
    if !state.layouts().is_moving() {
        return true;
    }
    let newest = state.layouts().newest().version();
    let mut members = state.members().iter().filter(|member| !member.is_down);
    members.all(|member| state.layouts().acknowledged(member.id) >= Some(newest))
        || planted!(HandsOverEarly)
}
