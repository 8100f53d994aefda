//! The layouts that are in use.

use crate::NodeId;
use quoit_model::hash::Partition;
use quoit_model::layout::Layout;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most layouts that are live at once. Each one that a write has to satisfy makes it dearer.
pub(crate) const LIVE_MAX: usize = 8;

/// The live layouts: one, and more while partitions move. Writes must satisfy all of them, reads use for
/// each partition the newest whose copies are complete.
#[derive(Clone, PartialEq, Debug)]
pub struct Layouts {
    /// Oldest first, never empty.
    live: Vec<Arc<Layout>>,
    /// How many first positions of a partition count as copies that have to be complete.
    n_val: u32,
    /// Copies that their nodes have not got yet.
    incomplete: BTreeSet<(Partition, NodeId)>,
    /// The newest layout that each member serves with, as far as it has told.
    acknowledged: BTreeMap<NodeId, u64>,
    /// For each partition the place in `live` of the layout for reads. Empty while there is only one.
    reads: Vec<u8>,
}

impl Layouts {
    /// One layout that everybody uses.
    pub(crate) fn new(only: Arc<Layout>) -> Self {
        Self {
            live: vec![only],
            n_val: 0,
            incomplete: BTreeSet::new(),
            acknowledged: BTreeMap::new(),
            reads: Vec::new(),
        }
    }

    /// Layouts as they were before; at least one.
    pub(crate) fn restored(
        live: Vec<Arc<Layout>>,
        n_val: u32,
        incomplete: BTreeSet<(Partition, NodeId)>,
        acknowledged: BTreeMap<NodeId, u64>,
    ) -> Self {
        let mut restored = Self { live, n_val, incomplete, acknowledged, reads: Vec::new() };
        restored.settle();
        restored
    }

    /// All live layouts, oldest first; never empty.
    #[must_use]
    pub fn live(&self) -> &[Arc<Layout>] {
        &self.live
    }

    /// The newest layout: the one that shall be.
    ///
    /// # Panics
    ///
    /// Never: there is always one.
    #[must_use]
    pub fn newest(&self) -> &Arc<Layout> {
        self.live.last().expect("there is always a layout")
    }

    /// Version of the oldest live layout. Requests made with older ones are refused.
    #[must_use]
    pub fn oldest_version(&self) -> u64 {
        self.live[0].version()
    }

    /// The layout by which a partition is read: the newest whose copies of it are complete. Two
    /// comparisons and an array lookup.
    ///
    /// # Panics
    ///
    /// If there is no such partition.
    #[must_use]
    pub fn for_reads(&self, partition: Partition) -> &Arc<Layout> {
        if self.reads.is_empty() {
            return &self.live[0];
        }
        &self.live[usize::from(self.reads[usize::from(partition.0)])]
    }

    /// Whether partitions move.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.live.len() > 1
    }

    /// Whether all copies of a partition are where the newest layout wants them.
    #[must_use]
    pub fn moved(&self, partition: Partition) -> bool {
        self.is_complete(self.newest(), partition)
    }

    /// Copies that are not complete yet: the partition and the node that gets it, in order.
    pub fn incomplete(&self) -> impl Iterator<Item = (Partition, NodeId)> + '_ {
        self.incomplete.iter().copied()
    }

    /// Whether a node's copy of a partition is complete, as far as it is a primary of a live layout.
    #[must_use]
    pub fn has_copy(&self, partition: Partition, node: NodeId) -> bool {
        self.holds(&self.live, partition, node) && !self.incomplete.contains(&(partition, node))
    }

    /// The newest layout that a member serves with, as far as it has told.
    #[must_use]
    pub fn acknowledged(&self, node: NodeId) -> Option<u64> {
        self.acknowledged.get(&node).copied()
    }

    pub(crate) fn acknowledgements(&self) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        self.acknowledged.iter().map(|(node, version)| (*node, *version))
    }

    pub(crate) const fn n_val(&self) -> u32 {
        self.n_val
    }

    /// Whether a node is a primary of a partition in one of `layouts`.
    fn holds(&self, layouts: &[Arc<Layout>], partition: Partition, node: NodeId) -> bool {
        layouts.iter().any(|layout| {
            let primaries = layout.primaries(partition, self.n_val.max(1));
            primaries.iter().any(|place| layout.nodes()[usize::from(*place)] == node)
        })
    }

    fn is_complete(&self, layout: &Layout, partition: Partition) -> bool {
        let mut primaries = layout.primaries(partition, self.n_val).iter();
        primaries.all(|place| {
            !self.incomplete.contains(&(partition, layout.nodes()[usize::from(*place)]))
        })
    }

    /// Adds a layout to the live ones. Nodes that it makes primaries and that had no complete copy before
    /// have to get one. `n_val` is the largest of any bucket.
    pub(crate) fn push(&mut self, layout: Arc<Layout>, n_val: u32) {
        self.n_val = self.n_val.max(n_val);
        let mut added = Vec::new();
        for partition in layout.partitions() {
            for place in layout.primaries(partition, self.n_val) {
                let node = layout.nodes()[usize::from(*place)];
                if !self.holds(&self.live, partition, node) {
                    added.push((partition, node));
                }
            }
        }
        self.incomplete.extend(added);
        self.live.push(layout);
        self.settle();
    }

    /// A node has got its copies of partitions.
    pub(crate) fn complete(&mut self, node: NodeId, partitions: &[Partition]) {
        for partition in partitions {
            self.incomplete.remove(&(*partition, node));
        }
        self.settle();
    }

    /// A member serves with a layout from now on.
    pub(crate) fn acknowledge(&mut self, node: NodeId, version: u64) {
        let known = self.acknowledged.entry(node).or_default();
        *known = version.max(*known);
    }

    /// A member is gone.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.acknowledged.remove(&node);
    }

    /// Takes out of use what no read needs any more, if all of these members serve with what then stays.
    pub(crate) fn retire(&mut self, members: &[NodeId]) {
        let served = |version: u64| {
            let mut members = members.iter();
            members.all(|node| self.acknowledged.get(node).is_some_and(|to| *to >= version))
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
        }
        self.settle();
    }

    /// Finds the layout for reads of each partition again.
    fn settle(&mut self) {
        if self.live.len() == 1 {
            self.reads.clear();
            return;
        }
        let newest = |partition: Partition| {
            let complete = self.live.iter().rposition(|layout| self.is_complete(layout, partition));
            complete.unwrap_or_default() as u8
        };
        self.reads = self.newest().partitions().map(newest).collect();
    }
}
