//! Delivers what nodes have missed ([`crate::hints`]) when they are back. What a node has missed that is no
//! primary any more, those miss that took its places: a copy that was handed over to them came without it.

use super::Transfers;
use super::damage::Damage;
use super::strays::PAGE_BYTES;
use crate::delivery::hand::{Handed, TransferError};
use crate::delivery::progress::{Kind, Report};
use crate::placement::{Place, n_val_of, primaries};
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
    /// Nodes that have missed something and can be reached, and those that are gone for good.
    pub(super) fn hint_targets(&self, state: &State) -> Vec<NodeId> {
        let mut targets = self.hints.targets();
        targets.retain(|to| is_gone(state, *to) || self.local.reachable(*to).is_some());
        targets
    }

    /// Makes what a node has missed that is gone for good hints for the primaries that there are now.
    async fn pass_on_hints(&self, gone: NodeId) {
        let n_val = self.local.n_val_max();
        loop {
            let taken = self.hints.take(gone, self.local.settings.page_records_max.0);
            if taken.is_empty() {
                break;
            }
            let state = self.local.state();
            for reference in &taken {
                let heirs = heirs(&state, reference.0, n_val);
                heirs.into_iter().for_each(|to| self.hints.note(to, *reference));
            }
            self.hints.delivered(gone, &taken);
            yield_now().await;
        }
        while let Some(partition) = self.hints.take_whole(gone) {
            let heirs = heirs(&self.local.state(), partition, n_val);
            heirs.into_iter().for_each(|to| self.hints.note_whole(to, partition));
            self.hints.finish_whole(gone, partition, true);
        }
        self.hints.forget_node(gone);
    }

    /// Delivers all that a node has missed.
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
            let report = self.delivery.begin(partition, Kind::Hints, Some(to));
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

    /// Brings whole partitions of a node up to date, of which it has missed nobody knows how much: by an
    /// exchange of digests, which compares all of them at once, else by offering every record.
    async fn heal_whole(self: &Arc<Self>, to: NodeId, peer: &Peer) -> Result<(), TransferError> {
        let whole: Vec<Partition> = std::iter::from_fn(|| self.hints.take_whole(to)).collect();
        let mut compared = self.anti_entropy.compared_with(to);
        compared.retain(|partition| whole.contains(partition));
        if !compared.is_empty() && !self.anti_entropy.exchange_with(to).await {
            compared.clear();
        }
        let mut healed = Ok(());
        for partition in whole {
            if healed.is_ok() && !compared.contains(&partition) {
                healed = self.deliver_whole(peer, partition).await;
            }
            let is_done = healed.is_ok() || compared.contains(&partition);
            self.hints.finish_whole(to, partition, is_done);
        }
        healed
    }

    /// Delivers records of a partition by their identities, some megabytes at a time. The answer has those
    /// that are damaged, and that no other replica could heal.
    async fn deliver_records(
        self: &Arc<Self>,
        peer: &Peer,
        partition: Partition,
        identities: Vec<Identity>,
        report: &Report,
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
                    let page = transfers.local.records.fold_roots(partition, identity, 1)?;
                    if page.damaged.contains(&Tag::of(identity)) {
                        damaged.push(identity);
                    }
                    for (key, record) in page.entries {
                        let place = Place::new(&key, partition);
                        if place.is_ok_and(|place| place.at().identity == identity) {
                            size_bytes += record.value.len();
                            records.push((key, record));
                        }
                    }
                }
                Ok((records, damaged, left))
            };
            let (records, damaged);
            (records, damaged, left) = self.local.settings.blocking.behind(read).await?;
            self.deliver_those(peer, partition, &records, report).await?;
            // Healed records are delivered with the next try.
            if !damaged.is_empty() {
                let tags = damaged.iter().copied().map(Tag::of).collect();
                self.heal_walked(partition, tags).await;
                unread.extend(damaged);
            }
        }
        Ok(unread)
    }

    async fn deliver_whole(
        self: &Arc<Self>,
        peer: &Peer,
        partition: Partition,
    ) -> Result<(), TransferError> {
        let report = self.delivery.begin(partition, Kind::Hints, Some(peer.node_id()));
        let mut from = Some(Identity(0));
        let page_records_max = self.local.settings.page_records_max.0;
        let mut count = page_records_max;
        while let Some(identity) = from {
            let page = self.page(partition, identity, count).await?;
            if page.damage == Damage::Open {
                return Err(TransferError::Damaged { partition });
            }
            count = page.next_count(page_records_max);
            self.deliver_those(peer, partition, &page.records, &report).await?;
            report.reached(page.next);
            self.delivery.yielding.rest_after(page.read_for).await;
            from = page.next;
        }
        Ok(())
    }

    /// Hands over those records of which the node is a primary by a live layout: it has them as strays when
    /// that retires. The others become hints for the primaries that there are now.
    async fn deliver_those(
        &self,
        peer: &Peer,
        partition: Partition,
        records: &[(Bytes, Record)],
        report: &Report,
    ) -> Result<(), TransferError> {
        let (state, to) = (self.local.state(), peer.node_id());
        let mut home = Vec::new();
        for record in records {
            let Some(n_val) = n_val_of(&state, &record.0) else { continue };
            if primaries(&state, partition, n_val).contains(&to) {
                home.push(record);
                continue;
            }
            let Ok(place) = Place::new(&record.0, partition) else { continue };
            let reference = (partition, place.at().identity);
            let heirs = heirs(&state, partition, n_val);
            heirs.into_iter().for_each(|to| self.hints.note(to, reference));
        }
        if home.is_empty() {
            return Ok(());
        }
        let Handed { record_count, byte_count } =
            self.delivery.hand(peer, partition, &home, Vec::new()).await?;
        report.handed(record_count, byte_count);
        Ok(())
    }
}

fn is_gone(state: &State, node: NodeId) -> bool {
    state.members().get(node).is_none()
}

/// The other primaries of a partition by the newest layout.
fn heirs(state: &State, partition: Partition, n_val: u32) -> BTreeSet<NodeId> {
    if planted!(DropsHintsOfFormerPrimaries) {
        return BTreeSet::new();
    }
    let newest = state.layouts().newest();
    let nodes = newest.primaries(partition, n_val).iter();
    let nodes = nodes.map(|node| newest.nodes()[usize::from(*node)]);
    nodes.filter(|node| *node != state.node_id()).collect()
}
