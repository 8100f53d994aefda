//! Errors of requests for a layout, and of bytes that should be one.

use super::member::{CAPACITY_MAX, LOCATION_BYTES_MAX, NODES_MAX, TARGET_N_VAL_MAX};
use crate::node::NodeId;
use thiserror::Error;

/// Why there is no layout as asked for.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LayoutError {
    /// No node, or more than any cluster has.
    #[error("a layout of {count} nodes was requested; it needs 1 to {NODES_MAX}")]
    NodeCount {
        /// Number of nodes.
        count: usize,
    },
    /// A node is in the list of members more than once.
    #[error("node {node} is twice among the members; name each once")]
    SameNode {
        /// The node.
        node: NodeId,
    },
    /// A capacity out of range.
    #[error("node {node} has capacity {capacity}; give it 1 to {CAPACITY_MAX}")]
    Capacity {
        /// The node.
        node: NodeId,
        /// Its capacity.
        capacity: u32,
    },
    /// A location whose name is too long.
    #[error(
        "the location of node {node} has a name of {size_bytes} bytes; \
         give it at most {LOCATION_BYTES_MAX}"
    )]
    Location {
        /// The node.
        node: NodeId,
        /// Length of its location's name.
        size_bytes: usize,
    },
    /// Rules out of range.
    #[error(
        "target_n_val is {target} and target_location_n_val {locations}; \
         give the first 1 to {TARGET_N_VAL_MAX}, and the second at least 1"
    )]
    Rules {
        /// The balanced positions asked for.
        target: u8,
        /// The positions on distinct locations asked for.
        locations: u8,
    },
    /// The layout before has another number of partitions.
    #[error(
        "the ring has {has} partitions, and the request is for {wanted}; the number of partitions can't \
         change"
    )]
    RingSize {
        /// Partitions of the layout before.
        has: u16,
        /// Partitions asked for.
        wanted: u16,
    },
    /// The node to be replaced holds nothing, stays, or is replaced twice.
    #[error("node {node} can't be replaced: {why}")]
    Replaced {
        /// The node.
        node: NodeId,
        /// Description of the obstacle.
        why: &'static str,
    },
    /// The node that should take another's place can't.
    #[error("node {node} can't replace another: {why}")]
    Replacing {
        /// The node.
        node: NodeId,
        /// Description of the obstacle.
        why: &'static str,
    },
}

/// Why bytes are no layout.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LayoutDecodeError {
    /// Of a format that this release does not know.
    #[error("layout of format {format}; this release reads format 1, so upgrade this node")]
    UnknownFormat {
        /// Its first byte.
        format: u8,
    },
    /// Cut off or damaged.
    #[error("layout of {size_bytes} bytes is damaged at byte {at}: {what}")]
    Damaged {
        /// Size of the input.
        size_bytes: usize,
        /// Where it stops to make sense.
        at: usize,
        /// Description of the fault.
        what: &'static str,
    },
}
