//! Delivers hints ([`crate::hints`]): when a node that missed writes can be reached again, it gets the
//! records that it missed.
//!
//! For each target the sender takes references page by page, reads the records, hands over those that the
//! target lacks, and marks the references as done when the target has them on disk. If the call fails,
//! the references go back to the open ones. Partitions that the target missed as a whole are brought up
//! to date afterwards.
//!
//! If the target has left the cluster, or is not a primary of the record any more, the reference is
//! passed on to the primaries by the newest layout: they got a copy of the partition from the target,
//! which did not have the write.

use super::Transfers;
use super::damage::HealOutcome;
use super::strays::PAGE_BYTES;
use crate::delivery::hand::TransferError;
use crate::delivery::progress::{ProgressReport, TransferKind};
use crate::placement::{PlacedKey, n_val_of, primaries};
use bytes::Bytes;
use quoit_cluster::{NodeId, Peer, State};
use quoit_model::hash::{Identity, Partition};
use quoit_planted::planted;
use quoit_store::engine::Record;
use quoit_store::index::Tag;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::task::yield_now;

impl Transfers {
    /// Returns the nodes with open hints that can be reached, or that have left the cluster.
    pub(super) fn hint_targets(&self, state: &State) -> Vec<NodeId> {
        let mut targets = self.hints.targets();
        targets.retain(|to| is_gone(state, *to) || self.local.reachable(*to).is_some());
        targets
    }

    /// Turns the hints for a node that has left the cluster into hints for the present primaries.
    async fn pass_on_hints(&self, gone: NodeId) {
        let n_val = self.local.n_val_max();
        loop {
            let taken = self.hints.take(gone, self.local.settings.page_records_max.0);
            if taken.is_empty() {
                break;
            }
            let state = self.local.state();
            for reference in &taken {
                let newest_primaries = newest_primaries(&state, reference.0, n_val);
                newest_primaries.into_iter().for_each(|to| self.hints.note(to, *reference));
            }
            self.hints.delivered(gone, &taken);
            yield_now().await;
        }
        while let Some(partition) = self.hints.take_partition(gone) {
            let newest_primaries = newest_primaries(&self.local.state(), partition, n_val);
            newest_primaries.into_iter().for_each(|to| self.hints.note_whole(to, partition));
            self.hints.finish_partition(gone, partition, true);
        }
        self.hints.forget_node(gone);
    }

    /// Delivers everything that a node missed.
    pub(super) async fn deliver_hints(self: &Arc<Self>, to: NodeId) -> Result<(), TransferError> {
        if is_gone(&self.local.state(), to) {
            self.pass_on_hints(to).await;
            return Ok(());
        }
        let Some(peer) = self.local.reachable(to) else { return Ok(()) };
        let mut damaged: Vec<(Partition, Identity)> = Vec::new();
        let delivered = loop {
            let taken = self.hints.take(to, self.local.settings.page_records_max.0);
            let Some((partition, _)) = taken.first().copied() else { break Ok(()) };
            debug_assert!(
                taken.iter().all(|(other, _)| *other == partition),
                "references that are taken together are of one partition"
            );
            let report = self.delivery.begin(partition, TransferKind::Hints, Some(to));
            let identities = taken.iter().map(|(_, identity)| *identity).collect();
            match self.deliver_records(&peer, partition, identities, &report).await {
                Ok(unread) => {
                    let (kept, delivered): (Vec<_>, Vec<_>) =
                        taken.into_iter().partition(|(_, identity)| unread.contains(identity));
                    self.hints.delivered(to, &delivered);
                    damaged.extend(kept);
                }
                Err(fault) => {
                    match planted!(ForgetsUndelivered) {
                        true => self.hints.delivered(to, &taken),
                        false => self.hints.put_back(to, &taken),
                    }
                    break Err(fault);
                }
            }
        };
        self.hints.put_back(to, &damaged);
        delivered?;
        self.heal_whole(to, &peer).await?;
        match damaged.first() {
            None => Ok(()),
            Some((partition, _)) => Err(TransferError::Damaged { partition: *partition }),
        }
    }

    /// Brings partitions up to date of which the node may have missed any record. One exchange of digests
    /// compares all of them at once. Those that this node or the other one can't compare are walked through,
    /// and every record is offered.
    async fn heal_whole(self: &Arc<Self>, to: NodeId, peer: &Peer) -> Result<(), TransferError> {
        let whole: Vec<Partition> = std::iter::from_fn(|| self.hints.take_partition(to)).collect();
        let mut compared = self.anti_entropy.compared_with(to);
        compared.retain(|partition| whole.contains(partition));
        if !compared.is_empty() {
            compared = self.anti_entropy.exchange_with(to).await.unwrap_or_default();
        }
        let mut healed = Ok(());
        for partition in whole {
            if healed.is_ok() && !compared.contains(&partition) {
                healed = self.deliver_whole(peer, partition).await;
            }
            let is_done = healed.is_ok() || compared.contains(&partition);
            self.hints.finish_partition(to, partition, is_done);
        }
        healed
    }

    /// Delivers records of a partition by their identities, about [`PAGE_BYTES`] at a time. Returns the
    /// identities whose records are damaged here. Other replicas were asked to heal those; the caller
    /// keeps their references and tries again.
    async fn deliver_records(
        self: &Arc<Self>,
        peer: &Peer,
        partition: Partition,
        identities: Vec<Identity>,
        report: &ProgressReport,
    ) -> Result<BTreeSet<Identity>, TransferError> {
        let mut unread = BTreeSet::new();
        let mut left = identities.into_iter();
        while !left.as_slice().is_empty() {
            let transfers = Arc::clone(self);
            let count = self.delivery.yielding.stride(self.local.settings.page_records_max.0);
            let read = move || {
                let (mut records, mut damaged, mut size_bytes) = (Vec::new(), Vec::new(), 0);
                while records.len() < count
                    && size_bytes < PAGE_BYTES
                    && let Some(identity) = left.next()
                {
                    let page = transfers.local.records.fold(partition, identity, 1)?;
                    if page.damaged.contains(&Tag::of(identity)) {
                        damaged.push(identity);
                    }
                    for (key, record) in page.entries {
                        let place = PlacedKey::new(&key, partition);
                        if place.is_ok_and(|place| place.at().identity == identity) {
                            size_bytes += record.value.len();
                            records.push((key, record));
                        }
                    }
                }
                Ok((records, damaged, left))
            };
            let (records, damaged);
            (records, damaged, left) = self.local.settings.blocking.at_low_priority(read).await?;
            self.deliver_to_primaries(peer, partition, &records, report).await?;
            // A healed record is delivered by the next try, since its reference stays open.
            if !damaged.is_empty() {
                let tags = damaged.iter().copied().map(Tag::of).collect();
                self.heal_walked(partition, tags).await;
                unread.extend(damaged);
            }
        }
        Ok(unread)
    }

    /// Walks through a partition and offers all its records to a node.
    async fn deliver_whole(
        self: &Arc<Self>,
        peer: &Peer,
        partition: Partition,
    ) -> Result<(), TransferError> {
        let report = self.delivery.begin(partition, TransferKind::Hints, Some(peer.node_id()));
        let mut from = Some(Identity(0));
        let page_records_max = self.local.settings.page_records_max.0;
        let mut count = page_records_max;
        while let Some(identity) = from {
            let page = self.page(partition, identity, count).await?;
            if page.heal_outcome == HealOutcome::Unfinished {
                return Err(TransferError::Damaged { partition });
            }
            count = page.next_count(page_records_max);
            self.deliver_to_primaries(peer, partition, &page.records, &report).await?;
            report.reached(page.next);
            self.delivery.yielding.rest_after(page.read_for).await;
            from = page.next;
        }
        Ok(())
    }

    /// Hands over the records of which the node is a primary by a live layout. If that layout retires,
    /// the node has such a record as a stray and hands it on. For the other records, hints for the
    /// present primaries are noted.
    async fn deliver_to_primaries(
        &self,
        peer: &Peer,
        partition: Partition,
        records: &[(Bytes, Record)],
        report: &ProgressReport,
    ) -> Result<(), TransferError> {
        let (state, to) = (self.local.state(), peer.node_id());
        let mut home = Vec::new();
        for record in records {
            let Some(n_val) = n_val_of(&state, &record.0) else { continue };
            if primaries(&state, partition, n_val).contains(&to) {
                home.push(record);
                continue;
            }
            let Ok(place) = PlacedKey::new(&record.0, partition) else { continue };
            let reference = (partition, place.at().identity);
            let newest_primaries = newest_primaries(&state, partition, n_val);
            newest_primaries.into_iter().for_each(|to| self.hints.note(to, reference));
        }
        if home.is_empty() {
            return Ok(());
        }
        let handed = self.delivery.hand(peer, partition, &home, Vec::new()).await?;
        report.handed(handed);
        Ok(())
    }
}

fn is_gone(state: &State, node: NodeId) -> bool {
    state.members().get(node).is_none()
}

/// Returns the primaries of a partition by the newest layout, without this node.
fn newest_primaries(state: &State, partition: Partition, n_val: u32) -> BTreeSet<NodeId> {
    if planted!(DropsHintsOfFormerPrimaries) {
        return BTreeSet::new();
    }
    let newest = state.layouts().newest();
    let nodes = newest.primaries(partition, n_val).iter();
    let nodes = nodes.map(|node| newest.node_at(*node));
    nodes.filter(|node| *node != state.node_id()).collect()
}
