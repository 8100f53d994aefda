//! Staged changes of membership.

use crate::NodeId;
use crate::members::Members;
use std::sync::Arc;

/// A change that an operator has staged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StagedChange {
    /// The node becomes a full member.
    Join {
        /// The node.
        node: NodeId,
    },
    /// The node hands over its data and stops.
    Leave {
        /// The node.
        node: NodeId,
    },
    /// The node is removed at once, and its copies are lost.
    ForceRemove {
        /// The node.
        node: NodeId,
    },
    /// A node takes all positions of another one, which hands over its data and stops.
    Replace {
        /// The node that leaves.
        old: NodeId,
        /// The node that replaces it.
        new: NodeId,
    },
    /// A node takes all positions of another one, which is removed at once and whose copies are lost.
    ForceReplace {
        /// The node that is removed.
        old: NodeId,
        /// The node that replaces it.
        new: NodeId,
    },
    /// The location of the node changes.
    Location {
        /// The node.
        node: NodeId,
        /// The location; `None` for no particular one.
        location: Option<Arc<str>>,
    },
    /// The capacity of the node changes.
    Capacity {
        /// The node.
        node: NodeId,
        /// Its capacity relative to other nodes.
        capacity: u32,
    },
}

impl StagedChange {
    /// Returns the node that is changed. For a replacement it is the node that leaves.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        match self {
            Self::Join { node }
            | Self::Leave { node }
            | Self::ForceRemove { node }
            | Self::Location { node, .. }
            | Self::Capacity { node, .. } => *node,
            Self::Replace { old, .. } | Self::ForceReplace { old, .. } => *old,
        }
    }

    /// Returns the new node of a replacement.
    #[must_use]
    pub const fn newcomer(&self) -> Option<NodeId> {
        match self {
            Self::Replace { new, .. } | Self::ForceReplace { new, .. } => Some(*new),
            _ => None,
        }
    }

    /// Returns the word that commands show for the action.
    #[must_use]
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Join { .. } => "join",
            Self::Leave { .. } => "leave",
            Self::ForceRemove { .. } => "force-remove",
            Self::Replace { .. } => "replace",
            Self::ForceReplace { .. } => "force-replace",
            Self::Location { .. } => "location",
            Self::Capacity { .. } => "capacity",
        }
    }

    /// Returns the nodes and values of the change, for people.
    #[must_use]
    pub fn details(&self, members: &Members) -> String {
        let name = |node: NodeId| members.name_of(node);
        match self {
            Self::Replace { old, new } | Self::ForceReplace { old, new } => {
                format!("'{}' with '{}'", name(*old), name(*new))
            }
            Self::Location { node, location } => {
                format!("'{}' to '{}'", name(*node), location.as_deref().unwrap_or("undefined"))
            }
            Self::Capacity { node, capacity } => format!("'{}' to {capacity}", name(*node)),
            _ => format!("'{}'", name(self.node())),
        }
    }

    /// Returns true if the change adds or removes a member, and not only changes its location or capacity.
    pub(crate) const fn concerns_membership(&self) -> bool {
        !matches!(self, Self::Location { .. } | Self::Capacity { .. })
    }
}
