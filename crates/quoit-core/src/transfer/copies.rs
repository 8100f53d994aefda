//! Completes the copies of partitions that primaries by the newest layout lack.
//!
//! The protocol for one copy ([`NewCopy`]):
//!
//! 1. The transfer begins when all members that are not marked as down write by the newest layout. Later
//!    writes then reach the new primary by themselves.
//! 2. Each source of the copy ([`super::sources`]) walks through the partition and hands over the records
//!    that the new primary lacks, then the partition's reap records.
//! 3. The source sends `Complete` to the new primary. It repeats this in later rounds, because the new
//!    primary forgets it in a restart.
//! 4. The new primary shares what it stored before with the other primaries ([`Transfers::share_copy`]),
//!    except where it gets the copy again after a loss.
//! 5. When it has heard from all sources, it reports the copy as complete to the control plane. When all
//!    copies of a partition are complete, reads of that partition use the newest layout.
//!
//! If a step fails, the copy stays incomplete and a later round tries again; reads use the older layout
//! until then.

use super::Transfers;
use super::damage::HealOutcome;
use super::sources::{replaces_lost, sources, sources_after_loss};
use super::strays::is_there;
use crate::delivery::hand::{ANSWER_TIMEOUT, TransferError};
use crate::delivery::progress::TransferKind;
use crate::placement::n_vals;
use crate::placement::primaries;
use crate::refusal::refuse;
use crate::stats::Counter;
use crate::suspects::WalkResult;
use quoit_cluster::{IncomingRequest, Lane, NodeId, Peer, Responder, State};
use quoit_model::hash::{Identity, Partition};
use quoit_planted::planted;
use quoit_wire::internode::transfer::{Complete, Completed, METHOD_COMPLETE};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Number of reap records that are handed over together, as a multiple of the number of records in a page:
/// reap records are small.
pub(super) const REAPED_PER_RECORD: usize = 4;

/// A copy of a partition that a node is to get.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct NewCopy {
    /// Version of the layout that makes the node a primary of the partition.
    pub(super) layout_version: u64,
    pub(super) partition: Partition,
    pub(super) to: NodeId,
    /// Number of the loss of records after which the node gets its copy again; 0 if it has not lost any.
    pub(super) loss: u64,
}

/// State of the copies that the newest layout asks for. Kept in memory only.
#[derive(Default)]
pub(super) struct CopyStates {
    /// Copies to which this node, as a source, has handed over all that it had.
    handed: BTreeSet<NewCopy>,
    /// This node's own copies whose earlier records it has handed to the other primaries.
    shared: BTreeSet<NewCopy>,
    /// Sources that have reported that they are done, for each of this node's own copies.
    heard: BTreeMap<NewCopy, BTreeSet<NodeId>>,
    /// This node's own copies that were counted in [`Counter::CopiesRestored`].
    restored: BTreeSet<NewCopy>,
}

impl CopyStates {
    /// Removes the copies that layouts older than this version asked for.
    fn keep(&mut self, layout_version: u64) {
        self.handed.retain(|copy| copy.layout_version >= layout_version);
        self.shared.retain(|copy| copy.layout_version >= layout_version);
        self.heard.retain(|copy, _| copy.layout_version >= layout_version);
        self.restored.retain(|copy| copy.layout_version >= layout_version);
    }
}

impl Transfers {
    /// Returns the copies of other nodes for which this node is a source. Returns nothing until all
    /// members write by the newest layout.
    pub(super) fn copies_to_hand(&self, state: &State) -> Vec<NewCopy> {
        if !all_members_serve(state) {
            return Vec::new();
        }
        let own = state.node_id();
        let incomplete = wanted_copies(state).filter(|copy| copy.to != own);
        incomplete.filter(|copy| sources_of(state, *copy).contains(&own)).collect()
    }

    /// Returns this node's own copies whose records it still has to share with the other primaries: it
    /// may have stored records when it ran alone, or as a primary of other layouts.
    pub(super) fn copies_to_share(&self, state: &State) -> Vec<NewCopy> {
        if !all_members_serve(state) {
            return Vec::new();
        }
        let copies = self.copies.lock();
        let own = wanted_copies(state).filter(|copy| copy.to == state.node_id());
        own.filter(|copy| copy.loss == 0 && !copies.shared.contains(copy)).collect()
    }

    /// Hands the earlier records of one of this node's own copies to the other primaries of the
    /// partition.
    pub(super) async fn share_copy(self: &Arc<Self>, copy: NewCopy) -> Result<(), TransferError> {
        debug_assert_eq!(copy.loss, 0, "a copy that lost records is shared with no node");
        if self.hand_strays(copy.partition, true).await? == WalkResult::Clean {
            self.copies.lock().shared.insert(copy);
        }
        Ok(())
    }

    /// Hands a copy over, and tells the node that gets it that this source is done.
    pub(super) async fn hand_copy(self: &Arc<Self>, copy: NewCopy) -> Result<(), TransferError> {
        let Some(peer) = self.local.reachable(copy.to) else { return Ok(()) };
        if !self.copies.lock().handed.contains(&copy) {
            if !self.hand_difference(copy, &peer).await? {
                self.hand_partition(copy, &peer).await?;
            }
            // Reap records come after the records. If a tombstone is reaped meanwhile, the receiver thus
            // gets the tombstone or its reap record.
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

    /// Walks through a partition and hands over all records that belong to the new primary.
    async fn hand_partition(
        self: &Arc<Self>,
        copy: NewCopy,
        peer: &Peer,
    ) -> Result<(), TransferError> {
        let replacement_count = self.replica.healing.replacement_count();
        if !self.heal_replaced(copy.partition).await {
            return Err(TransferError::Damaged { partition: copy.partition });
        }
        let report = self.delivery.begin(copy.partition, TransferKind::Ownership, Some(copy.to));
        let mut from = Some(Identity(0));
        let page_records_max = self.local.settings.page_records_max.0;
        let mut count = page_records_max;
        while let Some(identity) = from {
            let page = self.page(copy.partition, identity, count).await?;
            if page.heal_outcome == HealOutcome::Unfinished {
                return Err(TransferError::Damaged { partition: copy.partition });
            }
            count = page.next_count(page_records_max);
            self.hand_to_primary(copy, peer, &page.records, &report).await?;
            report.reached(page.next);
            self.delivery.yielding.rest_after(page.read_for).await;
            from = page.next.filter(|_| !planted!(HandsOnePage));
        }
        match self.replica.healing.replacement_count() == replacement_count {
            true => Ok(()),
            // A write has replaced a damaged record during the walk, and the receiver may have got that
            // record before it was complete.
            false => Err(TransferError::Damaged { partition: copy.partition }),
        }
    }

    /// Hands over the reap records of a partition. A copy without them is not complete: it could take a
    /// deleted value for a new one.
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
            let (records, next) = self.local.settings.blocking.at_low_priority(read).await?;
            from = next;
            if !records.is_empty() {
                self.delivery.hand_reap_records(peer, records).await?;
            }
        }
        Ok(())
    }

    /// Serves the message of a source that has handed over all that it had for a copy of this node.
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

    /// Reports to the control plane the copies of this node that have become complete.
    pub(super) async fn report_copies(&self, state: &State) {
        let newest = state.layouts().newest().version();
        self.copies.lock().keep(newest);
        if !all_members_serve(state) {
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

    /// Counts the copies of this node that replace the copy of a node that is gone.
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

    /// Returns how many copies this node still has to hand over to each node.
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
    /// Returns the sources that can't be reached now, for each node that has lost records. The copies of
    /// such a node become complete only when it has heard from all its sources, which are waited for even
    /// if they are marked as down.
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

/// Returns the incomplete copies of primaries by the newest layout, and of nodes that have lost records.
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

/// Returns the sources of a copy by the present state.
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
    // A node whose copy has lost records is no source while another node's copy is whole.
    let has_lost = |node| layouts.lost(copy.partition, node).is_some();
    let holders = primaries(state, copy.partition, n_val_max);
    let has_whole = holders.iter().any(|node| *node != copy.to && !has_lost(*node));
    let is_passed_over = |node| has_whole && has_lost(node) && !planted!(HearsLossySources);
    let is_there = |node| is_there(state, node) && !is_passed_over(node);
    sources(complete, layouts.newest(), n_val_max, copy.partition, copy.to, is_there)
}

/// True if all members that are not marked as down write by the newest layout. Then each write that was
/// acknowledged by older layouts only is stored on the sources already.
fn all_members_serve(state: &State) -> bool {
    // The control plane retires all other layouts only after all members serve with the newest.
    if !state.layouts().is_moving() {
        return true;
    }
    let newest = state.layouts().newest().version();
    let mut members = state.members().iter().filter(|member| !member.is_down);
    members.all(|member| state.layouts().acknowledged(member.id) >= Some(newest))
        || planted!(HandsOverEarly)
}
