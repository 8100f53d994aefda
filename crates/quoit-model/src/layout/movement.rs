//! Movement of copies between two layouts.

use super::Layout;
use super::shares::Share;
use crate::hash::Partition;
use crate::node::NodeId;
use std::collections::BTreeMap;

/// A copy of a partition that a node receives with a new layout.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Transfer {
    /// The partition.
    pub partition: Partition,
    /// The node that becomes one of its primaries.
    pub to: NodeId,
    /// The primary of the old layout whose position `to` takes over. It stays a primary if there
    /// are more positions than before.
    pub from: NodeId,
}

/// Copies that move between two layouts, for buckets with one `n_val`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Movement {
    /// Every copy of a partition that a node receives, by partition.
    pub transfers: Vec<Transfer>,
    /// Number of transfers that no layout of the new members could avoid. Only the balanced
    /// positions ([`Layout::balanced_count`]) are in fair shares, so shares count only if `n_val`
    /// equals their number.
    pub lower_bound: u64,
}

impl Movement {
    /// Compares the primaries of all partitions, for buckets with this `n_val`.
    ///
    /// # Panics
    ///
    /// If the layouts have different numbers of partitions, or if `n_val` is 0.
    #[must_use]
    pub fn between(old: &Layout, new: &Layout, n_val: u32) -> Self {
        assert_eq!(old.ring_size, new.ring_size, "layouts of one cluster");
        assert!(n_val > 0, "every bucket has a copy");
        let transfers =
            old.partitions().flat_map(|partition| Self::of_partition(old, new, partition, n_val));
        Self { transfers: transfers.collect(), lower_bound: lower_bound(old, new, n_val) }
    }

    /// The copies of one partition that nodes receive, in the order of their new positions.
    ///
    /// # Panics
    ///
    /// If a layout has no such partition.
    #[must_use]
    #[expect(
        clippy::indexing_slicing,
        reason = "orders have numbers of nodes of the layout, which has a node"
    )]
    pub fn of_partition(
        old: &Layout,
        new: &Layout,
        partition: Partition,
        n_val: u32,
    ) -> Vec<Transfer> {
        let ids = |layout: &Layout| -> Vec<NodeId> {
            let primaries = layout.primaries(partition, n_val).iter();
            primaries.map(|node| layout.node_at(*node)).collect()
        };
        let (before, after) = (ids(old), ids(new));
        // The position of a leaving node goes to the node that arrives there; the others are
        // matched in order.
        let goes = |node: &NodeId| !after.contains(node);
        let comes = |node: &NodeId| !before.contains(node);
        let at_place = |place: usize| before.get(place).copied().filter(goes);
        let mut others: Vec<NodeId> = before
            .iter()
            .enumerate()
            .filter(|(place, node)| goes(node) && !after.get(*place).is_some_and(comes))
            .map(|(_, node)| *node)
            .rev()
            .collect();
        let mut transfers = Vec::new();
        for (place, to) in after.iter().copied().enumerate().filter(|(_, node)| comes(node)) {
            let from = at_place(place).or_else(|| others.pop());
            let from = from.unwrap_or_else(|| before[place % before.len()]);
            debug_assert_ne!(from, to, "a node that arrives has no copy to give");
            transfers.push(Transfer { partition, to, from });
        }
        transfers
    }

    /// Number of copies that each node sends to each other node, by (from, to), in order.
    #[must_use]
    pub fn by_pair(&self) -> BTreeMap<(NodeId, NodeId), u32> {
        let mut pairs = BTreeMap::new();
        for transfer in &self.transfers {
            *pairs.entry((transfer.from, transfer.to)).or_default() += 1;
        }
        pairs
    }

    /// Number of partitions that change their primaries.
    #[must_use]
    pub fn partition_count(&self) -> usize {
        let mut partitions: Vec<_> =
            self.transfers.iter().map(|transfer| transfer.partition).collect();
        partitions.dedup();
        partitions.len()
    }
}

/// Lower bound of the movement. Nodes below their new share must get the copies that they lack; nodes above
/// their share, and nodes that have left, must give copies away; partitions with too few copies or locations
/// must get others. These may be the same transfers, so the largest number counts.
#[expect(clippy::indexing_slicing, reason = "orders have numbers of nodes of the layout")]
fn lower_bound(old: &Layout, new: &Layout, n_val: u32) -> u64 {
    let parts = new.spread_parts();
    let spread = parts.spread();
    let copies = new.nodes.len().min(n_val as usize);
    let copies_before = old.nodes.len().min(n_val as usize);
    let mut held = vec![0u32; new.nodes.len()];
    let mut gone = 0;
    let mut forced = 0;
    let distinct_min = spread.distinct_locations.min(copies);
    let now: Vec<Option<u16>> = old.nodes.iter().map(|node| new.node_index(*node)).collect();
    for partition in old.partitions() {
        let mut locations = Vec::new();
        let mut kept = 0;
        for node in old.primaries(partition, n_val) {
            match now[usize::from(*node)] {
                None => gone += 1,
                Some(node) => {
                    held[usize::from(node)] += 1;
                    locations.push(spread.locations[usize::from(node)]);
                    kept += 1;
                }
            }
        }
        locations.sort_unstable();
        locations.dedup();
        let missing = copies.saturating_sub(kept);
        forced += missing.max(distinct_min.saturating_sub(locations.len())) as u64;
    }
    // Additional copies are transfers too. A copy that is dropped is no transfer.
    let all_copies = |of_partition: usize| (of_partition * spread.partition_count) as u64;
    let given =
        |above: u64| (above + gone + all_copies(copies)).saturating_sub(all_copies(copies_before));
    if copies != new.balanced_count() {
        return forced.max(given(0));
    }
    let fair = spread.fair_shares(copies);
    let shares = || fair.shares.iter().zip(&held);
    let below = |(share, held): (&Share, &u32)| share.floor().saturating_sub(*held);
    let above = |(share, held): (&Share, &u32)| held.saturating_sub(share.ceil());
    let below: u64 = shares().map(below).map(u64::from).sum();
    let above: u64 = shares().map(above).map(u64::from).sum();
    forced.max(below).max(given(above))
}
