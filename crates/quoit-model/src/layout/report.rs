//! Shares and warnings of a layout, for operators.

use super::Layout;
use super::member::locations_of;
use crate::node::NodeId;
use thiserror::Error;

/// A node's share of a layout.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NodeShare {
    /// The node.
    pub node: NodeId,
    /// Number of partitions of which the node has a balanced position.
    pub partition_count: u32,
    /// Share of all balanced positions, in percent. The shares of all nodes add up to 100.
    pub percent: f64,
}

/// A requirement that a layout does not meet, because there are too few nodes or locations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum LayoutWarning {
    /// There are fewer nodes than balanced positions, so nodes have several positions of each
    /// partition.
    #[error(
        "Not all replicas will be on distinct nodes: {node_count} nodes hold {target_n_val} \
         replicas of each partition"
    )]
    NotOnDistinctNodes {
        /// Number of nodes.
        node_count: usize,
        /// Positions that should be on distinct nodes.
        target_n_val: u8,
    },
    /// Some partitions have several of their first copies in one location.
    #[error(
        "Not all replicas will be on distinct locations: {location_count} locations, and \
         {partition_count} partitions repeat one within their first {target_location_n_val} replicas"
    )]
    NotOnDistinctLocations {
        /// Number of locations; nodes without one count as one unnamed location.
        location_count: usize,
        /// Number of partitions that repeat a location.
        partition_count: usize,
        /// Positions that should be on distinct locations.
        target_location_n_val: u8,
    },
}

impl Layout {
    /// The share of each node, in the order of [`Layout::nodes`].
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "orders have numbers of nodes of the layout")]
    pub fn shares(&self) -> Vec<NodeShare> {
        let mut held = vec![0u32; self.nodes.len()];
        for partition in self.partitions() {
            for node in self.balanced(partition) {
                held[usize::from(*node)] += 1;
            }
        }
        let all = usize::from(self.ring_size.get()) * self.balanced_count();
        let share = |(node, partition_count): (&NodeId, u32)| NodeShare {
            node: *node,
            partition_count,
            percent: f64::from(partition_count) * 100.0 / all as f64,
        };
        self.nodes.iter().zip(held).map(share).collect()
    }

    /// Warnings that an operator should read before this layout is used.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "orders have numbers of nodes of the layout")]
    pub fn warnings(&self) -> Vec<LayoutWarning> {
        let mut warnings = Vec::new();
        let target_n_val = self.rules.target_n_val;
        if self.nodes.len() < usize::from(target_n_val) {
            let node_count = self.nodes.len();
            warnings.push(LayoutWarning::NotOnDistinctNodes { node_count, target_n_val });
        }
        let target_location_n_val = self.rules.target_location_n_val.min(target_n_val);
        let (locations, location_count) = locations_of(&self.members);
        let repeats = |nodes: &[u16]| {
            let mut here: Vec<u16> =
                nodes.iter().map(|node| locations[usize::from(*node)]).collect();
            here.sort_unstable();
            here.dedup();
            here.len() < usize::from(target_location_n_val)
        };
        let partition_count = self
            .partitions()
            .filter(|partition| {
                repeats(self.primaries(*partition, u32::from(target_location_n_val)))
            })
            .count();
        let are_named = self.members.iter().any(|member| member.location.is_some());
        if are_named && partition_count > 0 {
            warnings.push(LayoutWarning::NotOnDistinctLocations {
                location_count,
                partition_count,
                target_location_n_val,
            });
        }
        warnings
    }
}
