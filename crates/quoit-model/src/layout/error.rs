//! Errors of computing and decoding layouts.

use super::member::{CAPACITY_MAX, LOCATION_BYTES_MAX, NODES_MAX, TARGET_N_VAL_MAX};
use crate::node::NodeId;
use thiserror::Error;

/// Error of a request for a layout.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LayoutError {
    /// The number of nodes is 0 or above [`NODES_MAX`].
    #[error("a layout of {count} nodes was requested; it needs 1 to {NODES_MAX}")]
    NodeCount {
        /// Number of nodes.
        count: usize,
    },
    /// A node occurs more than once among the members.
    #[error("node {node} is twice among the members; name each once")]
    SameNode {
        /// The node.
        node: NodeId,
    },
    /// The capacity of a node is out of range.
    #[error("node {node} has capacity {capacity}; give it 1 to {CAPACITY_MAX}")]
    Capacity {
        /// The node.
        node: NodeId,
        /// Its capacity.
        capacity: u32,
    },
    /// The name of a location is too long.
    #[error(
        "the location of node {node} has a name of {size_bytes} bytes; \
         give it at most {LOCATION_BYTES_MAX}"
    )]
    Location {
        /// The node.
        node: NodeId,
        /// Length of the location's name in bytes.
        size_bytes: usize,
    },
    /// The rules are out of range.
    #[error(
        "target_n_val is {target} and target_location_n_val {locations}; \
         give the first 1 to {TARGET_N_VAL_MAX}, and the second at least 1"
    )]
    Rules {
        /// Requested `target_n_val`.
        target: u8,
        /// Requested `target_location_n_val`.
        locations: u8,
    },
    /// The previous layout has another number of partitions.
    #[error(
        "the ring has {has} partitions, and the request is for {wanted}; the number of partitions can't \
         change"
    )]
    RingSize {
        /// Number of partitions of the previous layout.
        has: u16,
        /// Requested number of partitions.
        wanted: u16,
    },
    /// The node can't be replaced: it is not in the previous layout, stays a member, or is replaced
    /// twice.
    #[error("node {node} can't be replaced: {why}")]
    Replaced {
        /// The node.
        node: NodeId,
        /// Description of the obstacle.
        why: &'static str,
    },
    /// The node can't replace another one.
    #[error("node {node} can't replace another: {why}")]
    Replacing {
        /// The node.
        node: NodeId,
        /// Description of the obstacle.
        why: &'static str,
    },
}

/// Error of decoding a layout.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LayoutDecodeError {
    /// This release does not know the format.
    #[error("layout of format {format}; this release reads format 1, so upgrade this node")]
    UnknownFormat {
        /// First byte of the input.
        format: u8,
    },
    /// The bytes are cut off or damaged.
    #[error("layout of {size_bytes} bytes is damaged at byte {at}: {what}")]
    Damaged {
        /// Size of the input in bytes.
        size_bytes: usize,
        /// Offset in bytes of the fault.
        at: usize,
        /// Description of the fault.
        what: &'static str,
    },
}
