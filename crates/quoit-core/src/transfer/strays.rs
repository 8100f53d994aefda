//! Strays: records on a node that is not one of their primaries in any live layout. They were written to
//! this node as a fallback, are left over from a former layout, or were brought along by a node that ran
//! alone before it joined.
//!
//! A walk for strays reads a partition page by page. For each record it
//!
//! 1. finds the record's primaries by all live layouts;
//! 2. hands the record to all of them, if all can be reached. They have it, or a newer version, on their
//!    disks when they have answered;
//! 3. removes the record here, if it has not changed since it was read and this node has not become its
//!    primary meanwhile.
//!
//! If a primary can't be reached, or the record has changed, it stays, and a later walk tries again.
//! Records are removed one by one, and never the partition as a whole: the node may be a fallback and get
//! another write at any moment.
//!
//! The same walk serves a node that becomes a primary: it then also hands the records that stay here to
//! their other primaries, which may not have them.

use super::Transfers;
use super::damage::HealOutcome;
use crate::delivery::hand::TransferError;
use crate::delivery::progress::{ProgressReport, TransferKind};
use crate::error::RequestError;
use crate::placement::PlacedKey;
use crate::placement::{n_val_of, primaries};
use crate::records::size_of;
use crate::suspects::WalkResult;
use bytes::Bytes;
use quoit_cluster::{NodeId, State};
use quoit_model::hash::{Identity, Partition};
use quoit_number::index;
use quoit_planted::planted;
use quoit_store::engine::Record;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Size that the objects of a page should have together, in bytes.
pub(super) const PAGE_BYTES: usize = 2 << 20;

/// A page of a walk through a partition. A large set or map is represented by its root alone.
pub(crate) struct Page {
    pub(crate) records: Vec<(Bytes, Record)>,
    pub(crate) next: Option<Identity>,
    /// Outcome of healing the damaged records of this stretch. Records that stay damaged are not in
    /// `records`.
    pub(crate) heal_outcome: HealOutcome,
    /// Time that reading the page took. The walk rests in proportion to it (as transfers yield to
    /// requests) only after the records are handed over: records that wait are likely to be written again
    /// meanwhile.
    pub(crate) read_for: Duration,
}

impl Page {
    /// Returns the number of records to read for the next page, at most `most`.
    pub(crate) fn next_count(&self, most: usize) -> usize {
        next_count(&self.records, most)
    }
}

/// Returns the number of records to read next, such that they have about [`PAGE_BYTES`] if they are as
/// large as those that were read last. It is at least 1 and at most `most`.
pub(super) fn next_count(records: &[(Bytes, Record)], most: usize) -> usize {
    let size_bytes: u64 = records.iter().map(|(_, record)| size_of(record)).sum();
    let count = (records.len() as u64 * PAGE_BYTES as u64).checked_div(size_bytes);
    debug_assert!(most > 0, "a page has room for a record");
    count.map_or(most, |count| index(count).clamp(1, most))
}

impl Transfers {
    /// Walks through a partition, hands its strays to their primaries and removes them. With `shares`,
    /// also hands the records that stay on this node to their other primaries.
    pub(super) async fn hand_strays(
        self: &Arc<Self>,
        partition: Partition,
        shares: bool,
    ) -> Result<WalkResult, TransferError> {
        let mut report: Option<ProgressReport> = None;
        let mut from = Some(Identity(0));
        let page_records_max = self.local.settings.page_records_max.0;
        let mut count = page_records_max;
        let mut walked = WalkResult::Clean;
        while let Some(identity) = from {
            let page = self.page(partition, identity, count).await?;
            count = page.next_count(page_records_max);
            let destinations = self.destinations(partition, &page.records, shares);
            for home in &destinations {
                if let Destination::Unreachable { missing } = home {
                    walked = walked.and(match missing.is_empty() {
                        true => WalkResult::Unfinished,
                        false => WalkResult::WaitsFor(missing.clone()),
                    });
                }
            }
            // A damaged record that no other node has is lost, and must not hold up a new primary. It
            // does hold up a walk for strays: this node has the only copy, and may still be able to read
            // it later.
            if page.heal_outcome == HealOutcome::Unfinished
                || page.heal_outcome == HealOutcome::NoOtherCopy && !shares
            {
                walked = WalkResult::Unfinished;
            }
            if destinations
                .iter()
                .any(|home| matches!(home, Destination::At { nodes, .. } if !nodes.is_empty()))
            {
                let begin = || self.delivery.begin(partition, TransferKind::Strays, None);
                let report = report.get_or_insert_with(begin);
                if !self.hand_page(partition, &page.records, &destinations, report).await? {
                    walked = WalkResult::Unfinished;
                }
                report.reached(page.next);
            }
            self.delivery.yielding.rest_after(page.read_for).await;
            from = page.next;
        }
        Ok(walked)
    }

    /// Hands the records of a page to the nodes of their `destinations`, and removes those that do not stay
    /// here. Returns true if all of that succeeded.
    async fn hand_page(
        self: &Arc<Self>,
        partition: Partition,
        records: &[(Bytes, Record)],
        destinations: &[Destination],
        report: &ProgressReport,
    ) -> Result<bool, TransferError> {
        let clocks = self.clocks(records).await?;
        debug_assert_eq!(destinations.len(), records.len(), "each record has a destination");
        debug_assert_eq!(clocks.len(), records.len(), "each record has a clock");
        type Offered<'r> = (Vec<&'r (Bytes, Record)>, Vec<Bytes>);
        let mut by_node: BTreeMap<NodeId, Offered<'_>> = BTreeMap::new();
        let mut leaving = Vec::new();
        for ((record, home), clock) in records.iter().zip(destinations).zip(clocks) {
            let Destination::At { nodes, stays } = home else { continue };
            for node in nodes {
                let (records, clocks) = by_node.entry(*node).or_default();
                records.push(record);
                clocks.push(clock.clone());
            }
            if !stays {
                debug_assert!(!nodes.is_empty(), "a record leaves for at least one other node");
                leaving.push((record.0.clone(), record.1.meta.digest));
            }
        }
        for (node, (records, clocks)) in by_node {
            let Some(peer) = self.local.reachable(node) else { return Ok(false) };
            let handed = self.delivery.hand(&peer, partition, &records, clocks).await?;
            report.handed(handed);
        }
        let transfers = Arc::clone(self);
        let remove = move || transfers.remove_strays(partition, &leaving);
        Ok(self.local.settings.blocking.at_low_priority(remove).await?)
    }

    /// Returns the clocks of records, to be sent with their offer. The receiver then declines records
    /// that its own copy supersedes: the primaries' copies are still written, strays are not.
    async fn clocks(
        self: &Arc<Self>,
        records: &[(Bytes, Record)],
    ) -> Result<Vec<Bytes>, TransferError> {
        let transfers = Arc::clone(self);
        let records = records.to_vec();
        let clocks = move || {
            Ok(records
                .iter()
                .map(|(key, record)| transfers.delivery.offered_clock(key, record))
                .collect())
        };
        Ok(self.local.settings.blocking.at_low_priority(clocks).await?)
    }

    /// Removes records that have not changed since they were handed over, unless this node has become a
    /// primary of them. Returns true if all were removed.
    fn remove_strays(
        &self,
        partition: Partition,
        leaving: &[(Bytes, u64)],
    ) -> Result<bool, RequestError> {
        if leaving.is_empty() {
            return Ok(true);
        }
        // This ends the store's actors in the partition, and comes before the first removal: a later
        // event of one of them would claim to have seen the events that are removed here.
        self.local.dots.give_away(partition)?;
        let mut all_went = true;
        for (key, digest) in leaving {
            let Ok(place) = PlacedKey::new(key, partition) else { continue };
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
            all_went &= self.local.records.delete(&place.at(), *digest)?;
        }
        Ok(all_went)
    }

    /// Reads a page of a partition's records: at most `count`, and fewer while transfers yield to
    /// requests. Damaged records are healed by other replicas first, where these can be reached.
    pub(crate) async fn page(
        self: &Arc<Self>,
        partition: Partition,
        from: Identity,
        count: usize,
    ) -> Result<Page, TransferError> {
        let transfers = Arc::clone(self);
        let count = self.delivery.yielding.stride(count);
        let fold = move || Ok(transfers.local.records.fold(partition, from, count)?);
        let began = Instant::now();
        let mut page = self.local.settings.blocking.at_low_priority(fold.clone()).await?;
        let mut heal_outcome = HealOutcome::Healed;
        if !page.damaged.is_empty() && !planted!(PassesOverDamage) {
            heal_outcome = self.heal_walked(partition, page.damaged).await;
            // Read again, with the healed records.
            page = self.local.settings.blocking.at_low_priority(fold).await?;
        }
        Ok(Page { records: page.entries, next: page.next, heal_outcome, read_for: began.elapsed() })
    }

    fn destinations(
        &self,
        partition: Partition,
        records: &[(Bytes, Record)],
        shares: bool,
    ) -> Vec<Destination> {
        let state = self.local.state();
        let mut by_n_val = BTreeMap::new();
        let home = |(key, _): &(Bytes, Record)| {
            let Some(n_val) = n_val_of(&state, key) else { return Destination::unknown() };
            let home = || self.home(&state, partition, n_val, shares);
            by_n_val.entry(n_val).or_insert_with(home).clone()
        };
        records.iter().map(home).collect()
    }

    /// Returns the nodes to which a node has to hand the records of a partition in buckets of this
    /// `n_val`.
    fn home(&self, state: &State, partition: Partition, n_val: u32, shares: bool) -> Destination {
        let mut nodes = primaries(state, partition, n_val);
        // A live layout may still name a node that an operator removed by force. That layout may even
        // wait for these strays before it retires.
        nodes.retain(|node| state.members().get(*node).is_some());
        let stays = nodes.remove(&state.node_id());
        if stays {
            // Sharing does not wait for members that are marked as down.
            nodes.retain(|node| shares && is_there(state, *node));
        }
        let missing = self.local.unreachable(&nodes);
        match missing.is_empty() {
            // A record leaves only when another node has it.
            true if nodes.is_empty() && !stays => Destination::unknown(),
            true => {
                let count = if planted!(HandsToOnePrimary) { 1 } else { nodes.len() };
                Destination::At { nodes: nodes.into_iter().take(count).collect(), stays }
            }
            false => Destination::Unreachable { missing },
        }
    }
}

/// Nodes to which a record has to be handed.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Destination {
    /// All of them can be reached. `stays` is true if this node is a primary, too, and keeps the record.
    At { nodes: Vec<NodeId>, stays: bool },
    /// Some can't be reached now: those in `missing`. If `missing` is empty, the nodes are not known,
    /// because the bucket type is not known or no primary is a member.
    Unreachable { missing: BTreeSet<NodeId> },
}

impl Destination {
    /// The home of a record whose bucket type this node does not know yet, or whose primaries have all
    /// been removed.
    const fn unknown() -> Self {
        Self::Unreachable { missing: BTreeSet::new() }
    }
}

/// True if a node is a member that is not marked as down.
pub(super) fn is_there(state: &State, node: NodeId) -> bool {
    let member = state.members().get(node);
    member.is_some_and(|member| !member.is_down)
}
