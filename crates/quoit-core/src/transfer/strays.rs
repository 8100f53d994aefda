//! Records on a node that is no primary of theirs: written here while a primary was down, left over
//! after a change of layout, or brought along by a node that ran alone.
//!
//! They are handed to all primaries of their partition. When those have them on disk, and nobody has
//! written here meanwhile, they are removed here. A node that becomes a primary shares with the others
//! what it has already, which nobody else may know.

use super::Transfers;
use super::damage::Damage;
use crate::delivery::hand::{Handed, TransferError};
use crate::delivery::progress::{Kind, Report};
use crate::error::RequestError;
use crate::placement::Place;
use crate::placement::{n_val_of, primaries};
use crate::records::size_of;
use crate::suspects::Walked;
use bytes::Bytes;
use quoit_cluster::{NodeId, State};
use quoit_model::hash::{Identity, Partition};
use quoit_planted::planted;
use quoit_store::engine::Record;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Bytes of objects that a page should have.
pub(super) const PAGE_BYTES: usize = 2 << 20;

/// A page of a walk through a partition: what lies in pages with its root alone.
pub(crate) struct Page {
    pub(crate) records: Vec<(Bytes, Record)>,
    pub(crate) next: Option<Identity>,
    /// The outcome for damaged records, which are not among these.
    pub(crate) damage: Damage,
    /// How long that took: rested when the records are handed over, for what is handed over later is more
    /// likely to have been written again.
    pub(crate) read_for: Duration,
}

impl Page {
    /// How many records the next page should have, at most `most`.
    pub(crate) fn next_count(&self, most: usize) -> usize {
        next_count(&self.records, most)
    }
}

/// How many records should be read next, by the size of those that were read last; `most` at most.
pub(super) fn next_count(records: &[(Bytes, Record)], most: usize) -> usize {
    let size_bytes: u64 = records.iter().map(|(_, record)| size_of(record)).sum();
    let count = (records.len() as u64 * PAGE_BYTES as u64).checked_div(size_bytes);
    count.map_or(most, |count| (count as usize).clamp(1, most))
}

impl Transfers {
    /// Hands over the strays of a partition. With `shares` the records that this node is to keep are
    /// handed to their other primaries too.
    pub(super) async fn hand_strays(
        self: &Arc<Self>,
        partition: Partition,
        shares: bool,
    ) -> Result<Walked, TransferError> {
        let mut report: Option<Report> = None;
        let mut from = Some(Identity(0));
        let page_records_max = self.local.settings.page_records_max.0;
        let mut count = page_records_max;
        let mut walked = Walked::Clean;
        while let Some(identity) = from {
            let page = self.page(partition, identity, count).await?;
            count = page.next_count(page_records_max);
            let homes = self.homes(partition, &page.records, shares);
            for home in &homes {
                if let Home::Away { missing } = home {
                    walked = walked.and(match missing.is_empty() {
                        true => Walked::Unfinished,
                        false => Walked::Awaits(missing.clone()),
                    });
                }
            }
            // A record that no other node has either is lost for a copy that stays; of a stray it may still
            // be read.
            if page.damage == Damage::Open || page.damage == Damage::Nowhere && !shares {
                walked = Walked::Unfinished;
            }
            if homes.iter().any(|home| matches!(home, Home::At { nodes, .. } if !nodes.is_empty()))
            {
                let begin = || self.delivery.begin(partition, Kind::Strays, None);
                let report = report.get_or_insert_with(begin);
                if !self.hand_page(partition, &page.records, &homes, report).await? {
                    walked = Walked::Unfinished;
                }
                report.reached(page.next);
            }
            self.delivery.yielding.rest_after(page.read_for).await;
            from = page.next;
        }
        Ok(walked)
    }

    /// Hands over what others should have, and removes what this node should not. Says whether all of
    /// that went.
    async fn hand_page(
        self: &Arc<Self>,
        partition: Partition,
        records: &[(Bytes, Record)],
        homes: &[Home],
        report: &Report,
    ) -> Result<bool, TransferError> {
        let clocks = self.clocks(records).await?;
        type Offered<'r> = (Vec<&'r (Bytes, Record)>, Vec<Bytes>);
        let mut by_node: BTreeMap<NodeId, Offered<'_>> = BTreeMap::new();
        let mut leaving = Vec::new();
        for ((record, home), clock) in records.iter().zip(homes).zip(clocks) {
            let Home::At { nodes, stays } = home else { continue };
            for node in nodes {
                let (records, clocks) = by_node.entry(*node).or_default();
                records.push(record);
                clocks.push(clock.clone());
            }
            if !stays {
                leaving.push((record.0.clone(), record.1.meta.digest));
            }
        }
        for (node, (records, clocks)) in by_node {
            let Some(peer) = self.local.reachable(node) else { return Ok(false) };
            let Handed { record_count, byte_count } =
                self.delivery.hand(&peer, partition, &records, clocks).await?;
            report.handed(record_count, byte_count);
        }
        let transfers = Arc::clone(self);
        let remove = move || transfers.remove_strays(partition, &leaving);
        Ok(self.local.settings.blocking.behind(remove).await?)
    }

    /// The clocks of records: strays are not written any more, while the primaries' copies are.
    async fn clocks(
        self: &Arc<Self>,
        records: &[(Bytes, Record)],
    ) -> Result<Vec<Bytes>, TransferError> {
        let transfers = Arc::clone(self);
        let records = records.to_vec();
        let clocks = move || {
            Ok(records
                .iter()
                .map(|(key, record)| transfers.delivery.told_clock(key, record))
                .collect())
        };
        Ok(self.local.settings.blocking.behind(clocks).await?)
    }

    /// Removes records that are as they were when they were handed over, unless this node is to have them
    /// by now. Says whether all were.
    fn remove_strays(
        &self,
        partition: Partition,
        leaving: &[(Bytes, u64)],
    ) -> Result<bool, RequestError> {
        if leaving.is_empty() {
            return Ok(true);
        }
        // First of all: what is written from now on does not claim what is removed here.
        self.local.dots.give_away(partition)?;
        let mut all_went = true;
        for (key, digest) in leaving {
            let Ok(place) = Place::new(key, partition) else { continue };
            let state = self.local.control.read();
            let n_val = n_val_of(&state, key);
            let is_own = |n_val| {
                primaries(&state, partition, n_val).contains(&state.node_id())
                    && !planted!(RemovesOwnCopies)
            };
            if n_val.is_none_or(is_own) {
                all_went = false;
                continue;
            }
            all_went &= self.local.records.remove_unchanged(&place.at(), *digest)?;
        }
        Ok(all_went)
    }

    /// A page of a partition's records: at most so many, and fewer while transfers yield.
    pub(crate) async fn page(
        self: &Arc<Self>,
        partition: Partition,
        from: Identity,
        count: usize,
    ) -> Result<Page, TransferError> {
        let transfers = Arc::clone(self);
        let count = self.delivery.yielding.stride(count);
        let fold = move || Ok(transfers.local.records.fold_roots(partition, from, count)?);
        let began = Instant::now();
        let mut page = self.local.settings.blocking.behind(fold.clone()).await?;
        let mut damage = Damage::Healed;
        if !page.damaged.is_empty() && !planted!(PassesOverDamage) {
            damage = self.heal_walked(partition, page.damaged).await;
            // With what is healed now.
            page = self.local.settings.blocking.behind(fold).await?;
        }
        Ok(Page { records: page.entries, next: page.next, damage, read_for: began.elapsed() })
    }

    fn homes(&self, partition: Partition, records: &[(Bytes, Record)], shares: bool) -> Vec<Home> {
        let state = self.local.state();
        let mut by_n_val = BTreeMap::new();
        let home = |(key, _): &(Bytes, Record)| {
            let Some(n_val) = n_val_of(&state, key) else { return Home::unknown() };
            let home = || self.home(&state, partition, n_val, shares);
            by_n_val.entry(n_val).or_insert_with(home).clone()
        };
        records.iter().map(home).collect()
    }

    fn home(&self, state: &State, partition: Partition, n_val: u32, shares: bool) -> Home {
        let mut nodes = primaries(state, partition, n_val);
        // A node that was removed by force stands in a former layout, which may wait for this.
        nodes.retain(|node| state.members().get(*node).is_some());
        let stays = nodes.remove(&state.node_id());
        if stays {
            // A member that is marked as absent is not waited for.
            nodes.retain(|node| shares && is_there(state, *node));
        }
        let missing = self.local.unreachable(&nodes);
        match missing.is_empty() {
            true => {
                let count = if planted!(HandsToOnePrimary) { 1 } else { nodes.len() };
                Home::At { nodes: nodes.into_iter().take(count).collect(), stays }
            }
            false => Home::Away { missing },
        }
    }
}

/// Where a record belongs.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Home {
    /// It has to be handed to these nodes, and may stay here or not.
    At { nodes: Vec<NodeId>, stays: bool },
    /// On nodes of which these can't be reached now; none: on nodes that are not known.
    Away { missing: BTreeSet<NodeId> },
}

impl Home {
    /// That of a record whose bucket type is not known here yet.
    const fn unknown() -> Self {
        Self::Away { missing: BTreeSet::new() }
    }
}

/// Whether a node is a member that can be expected to answer.
pub(super) fn is_there(state: &State, node: NodeId) -> bool {
    let member = state.members().get(node);
    member.is_some_and(|member| !member.is_down)
}
