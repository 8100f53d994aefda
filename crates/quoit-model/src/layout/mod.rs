//! Layouts: which nodes hold which partition, and in which order.
//!
//! A [`Layout`] is an immutable, versioned table: each partition has an order of all nodes of the
//! cluster. The first n nodes of the order are the **primaries** of a bucket with `n_val` n, the
//! later ones stand in for them. The first *balanced* positions ([`LayoutRules::target_n_val`] of
//! them) are chosen by [`Layout::compute`]: on distinct nodes, on distinct locations as far as there
//! are such, in shares by capacity, and with next to no movement beyond what the change of members
//! asks for. All later positions follow from a fixed function of the node and the partition.
//!
//! The algorithm and its bounds are described in `docs/design/layout.md`.
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

mod assign;
mod codec;
mod compute;
mod error;
mod improve;
mod member;
mod movement;
mod quotas;
mod reorder;
mod report;
mod shares;
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

use crate::hash::{Partition, Placement, RingSize};
use crate::node::NodeId;

/// Which nodes hold which partition. Equal layouts give every request the same answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    version: u64,
    ring_size: RingSize,
    rules: LayoutRules,
    /// Sorted by id.
    members: Vec<LayoutMember>,
    /// The ids of `members`.
    nodes: Vec<NodeId>,
    /// For each partition all nodes, in order: indexes into `nodes`.
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

    /// From the balanced positions of all partitions; the later positions are added.
    fn from_balanced(
        version: u64,
        ring_size: RingSize,
        rules: LayoutRules,
        members: Vec<LayoutMember>,
        balanced: &[u16],
    ) -> Self {
        let nodes: Vec<NodeId> = members.iter().map(|member| member.id).collect();
        let order = tail::extend(balanced, rules.balanced_count(members.len()), &members);
        Self { version, ring_size, rules, members, nodes, order }
    }

    /// Which layout of the cluster this is: higher ones are newer.
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

    /// Its nodes with location and capacity, sorted by id.
    #[must_use]
    pub fn members(&self) -> &[LayoutMember] {
        &self.members
    }

    /// Its nodes, sorted. Orders speak of them by index.
    #[must_use]
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// The index of a node in [`Layout::nodes`].
    #[must_use]
    pub fn node_index(&self, node: NodeId) -> Option<u16> {
        // A layout has at most NODES_MAX nodes.
        self.nodes.binary_search(&node).ok().map(|index| index as u16)
    }

    /// All partitions, from 0 on.
    pub fn partitions(&self) -> impl Iterator<Item = Partition> + use<> {
        (0..self.ring_size.get()).map(Partition)
    }

    /// How many first positions of each order are balanced: `target_n_val`, or the number of nodes
    /// if that is less.
    #[must_use]
    pub fn balanced_count(&self) -> usize {
        self.rules.balanced_count(self.nodes.len())
    }

    /// All nodes in the order in which the partition prefers them: indexes into
    /// [`Layout::nodes`], each exactly once. One slice of a table, no allocation.
    ///
    /// # Panics
    ///
    /// If the layout has no such partition.
    #[must_use]
    pub fn order(&self, partition: Partition) -> &[u16] {
        let start = usize::from(partition.0) * self.nodes.len();
        &self.order[start..start + self.nodes.len()]
    }

    /// The nodes that hold the partition's records of buckets with that `n_val`: the first `n_val`
    /// of its order, all nodes if there are fewer.
    ///
    /// # Panics
    ///
    /// If the layout has no such partition.
    #[must_use]
    pub fn primaries(&self, partition: Partition, n_val: u32) -> &[u16] {
        let order = self.order(partition);
        &order[..order.len().min(n_val as usize)]
    }

    /// How many of the `n_val` positions of the partition are the node's: with fewer nodes than
    /// positions the nodes take them in turn, position i belongs to primary i mod their number. 0
    /// for a node that is no primary.
    ///
    /// # Panics
    ///
    /// If the layout has no such partition.
    #[must_use]
    pub fn votes(&self, partition: Partition, n_val: u32, node_index: u16) -> u32 {
        let primaries = self.primaries(partition, n_val);
        let count = primaries.len() as u32;
        match primaries.iter().position(|index| *index == node_index) {
            None => 0,
            Some(place) => (n_val - 1 - place as u32) / count + 1,
        }
    }

    /// The preference list of a record as clients are shown it: the record's partition and the
    /// following ones, wrapping around, `n_val` in all but never more than there are partitions,
    /// each with the node whose position of the record's partition it stands for. No allocation.
    pub fn preflist(
        &self,
        placement: Placement,
        n_val: u32,
    ) -> impl Iterator<Item = (Partition, NodeId)> + '_ {
        let partition_count = self.ring_size.get();
        let first = self.ring_size.partition(placement);
        let primaries = self.primaries(first, n_val);
        let length = n_val.min(u32::from(partition_count)) as u16;
        (0..length).map(move |position| {
            let node = primaries[usize::from(position) % primaries.len()];
            // A ring has at most 4096 partitions: the sum can't overflow.
            let partition = Partition((first.0 + position) % partition_count);
            (partition, self.nodes[usize::from(node)])
        })
    }

    /// The balanced positions of a partition.
    fn balanced(&self, partition: Partition) -> &[u16] {
        &self.order(partition)[..self.balanced_count()]
    }
}
