//! Sources: the nodes that hand a partition to a node that becomes one of its primaries.
//!
//! A read quorum of the new primaries must meet every write that a quorum of the old ones has taken. That
//! holds if each new primary gets the records of the old holder of its position: then as many new
//! primaries have the write as old ones had.
//!
//! All other primaries are sources instead in these cases:
//!
//! - The old holder of the position is not known, gone, or marked as down. A write that it took with a
//!   quorum is on other primaries, too.
//! - There are fewer nodes than positions, before or after the change. A node then has several votes, and
//!   a write with a majority of the votes may be on one node alone.

use quoit_cluster::NodeId;
use quoit_model::hash::Partition;
use quoit_model::layout::{Layout, Movement};
use quoit_planted::planted;
use std::collections::BTreeSet;

/// Returns the nodes that must have handed their records to `to` before its copy of the partition is
/// complete. The set is empty if no node can have any.
///
/// `complete` is the layout by which the partition is read, `n_val_max` the largest `n_val` of any
/// bucket. `is_there` is true for nodes that can be expected to hand anything over.
pub(super) fn sources(
    complete: &Layout,
    newest: &Layout,
    n_val_max: u32,
    partition: Partition,
    to: NodeId,
    is_there: impl Fn(NodeId) -> bool,
) -> BTreeSet<NodeId> {
    // A node that was a primary only of buckets with a large n_val lacks the records of the others. So
    // each n_val is looked at.
    let transfers = (1..=n_val_max)
        .flat_map(|n_val| Movement::of_partition(complete, newest, partition, n_val));
    let mut sources: BTreeSet<NodeId> =
        transfers.filter(|transfer| transfer.to == to).map(|transfer| transfer.from).collect();
    let has_all =
        |layout: &Layout| layout.primaries(partition, n_val_max).len() == n_val_max as usize;
    let are_votes_even = has_all(complete) && has_all(newest);
    if sources.is_empty() || !are_votes_even || !sources.iter().all(|node| is_there(*node)) {
        let primaries = complete.primaries(partition, n_val_max).iter();
        sources = primaries.map(|node| complete.node_at(*node)).collect();
    }
    sources.retain(|node| *node != to && is_there(*node));
    sources
}

/// Returns the nodes that must have handed their records to a node that lost its own, among the `others`
/// that hold the partition.
///
/// These are all nodes whose copy is whole, reachable or not: a write that the node took before the loss
/// may be on any one of them. If no copy is whole, all `others` are sources, and the node gets the union
/// of their copies.
pub(super) fn sources_after_loss(
    others: &BTreeSet<NodeId>,
    is_whole: impl Fn(NodeId) -> bool,
) -> BTreeSet<NodeId> {
    let count = if planted!(HearsOneSource) { 1 } else { others.len() };
    let whole = others.iter().copied().filter(|node| is_whole(*node));
    let whole: BTreeSet<NodeId> = whole.take(count).collect();
    let sources = if whole.is_empty() { others.clone() } else { whole };
    debug_assert_eq!(
        sources.is_empty(),
        others.is_empty(),
        "a copy that lost records has sources while another node holds the partition"
    );
    sources
}

/// True if the copy of `to` replaces the copy of a node that can't be expected to hand anything over.
/// Arguments are those of [`sources`].
pub(super) fn replaces_lost(
    complete: &Layout,
    newest: &Layout,
    n_val_max: u32,
    partition: Partition,
    to: NodeId,
    is_there: impl Fn(NodeId) -> bool,
) -> bool {
    let transfers = (1..=n_val_max)
        .flat_map(|n_val| Movement::of_partition(complete, newest, partition, n_val));
    transfers.filter(|transfer| transfer.to == to).any(|transfer| !is_there(transfer.from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_model::hash::RingSize;
    use quoit_model::layout::{LayoutMember, LayoutRequest};

    fn node(number: u8) -> NodeId {
        NodeId([number; 16])
    }

    fn layout(previous: &Layout, numbers: impl IntoIterator<Item = u8>) -> Layout {
        let members: Vec<_> = numbers.into_iter().map(|n| LayoutMember::new(node(n))).collect();
        Layout::compute(&LayoutRequest::after(previous, &members)).unwrap()
    }

    /// A layout of five nodes, and its successor with six.
    fn growing() -> (Layout, Layout) {
        let single = Layout::single(node(1), RingSize::new(64).unwrap());
        let before = layout(&single, 1..=5);
        let after = layout(&before, 1..=6);
        (before, after)
    }

    fn ids(layout: &Layout, partition: Partition, n_val: u32) -> BTreeSet<NodeId> {
        let primaries = layout.primaries(partition, n_val).iter();
        primaries.map(|node| layout.node_at(*node)).collect()
    }

    #[test]
    fn the_old_holder_of_a_position_is_a_source() {
        let (before, after) = growing();
        for transfer in Movement::between(&before, &after, 3).transfers {
            let partition = transfer.partition;
            let sources = sources(&before, &after, 3, partition, transfer.to, |_| true);
            assert!(sources.contains(&transfer.from));
            assert!(sources.is_subset(&ids(&before, partition, 3)));
        }
    }

    #[test]
    fn all_other_primaries_hand_over_what_a_lost_one_had() {
        let (before, after) = growing();
        for transfer in Movement::between(&before, &after, 3).transfers {
            let partition = transfer.partition;
            let is_there = |node| node != transfer.from;
            let sources = sources(&before, &after, 3, partition, transfer.to, is_there);
            let mut others = ids(&before, partition, 3);
            others.remove(&transfer.from);
            others.remove(&transfer.to);
            assert_eq!(sources, others);
            assert!(replaces_lost(&before, &after, 3, partition, transfer.to, is_there));
            assert!(!replaces_lost(&before, &after, 3, partition, transfer.to, |_| true));
        }
    }

    /// Returns the number of votes that these nodes have together.
    fn votes(layout: &Layout, partition: Partition, n_val: u32, nodes: &BTreeSet<NodeId>) -> u32 {
        let places = nodes.iter().filter_map(|node| layout.node_index(*node));
        places.map(|place| layout.votes(partition, n_val, place)).sum()
    }

    /// Checks for buckets of this `n_val`: a write that a majority of the votes by one layout has taken
    /// is found by every majority by the next layout, once nodes that gain votes have got the records of
    /// their sources.
    fn check_majorities(
        before: &Layout,
        after: &Layout,
        (n_val, n_val_max): (u32, u32),
        partition: Partition,
    ) {
        let majority = n_val / 2 + 1;
        let old: Vec<NodeId> = ids(before, partition, n_val).into_iter().collect();
        for chosen in 0_u32..1 << old.len() {
            let took = old.iter().enumerate().filter(|(place, _)| chosen & 1 << place != 0);
            let took: BTreeSet<NodeId> = took.map(|(_, node)| *node).collect();
            if votes(before, partition, n_val, &took) < majority {
                continue;
            }
            let has = |to: &NodeId| {
                let only = BTreeSet::from([*to]);
                let gains =
                    votes(after, partition, n_val, &only) > votes(before, partition, n_val, &only);
                let sources = sources(before, after, n_val_max, partition, *to, |_| true);
                took.contains(to) || gains && !sources.is_disjoint(&took)
            };
            let new = ids(after, partition, n_val);
            let lack: BTreeSet<NodeId> = new.into_iter().filter(|node| !has(node)).collect();
            let lacking = votes(after, partition, n_val, &lack);
            assert!(lacking < majority, "{partition:?}: {took:?} had it, {lack:?} lack it");
        }
    }

    #[test]
    fn majorities_meet_when_nodes_with_several_votes_come_and_go() {
        let single = Layout::single(node(1), RingSize::new(64).unwrap());
        let mut before = single;
        let steps: [&[u8]; 9] = [
            &[1, 2],
            &[1, 2, 3],
            &[2, 3],
            &[3],
            &[3, 4],
            &[3, 4, 5, 6],
            &[5, 6],
            &[6, 7],
            &[6, 7, 8],
        ];
        for members in steps {
            let after = layout(&before, members.iter().copied());
            for partition in before.partitions() {
                (1..=5).for_each(|n_val| {
                    check_majorities(&before, &after, (n_val, n_val), partition);
                });
            }
            before = after;
        }
    }

    /// The holder of the fifth position has none of the records of these buckets.
    #[test]
    fn majorities_meet_in_buckets_with_fewer_replicas_than_others() {
        let single = Layout::single(node(1), RingSize::new(64).unwrap());
        let mut before = layout(&single, 1..=6);
        for members in [1..=7, 2..=8, 4..=10, 4..=7] {
            let after = layout(&before, members);
            for partition in before.partitions() {
                (1..=4).for_each(|n_val| {
                    check_majorities(&before, &after, (n_val, 5), partition);
                });
            }
            before = after;
        }
    }

    #[test]
    fn all_whole_copies_are_sources_of_one_that_lost_records_and_else_all_there_are() {
        let others = BTreeSet::from([node(1), node(2), node(3)]);
        let whole = BTreeSet::from([node(1), node(3)]);
        assert_eq!(sources_after_loss(&others, |node| whole.contains(&node)), whole);
        assert_eq!(sources_after_loss(&others, |_| false), others);
        assert_eq!(sources_after_loss(&BTreeSet::new(), |_| true), BTreeSet::new());
    }

    #[test]
    fn with_nobody_left_there_is_nothing_to_wait_for() {
        let (before, after) = growing();
        let partition = Partition(0);
        assert_eq!(sources(&before, &after, 3, partition, node(6), |_| false), BTreeSet::new());
    }

    #[test]
    fn a_quorum_of_new_primaries_meets_every_quorum_of_old_ones() {
        let (before, after) = growing();
        for partition in before.partitions() {
            let (old, new) = (ids(&before, partition, 3), ids(&after, partition, 3));
            // Each write was taken by all old primaries but one.
            for missed in &old {
                let had: BTreeSet<_> = old.iter().filter(|node| *node != missed).collect();
                let has = |to: &NodeId| {
                    had.contains(to)
                        || !old.contains(to)
                            && sources(&before, &after, 3, partition, *to, |_| true)
                                .iter()
                                .any(|source| had.contains(source))
                };
                assert!(new.iter().filter(|node| has(node)).count() >= 2, "{partition:?}");
            }
        }
    }
}
