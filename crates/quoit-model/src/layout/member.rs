//! Input of layouts: members and rules.

use super::error::LayoutError;
use crate::node::NodeId;
use std::sync::Arc;

/// Maximum number of nodes of a layout.
pub const NODES_MAX: usize = 1024;

/// Maximum capacity of a node. Only the ratios of capacities matter.
pub const CAPACITY_MAX: u32 = 1_000_000;

/// Maximum length of a location's name, in bytes.
pub const LOCATION_BYTES_MAX: usize = 255;

/// Maximum `target_n_val`.
pub const TARGET_N_VAL_MAX: u8 = 16;

/// A node as a member of a layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayoutMember {
    /// The node.
    pub id: NodeId,
    /// Location of the node. Nodes of one location (a rack, a room) may fail together. All nodes
    /// without a location count as one unnamed location.
    pub location: Option<Arc<str>>,
    /// Capacity relative to the other nodes, 1 to [`CAPACITY_MAX`].
    pub capacity: u32,
}

impl LayoutMember {
    /// Default capacity.
    pub const DEFAULT_CAPACITY: u32 = 100;

    /// A node without location, with the default capacity.
    #[must_use]
    pub const fn new(id: NodeId) -> Self {
        Self { id, location: None, capacity: Self::DEFAULT_CAPACITY }
    }
}

/// Rules by which the layouts of a cluster are computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LayoutRules {
    /// Number of positions of each partition that are balanced, 1 to [`TARGET_N_VAL_MAX`]. It
    /// should be the highest `n_val` that is in common use.
    pub target_n_val: u8,
    /// Number of positions that are on distinct locations, if there are so many locations. 1
    /// ignores locations; values above `target_n_val` mean `target_n_val`.
    pub target_location_n_val: u8,
}

impl Default for LayoutRules {
    fn default() -> Self {
        Self { target_n_val: 4, target_location_n_val: 3 }
    }
}

impl LayoutRules {
    /// Number of balanced positions in a cluster of this many nodes.
    pub(super) fn balanced_count(self, node_count: usize) -> usize {
        usize::from(self.target_n_val).min(node_count)
    }
}

/// The number of a node, or of a location of nodes, as tables have it.
///
/// # Panics
///
/// If the index has more than 16 bits. A layout has at most [`NODES_MAX`] nodes.
pub(super) fn node_number(index: usize) -> u16 {
    u16::try_from(index).expect("a layout has at most NODES_MAX nodes")
}

/// Sorts members by id, and checks members and rules.
pub(super) fn checked(
    members: &[LayoutMember],
    rules: LayoutRules,
) -> Result<Vec<LayoutMember>, LayoutError> {
    let (target, locations) = (rules.target_n_val, rules.target_location_n_val);
    if !(1..=TARGET_N_VAL_MAX).contains(&target) || locations < 1 {
        return Err(LayoutError::Rules { target, locations });
    }
    if members.is_empty() || members.len() > NODES_MAX {
        return Err(LayoutError::NodeCount { count: members.len() });
    }
    let mut sorted = members.to_vec();
    sorted.sort_by_key(|member| member.id);
    let mut pairs = sorted.iter().zip(sorted.iter().skip(1));
    if let Some((one, _)) = pairs.find(|(one, next)| one.id == next.id) {
        return Err(LayoutError::SameNode { node: one.id });
    }
    for member in &sorted {
        let (node, capacity) = (member.id, member.capacity);
        if !(1..=CAPACITY_MAX).contains(&capacity) {
            return Err(LayoutError::Capacity { node, capacity });
        }
        let size_bytes = member.location.as_ref().map_or(0, |location| location.len());
        if size_bytes > LOCATION_BYTES_MAX {
            return Err(LayoutError::Location { node, size_bytes });
        }
    }
    Ok(sorted)
}

/// Numbers the locations of members. Returns the number of each member's location, and the number
/// of locations.
pub(super) fn locations_of(members: &[LayoutMember]) -> (Vec<u16>, usize) {
    let mut names: Vec<Option<&str>> =
        members.iter().map(|member| member.location.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    let number = |member: &LayoutMember| {
        let found = names.binary_search(&member.location.as_deref());
        node_number(found.expect("every location is in the list"))
    };
    (members.iter().map(number).collect(), names.len())
}
