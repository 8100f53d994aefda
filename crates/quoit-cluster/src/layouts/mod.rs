//! The live layouts.
//!
//! During a change of layout several layouts are live. The invariants that keep acknowledged writes
//! visible:
//!
//! - A write satisfies its quorums in every live layout.
//! - A read of a partition uses the newest layout in which all primaries have complete copies of it.
//! - Older layouts retire only when all copies of a newer one are complete and every member that is not
//!   marked as down has reported that its writes satisfy the newer one and its reads use no older one.
//!
//! All of this follows from entries of the log, in the same order on all nodes.

mod invariants;
mod lost;
mod readers;

pub(crate) use lost::LostCopies;
pub use readers::Readers;

use crate::NodeId;
use quoit_model::hash::Partition;
use quoit_model::layout::Layout;
use quoit_planted::planted;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of live layouts. Writes must satisfy all of them, so each one makes writes more
/// expensive.
pub(crate) const LIVE_MAX: usize = 8;
/// Maximum number of live layouts for plans that remove members by force. The other layouts may wait for a
/// dead member.
pub(crate) const LIVE_REMOVED_MAX: usize = 2 * LIVE_MAX;

/// Versions of layouts, and of raises of `n_val`, that a member has reported.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MemberReport {
    /// Version of the newest layout that its writes satisfy.
    pub writes: u64,
    /// Version of the oldest layout that its reads use.
    pub reads: u64,
    /// Version of the state up to which the member knows the raises of an `n_val`, and writes to the added
    /// replicas.
    pub raises_known: u64,
    /// Version of the state up to which the member has handed over its records of the buckets with raises.
    pub raises_filled: u64,
}

impl MemberReport {
    /// Returns true if each version is at least the one of `others`.
    pub(crate) const fn includes(self, others: MemberReport) -> bool {
        self.writes >= others.writes
            && self.reads >= others.reads
            && self.raises_known >= others.raises_known
            && self.raises_filled >= others.raises_filled
    }
}

/// The live layouts: one, or several while partitions move.
#[derive(Clone, PartialEq, Debug)]
pub struct Layouts {
    /// Oldest first; never empty.
    live: Vec<Arc<Layout>>,
    /// Number of first positions of a partition whose copies have to be complete.
    n_val: u32,
    /// Copies that are not complete: the partition and its node.
    incomplete: BTreeSet<(Partition, NodeId)>,
    /// Incomplete copies that were complete and have lost records.
    lost: LostCopies,
    /// The last report of each member.
    acknowledged: BTreeMap<NodeId, MemberReport>,
    /// For each partition the index in `live` of the layout for reads. Empty while one layout is live.
    reads: Vec<u8>,
}

impl Layouts {
    /// Creates the layouts of a cluster that has only one.
    pub(crate) fn new(only: Arc<Layout>) -> Self {
        Self {
            live: vec![only],
            n_val: 0,
            incomplete: BTreeSet::new(),
            lost: LostCopies::default(),
            acknowledged: BTreeMap::new(),
            reads: Vec::new(),
        }
    }

    /// Restores stored layouts; at least one. Refuses layouts that contradict each other.
    pub(crate) fn restored(
        live: Vec<Arc<Layout>>,
        n_val: u32,
        incomplete: BTreeSet<(Partition, NodeId)>,
        acknowledged: BTreeMap<NodeId, MemberReport>,
    ) -> Result<Self, String> {
        invariants::check_stored(&live, &incomplete)?;
        let lost = LostCopies::default();
        let mut restored = Self { live, n_val, incomplete, lost, acknowledged, reads: Vec::new() };
        restored.settle();
        Ok(restored)
    }

    /// Returns all live layouts, oldest first; never empty.
    #[must_use]
    pub fn live(&self) -> &[Arc<Layout>] {
        &self.live
    }

    /// Returns the newest layout: the one that replaces the others.
    ///
    /// # Panics
    ///
    /// Never: at least one layout is live.
    #[must_use]
    pub fn newest(&self) -> &Arc<Layout> {
        self.live.last().expect("there is always a layout")
    }

    /// Returns the oldest live layout.
    ///
    /// # Panics
    ///
    /// Never: at least one layout is live.
    #[must_use]
    pub fn oldest(&self) -> &Arc<Layout> {
        self.live.first().expect("there is always a layout")
    }

    /// Returns the version of the oldest live layout. Requests made with an older one are refused.
    #[must_use]
    pub fn oldest_version(&self) -> u64 {
        self.oldest().version()
    }

    /// Returns the layout by which a partition is read: the newest one in which all primaries have
    /// complete copies of it. Two comparisons and an array lookup.
    ///
    /// # Panics
    ///
    /// If the partition does not exist.
    #[must_use]
    #[expect(
        clippy::indexing_slicing,
        reason = "`reads` has a live layout for each partition; others panic, as documented"
    )]
    pub fn for_reads(&self, partition: Partition) -> &Arc<Layout> {
        if self.reads.is_empty() {
            return self.oldest();
        }
        &self.live[usize::from(self.reads[usize::from(partition.0)])]
    }

    /// Returns true if several layouts are live, so that partitions may be moving.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.live.len() > 1
    }

    /// Returns true if all primaries of a partition in the newest layout have complete copies.
    #[must_use]
    pub fn moved(&self, partition: Partition) -> bool {
        self.is_complete(self.newest(), partition)
    }

    /// Returns the incomplete copies, in order: the partition, and the node of the copy.
    pub fn incomplete(&self) -> impl Iterator<Item = (Partition, NodeId)> + '_ {
        self.incomplete.iter().copied()
    }

    /// Returns true if the copy of a node may lack records of the partition that other nodes have. A
    /// bucket created after the newest layout does not make a copy incomplete, because its writes go
    /// to all of its primaries.
    #[must_use]
    pub fn is_incomplete(&self, partition: Partition, node: NodeId) -> bool {
        self.incomplete.contains(&(partition, node))
    }

    /// Returns the version of the newest layout that a member's writes satisfy; `None` if it has not
    /// reported yet.
    #[must_use]
    pub fn acknowledged(&self, node: NodeId) -> Option<u64> {
        self.served(node).map(|served| served.writes)
    }

    /// Returns the last report of a member.
    pub(crate) fn served(&self, node: NodeId) -> Option<MemberReport> {
        self.acknowledged.get(&node).copied()
    }

    /// Returns the version of the oldest layout by which any partition is read.
    #[expect(clippy::indexing_slicing, reason = "`reads` has indexes of live layouts")]
    pub(crate) fn oldest_read(&self) -> u64 {
        let oldest = self.reads.iter().min().copied().unwrap_or_default();
        self.live[usize::from(oldest)].version()
    }

    pub(crate) fn acknowledgements(&self) -> impl Iterator<Item = (NodeId, MemberReport)> + '_ {
        self.acknowledged.iter().map(|(node, served)| (*node, *served))
    }

    pub(crate) const fn n_val(&self) -> u32 {
        self.n_val
    }

    /// Returns true if a node is a primary of a partition in one of `layouts`.
    fn holds(&self, layouts: &[Arc<Layout>], partition: Partition, node: NodeId) -> bool {
        layouts.iter().any(|layout| {
            let primaries = layout.primaries(partition, self.n_val.max(1));
            primaries.iter().any(|place| layout.node_at(*place) == node)
        })
    }

    fn is_complete(&self, layout: &Layout, partition: Partition) -> bool {
        let mut primaries = layout.primaries(partition, self.n_val).iter();
        primaries.all(|place| !self.incomplete.contains(&(partition, layout.node_at(*place))))
    }

    /// Adds a layout. A node that has more votes for a partition in the new layout than in the layout by
    /// which the partition is read needs a complete copy: it must not answer with more votes than before
    /// unless it has all records. Usually such a node becomes a primary. If there are fewer nodes than
    /// positions, it may be one already. `n_vals` are those of all buckets, ascending.
    pub(crate) fn push(&mut self, layout: Arc<Layout>, n_vals: &[u32]) {
        self.n_val = n_vals.last().map_or(self.n_val, |n_val| self.n_val.max(*n_val));
        let looked_at = if planted!(MovesByLargestNVal) { 1 } else { n_vals.len() };
        let mut added = Vec::new();
        for partition in layout.partitions() {
            let read_by = self.for_reads(partition);
            for place in layout.primaries(partition, self.n_val) {
                let node = layout.node_at(*place);
                let before = read_by.node_index(node);
                let gains = |n_val: &u32| {
                    let votes = before.map_or(0, |before| read_by.votes(partition, *n_val, before));
                    layout.votes(partition, *n_val, *place) > votes
                };
                if n_vals.iter().rev().take(looked_at).any(gains) {
                    added.push((partition, node));
                }
            }
        }
        debug_assert_eq!(
            layout.ring_size(),
            self.newest().ring_size(),
            "the number of partitions does not change"
        );
        self.incomplete.extend(added);
        self.live.push(layout);
        self.settle();
        // A partition whose votes change is read by an older layout again, so earlier reports
        // of reads no longer hold.
        let oldest = self.oldest_read();
        for known in self.acknowledged.values_mut() {
            known.reads = known.reads.min(oldest);
        }
    }

    /// Marks copies of a node as complete.
    pub(crate) fn complete(&mut self, node: NodeId, partitions: &[Partition]) {
        for partition in partitions {
            self.incomplete.remove(&(*partition, node));
            self.lost.copies.remove(&(*partition, node));
        }
        self.settle();
    }

    /// Records the report of a member.
    pub(crate) fn acknowledge(&mut self, node: NodeId, served: MemberReport) {
        let newest = self.newest().version();
        let known = self.acknowledged.entry(node).or_default();
        let before = *known;
        // Reports may arrive out of order, so no version goes back.
        known.writes = known.writes.max(served.writes);
        known.raises_known = known.raises_known.max(served.raises_known);
        known.raises_filled = known.raises_filled.max(served.raises_filled);
        // A report that was made before the newest layout says nothing about later reads.
        if served.writes >= newest {
            known.reads = known.reads.max(served.reads);
        }
        debug_assert!(known.includes(before), "no version of a report goes back");
    }

    /// Forgets the report of a removed member.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.acknowledged.remove(&node);
    }

    /// Retires layouts that no read needs any more, if all of `members` have reported that they use those
    /// that stay.
    ///
    /// Complete copies alone are not enough. A member that has not yet applied that entry of the log still
    /// reads by the older layout, and would miss writes that other members make by the newer layout alone.
    /// So its reads must use the newer layout, too.
    pub(crate) fn retire(&mut self, members: &[NodeId]) {
        let served = |version: u64| {
            let needed =
                MemberReport { writes: version, reads: version, ..MemberReport::default() };
            let serves =
                |node: &NodeId| self.served(*node).is_some_and(|known| known.includes(needed));
            members.iter().all(serves) || planted!(RetiresLayoutsEarly)
        };
        let stays = self.live.iter().rposition(|layout| {
            served(layout.version())
                && layout.partitions().all(|partition| self.is_complete(layout, partition))
        });
        if let Some(stays @ 1..) = stays {
            self.live.drain(..stays);
            let live = std::mem::take(&mut self.live);
            let incomplete = std::mem::take(&mut self.incomplete);
            let kept = incomplete.into_iter();
            self.incomplete =
                kept.filter(|(partition, node)| self.holds(&live, *partition, *node)).collect();
            self.live = live;
            self.lost.copies.retain(|copy, _| self.incomplete.contains(copy));
            debug_assert!(
                self.oldest().partitions().all(|each| self.is_complete(self.oldest(), each)),
                "the oldest layout that stays has complete copies of all partitions"
            );
        }
        self.settle();
    }

    /// Computes the layout for reads of each partition.
    fn settle(&mut self) {
        self.reads = self.layouts_for_reads();
        self.assert_invariants();
    }

    fn layouts_for_reads(&self) -> Vec<u8> {
        if self.live.len() == 1 {
            return Vec::new();
        }
        let newest = |partition: Partition| {
            let is_complete = |layout: &Arc<Layout>| {
                self.is_complete(layout, partition) || planted!(ReadsNewestLayout)
            };
            let complete = self.live.iter().rposition(is_complete);
            u8::try_from(complete.unwrap_or_default()).expect("at most LIVE_REMOVED_MAX are live")
        };
        self.newest().partitions().map(newest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_model::hash::RingSize;
    use quoit_model::layout::{LayoutMember, LayoutRequest};

    pub(super) fn node(number: u8) -> NodeId {
        NodeId([number; 16])
    }

    pub(super) fn after(previous: &Layout, numbers: impl IntoIterator<Item = u8>) -> Arc<Layout> {
        let members: Vec<_> = numbers.into_iter().map(|n| LayoutMember::new(node(n))).collect();
        Arc::new(Layout::compute(&LayoutRequest::after(previous, &members)).unwrap())
    }

    /// Records a report with these versions.
    fn told(layouts: &mut Layouts, number: u8, writes: u64, reads: u64) {
        layouts
            .acknowledge(node(number), MemberReport { writes, reads, ..MemberReport::default() });
    }

    #[test]
    fn a_layout_stays_until_no_member_reads_by_it() {
        let single = Arc::new(Layout::single(node(1), RingSize::new(16).unwrap()));
        let (old, members) = (single.version(), [node(1), node(2)]);
        let mut layouts = Layouts::new(Arc::clone(&single));
        layouts.push(after(&single, 1..=2), &[3]);
        let new = layouts.newest().version();
        told(&mut layouts, 1, new, old);
        told(&mut layouts, 2, new, old);
        let all: Vec<_> = layouts.newest().partitions().collect();
        layouts.complete(node(2), &all[1..]);
        assert_eq!(layouts.oldest_read(), old);
        layouts.complete(node(2), &all[..1]);
        assert_eq!(layouts.oldest_read(), new);
        layouts.retire(&members);
        assert!(layouts.is_moving(), "all is complete, and not all know it");
        told(&mut layouts, 1, new, new);
        layouts.retire(&members);
        assert!(layouts.is_moving());
        told(&mut layouts, 2, new, new);
        layouts.retire(&members);
        assert!(!layouts.is_moving());
    }

    #[test]
    fn words_about_reads_do_not_outlive_a_layout_by_which_they_change() {
        let mut layouts = of(3, &[2, 3]);
        let first = layouts.newest().version();
        layouts.push(after(layouts.newest(), 1..=4), &[2, 3]);
        let all: Vec<_> = layouts.newest().partitions().collect();
        (1..=4).for_each(|number| layouts.complete(node(number), &all));
        let second = layouts.newest().version();
        told(&mut layouts, 1, second, second);
        // With two nodes, one node has two votes of each partition, where it had one before.
        layouts.push(after(layouts.newest(), [1, 2]), &[2, 3]);
        assert_eq!(layouts.oldest_read(), first);
        let reads = |layouts: &Layouts| layouts.served(node(1)).unwrap().reads;
        assert_eq!(reads(&layouts), first);
        told(&mut layouts, 1, second, second);
        assert_eq!(reads(&layouts), first, "it was told before");
        let third = layouts.newest().version();
        (1..=4).for_each(|number| layouts.complete(node(number), &all));
        assert_eq!(layouts.oldest_read(), third);
        told(&mut layouts, 1, third, third);
        assert_eq!(reads(&layouts), third);
    }

    #[test]
    fn words_that_come_late_take_nothing_back() {
        let mut layouts = of(3, &[3]);
        told(&mut layouts, 1, 7, 5);
        told(&mut layouts, 1, 6, 6);
        assert_eq!(
            layouts.served(node(1)),
            Some(MemberReport { writes: 7, reads: 6, ..MemberReport::default() })
        );
    }

    /// Creates the layouts of nodes 1 to `count`, with complete copies.
    fn of(count: u8, n_vals: &[u32]) -> Layouts {
        let single = Layout::single(node(1), RingSize::new(16).unwrap());
        let mut layouts = Layouts::new(after(&single, 1..=count));
        layouts.n_val = n_vals.last().copied().unwrap_or_default();
        layouts
    }

    #[test]
    fn where_nodes_have_several_votes_those_that_get_more_get_a_copy() {
        let mut layouts = of(3, &[3]);
        let two = after(layouts.newest(), [2, 3]);
        layouts.push(Arc::clone(&two), &[3]);
        // One of the two nodes has two votes, where it had one before.
        for partition in two.partitions() {
            let first = two.nodes()[usize::from(two.order(partition)[0])];
            let incomplete: Vec<_> =
                layouts.incomplete().filter(|(of, _)| *of == partition).collect();
            assert_eq!(incomplete, [(partition, first)]);
            assert_eq!(layouts.for_reads(partition).nodes().len(), 3);
        }
    }

    #[test]
    fn node_with_unchanged_votes_needs_no_copy() {
        let mut layouts = of(5, &[3]);
        let before = Arc::clone(layouts.newest());
        layouts.push(after(&before, 1..=4), &[3]);
        assert!(layouts.incomplete().count() > 0);
        for (partition, id) in layouts.incomplete() {
            let place = before.node_index(id).unwrap();
            assert!(!before.primaries(partition, 3).contains(&place), "{partition:?} {id:?}");
        }
    }
}
