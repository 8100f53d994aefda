//! Layouts: the ordered nodes of each partition, and the computation of a layout from the previous
//! one.
//!
//! A [`Layout`] is an immutable, versioned table that has, for each partition, an order of all
//! nodes of the cluster. The first n nodes are the **primaries** of a bucket with `n_val` n; the
//! later ones are its fallbacks. [`Layout::compute`] chooses the nodes of the first
//! [`LayoutRules::target_n_val`] positions, which are called *balanced*: on distinct nodes, on
//! distinct locations as far as possible, in shares by capacity, and with hardly more movement than
//! the change of members requires. The later positions are a fixed function of the node and the
//! partition.
//!
//! The computation has these steps; a layout that meets all requirements is kept:
//!
//! 1. Fair shares (`shares`): the exact number of partitions that each node should hold.
//! 2. Quotas (`quotas`): the shares, rounded to whole partitions.
//! 3. Assignment (`assign`): every node gets as many partitions as its quota says.
//! 4. Improvement (`improve`): movement that is not necessary is undone.
//! 5. Order (`reorder`): the first positions are balanced for smaller `n_val` too, where possible.
//! 6. Tail (`tail`): rendezvous hashing orders the other nodes.
//!
//! `docs/design/layout.md` describes the algorithm and its bounds.
//!
//! ```
//! use quoit_model::hash::{Partition, RingSize};
//! use quoit_model::layout::{Layout, LayoutMember, LayoutRequest, Movement};
//! use quoit_model::node::NodeId;
//!
//! let first = Layout::single(NodeId([1; 16]), RingSize::DEFAULT);
//! let members: Vec<_> = (1..=5).map(|n| LayoutMember::new(NodeId([n; 16]))).collect();
//! let second = Layout::compute(&LayoutRequest::after(&first, &members)).unwrap();
//! assert_eq!(second.primaries(Partition(0), 3).len(), 3);
//! let movement = Movement::between(&first, &second, 4);
//! assert_eq!(movement.transfers.len() as u64, movement.lower_bound);
//! ```

#[expect(clippy::indexing_slicing, reason = "nodes and positions are those of the table")]
mod assign;
mod codec;
mod compute;
mod error;
#[expect(clippy::indexing_slicing, reason = "nodes and positions are those of the table")]
mod improve;
mod member;
mod movement;
#[expect(clippy::indexing_slicing, reason = "nodes and positions are those of the table")]
mod quotas;
#[expect(clippy::indexing_slicing, reason = "nodes and positions are those of the table")]
mod reorder;
mod report;
#[expect(clippy::indexing_slicing, reason = "nodes and positions are those of the table")]
mod shares;
#[expect(clippy::indexing_slicing, reason = "nodes and positions are those of the table")]
mod table;
mod tail;
#[cfg(test)]
mod tests;

pub use codec::LAYOUT_FORMAT_1;
pub use compute::{LayoutRequest, Replacement};
pub use error::{LayoutDecodeError, LayoutError};
pub use member::{
    CAPACITY_MAX, LOCATION_BYTES_MAX, LayoutMember, LayoutRules, NODES_MAX, TARGET_N_VAL_MAX,
};
pub use movement::{Movement, Transfer};
pub use report::{LayoutWarning, NodeShare};

use crate::hash::{Partition, PlacementHash, RingSize};
use crate::node::NodeId;
use quoit_number::length_u32;

/// The ordered nodes of each partition. Equal layouts route every request alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    version: u64,
    ring_size: RingSize,
    rules: LayoutRules,
    /// Sorted by id.
    members: Vec<LayoutMember>,
    /// The ids of `members`.
    nodes: Vec<NodeId>,
    /// For each partition all nodes in order, as indexes into `nodes`.
    order: Vec<u16>,
}

impl Layout {
    /// The layout of a cluster of one node, with version 1 and the default rules.
    #[must_use]
    pub fn single(node: NodeId, ring_size: RingSize) -> Self {
        Self {
            version: 1,
            ring_size,
            rules: LayoutRules::default(),
            members: vec![LayoutMember::new(node)],
            nodes: vec![node],
            order: vec![0; usize::from(ring_size.get())],
        }
    }

    /// Makes a layout from the balanced positions of all partitions; adds the later positions.
    fn from_balanced(
        version: u64,
        ring_size: RingSize,
        rules: LayoutRules,
        members: Vec<LayoutMember>,
        balanced: &[u16],
    ) -> Self {
        let nodes: Vec<NodeId> = members.iter().map(|member| member.id).collect();
        let order = tail::extend(balanced, rules.balanced_count(members.len()), &members);
        let layout = Self { version, ring_size, rules, members, nodes, order };
        if cfg!(debug_assertions) {
            layout.assert_invariants();
        }
        layout
    }

    /// Asserts that members can be searched, and that every partition has every node once. Costs
    /// less than the sorting of the later positions.
    #[expect(clippy::indexing_slicing, reason = "it asserts what the other indexes rely on")]
    fn assert_invariants(&self) {
        let node_count = self.nodes.len();
        let ids = self.members.iter().map(|member| member.id);
        assert!(ids.eq(self.nodes.iter().copied()), "nodes are the ids of the members");
        assert!(self.nodes.is_sorted_by(|a, b| a < b), "nodes are sorted, and each is there once");
        assert!((1..=NODES_MAX).contains(&node_count), "a layout has 1 to NODES_MAX nodes");
        let partition_count = usize::from(self.ring_size.get());
        assert_eq!(self.order.len(), partition_count * node_count, "an order for each partition");
        let mut seen_in = vec![0; node_count];
        for (row, number) in self.order.chunks_exact(node_count).zip(1u32..) {
            for node in row {
                let seen_in = &mut seen_in[usize::from(*node)];
                assert_ne!(*seen_in, number, "the order of a partition has each node once");
                *seen_in = number;
            }
        }
    }

    /// Version of the layout within its cluster; newer layouts have higher versions.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Number of partitions.
    #[must_use]
    pub const fn ring_size(&self) -> RingSize {
        self.ring_size
    }

    /// The rules by which the layout was computed.
    #[must_use]
    pub const fn rules(&self) -> LayoutRules {
        self.rules
    }

    /// The nodes with location and capacity, sorted by id.
    #[must_use]
    pub fn members(&self) -> &[LayoutMember] {
        &self.members
    }

    /// The nodes, sorted by id. Orders refer to them by index.
    #[must_use]
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Index of a node in [`Layout::nodes`]; `None` if the node is not in the layout.
    #[must_use]
    pub fn node_index(&self, node: NodeId) -> Option<u16> {
        self.nodes.binary_search(&node).ok().map(member::node_number)
    }

    /// The node with an index of [`Layout::order`].
    ///
    /// # Panics
    ///
    /// If the layout has no such node.
    #[must_use]
    #[expect(
        clippy::indexing_slicing,
        reason = "orders have indexes of nodes; others panic, as documented"
    )]
    pub fn node_at(&self, index: u16) -> NodeId {
        self.nodes[usize::from(index)]
    }

    /// All partitions in ascending order.
    pub fn partitions(&self) -> impl Iterator<Item = Partition> + use<> {
        (0..self.ring_size.get()).map(Partition)
    }

    /// Number of balanced positions of each partition: `target_n_val`, or the number of nodes if
    /// that is less.
    #[must_use]
    pub fn balanced_count(&self) -> usize {
        self.rules.balanced_count(self.nodes.len())
    }

    /// All nodes in the order of the partition, each once, as indexes into [`Layout::nodes`].
    /// Returns a slice of the table, without allocation.
    ///
    /// # Panics
    ///
    /// If the layout has no such partition.
    #[must_use]
    #[expect(
        clippy::indexing_slicing,
        reason = "there is an order for each partition; others panic, as documented"
    )]
    pub fn order(&self, partition: Partition) -> &[u16] {
        let start = usize::from(partition.0) * self.nodes.len();
        &self.order[start..start + self.nodes.len()]
    }

    /// Primaries of a partition for buckets with this `n_val`: the first `n_val` nodes of its
    /// order, or all nodes if there are fewer.
    ///
    /// # Panics
    ///
    /// If the layout has no such partition.
    #[must_use]
    pub fn primaries(&self, partition: Partition, n_val: u32) -> &[u16] {
        let order = self.order(partition);
        order.get(..n_val as usize).unwrap_or(order)
    }

    /// Number of the partition's `n_val` positions that belong to the node. With fewer nodes than
    /// positions the nodes take them in turn: position i belongs to primary i mod the number of
    /// primaries. Returns 0 if the node is not a primary.
    ///
    /// # Panics
    ///
    /// If the layout has no such partition.
    #[must_use]
    pub fn votes(&self, partition: Partition, n_val: u32, node_index: u16) -> u32 {
        let primaries = self.primaries(partition, n_val);
        let count = length_u32(primaries.len());
        match primaries.iter().position(|index| *index == node_index) {
            None => 0,
            Some(place) => {
                let votes = (n_val - 1 - length_u32(place)) / count + 1;
                debug_assert!(
                    (1..=n_val).contains(&votes),
                    "a primary has at least one vote, and no more than there are positions"
                );
                votes
            }
        }
    }

    /// The preference list of a record in the form that clients see: the record's partition and the following
    /// ones, wrapping around, `n_val` in all but at most the number of partitions. Each partition comes with
    /// the node of the corresponding position in the order of the record's partition. No allocation.
    pub fn preflist(
        &self,
        placement: PlacementHash,
        n_val: u32,
    ) -> impl Iterator<Item = (Partition, NodeId)> + '_ {
        let partition_count = self.ring_size.get();
        let first = self.ring_size.partition(placement);
        let primaries = self.primaries(first, n_val);
        let length =
            u16::try_from(n_val).map_or(partition_count, |n_val| n_val.min(partition_count));
        (0..length).zip(primaries.iter().cycle()).map(move |(position, node)| {
            // A ring has at most 4096 partitions: the sum can't overflow.
            let partition = Partition((first.0 + position) % partition_count);
            (partition, self.node_at(*node))
        })
    }

    /// The nodes at the balanced positions of a partition, as indexes into [`Layout::nodes`].
    ///
    /// # Panics
    ///
    /// If the layout has no such partition.
    #[must_use]
    pub fn balanced(&self, partition: Partition) -> &[u16] {
        let order = self.order(partition);
        order.get(..self.balanced_count()).unwrap_or(order)
    }
}
