//! Changes of membership that wait for a commit.

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
    /// The node hands its data to the others and stops.
    Leave {
        /// The node.
        node: NodeId,
    },
    /// The node is no member any more, its copies are lost.
    ForceRemove {
        /// The node.
        node: NodeId,
    },
    /// A node takes all positions of another, which hands over its data and stops.
    Replace {
        /// The node that goes.
        old: NodeId,
        /// The node that comes.
        new: NodeId,
    },
    /// A node takes all positions of another, whose copies are lost.
    ForceReplace {
        /// The node that goes.
        old: NodeId,
        /// The node that comes.
        new: NodeId,
    },
    /// The node stands somewhere else.
    Location {
        /// The node.
        node: NodeId,
        /// The location; `None` = no particular one.
        location: Option<Arc<str>>,
    },
    /// The node takes another share.
    Capacity {
        /// The node.
        node: NodeId,
        /// Its capacity in relation to others.
        capacity: u32,
    },
}

impl StagedChange {
    /// The node that is changed; of a replacement the one that goes.
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

    /// The node that comes, of a replacement.
    #[must_use]
    pub const fn newcomer(&self) -> Option<NodeId> {
        match self {
            Self::Replace { new, .. } | Self::ForceReplace { new, .. } => Some(*new),
            _ => None,
        }
    }

    /// The word that operators know.
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

    /// Whom and what it concerns, for people.
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

    /// Whether the node's place in the cluster changes, and not only what is known of it.
    pub(crate) const fn concerns_membership(&self) -> bool {
        !matches!(self, Self::Location { .. } | Self::Capacity { .. })
    }
}
