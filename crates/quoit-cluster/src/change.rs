//! Changes of the control plane's state, and the decisions that group them into entries of the log.

use crate::NodeId;
use crate::layouts::MemberReport;
use crate::members::Member;
use crate::staged::StagedChange;
use crate::trust::Trust;
use quoit_model::hash::Partition;
use quoit_model::layout::Layout;
use quoit_model::props::{BucketProps, BucketType};
use std::sync::Arc;

/// An outcome of a command. It needs no further checks and has the same effect on every node.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// Creates or replaces a bucket type.
    PutType {
        /// The type's name.
        name: Arc<[u8]>,
        /// The type's state and properties.
        bucket_type: BucketType,
    },
    /// Gives a bucket its own set of properties, which replaces an earlier one.
    PutBucket {
        /// The bucket's type.
        bucket_type: Arc<[u8]>,
        /// The bucket.
        bucket: Arc<[u8]>,
        /// The full set of properties.
        props: Arc<BucketProps>,
    },
    /// Removes a bucket's own properties, so that it has those of its type again.
    RemoveBucket {
        /// The bucket's type.
        bucket_type: Arc<[u8]>,
        /// The bucket.
        bucket: Arc<[u8]>,
    },
    /// Adds or replaces a member.
    PutMember(Arc<Member>),
    /// Removes a member.
    RemoveMember {
        /// The node.
        id: NodeId,
        /// True if the cluster refuses this node for ever.
        for_ever: bool,
    },
    /// Replaces the list of staged changes.
    Stage {
        /// All staged changes, in the order in which they were staged.
        staged: Vec<StagedChange>,
    },
    /// Adds a live layout, newer than the current ones.
    PutLayout {
        /// The layout.
        layout: Arc<Layout>,
        /// The `n_val`s of all buckets, ascending. The largest one decides how many first positions of a
        /// partition need complete copies.
        n_vals: Vec<u32>,
    },
    /// A node reports that its copies of partitions are complete.
    Copied {
        /// The node.
        node: NodeId,
        /// The partitions.
        partitions: Vec<Partition>,
    },
    /// A node reports that it has lost records that were durable. All its copies become incomplete.
    Lost {
        /// The node.
        node: NodeId,
        /// The `n_val`s of all buckets, ascending.
        n_vals: Vec<u32>,
    },
    /// An operator has acknowledged that some partitions may have lost records for good.
    AcceptLosses,
    /// Replaces the authority, the tokens and the list of members' certificates.
    PutTrust(Arc<Trust>),
    /// A member reports the layouts that it serves with.
    ServedLayouts {
        /// The node.
        node: NodeId,
        /// The layouts.
        served: MemberReport,
    },
    /// Creates, replaces or removes a rule of security.
    Rule(quoit_security::Change),
}

impl Change {
    /// Returns true if the change affects the properties of a bucket or a bucket type.
    pub(crate) const fn is_of_properties(&self) -> bool {
        matches!(self, Self::PutType { .. } | Self::PutBucket { .. } | Self::RemoveBucket { .. })
    }
}

/// Changes that are applied together or not at all: one entry of the log.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Decision {
    /// Revision of the state on which the node decided. If the state has another revision when the entry is
    /// applied, the entry has no effect and the node decides again. `None` if the changes are valid for every
    /// state.
    pub(crate) base: Option<u64>,
    /// The changes, in the order in which they are applied.
    pub(crate) changes: Vec<Change>,
}
