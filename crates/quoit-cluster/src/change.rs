//! Changes of the control plane's state, and the decisions that make them.

use crate::NodeId;
use crate::layouts::Served;
use crate::members::Member;
use crate::staged::StagedChange;
use crate::trust::Trust;
use quoit_model::hash::Partition;
use quoit_model::layout::Layout;
use quoit_model::props::{BucketProps, BucketType};
use std::sync::Arc;

/// Outcome of a command, which needs no more checks and is the same on every node.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// The bucket type is this from now on.
    PutType {
        /// The type's name.
        name: Arc<[u8]>,
        /// State and properties.
        bucket_type: BucketType,
    },
    /// The bucket has these properties of its own from now on.
    PutBucket {
        /// The bucket's type.
        bucket_type: Arc<[u8]>,
        /// The bucket.
        bucket: Arc<[u8]>,
        /// The full set.
        props: Arc<BucketProps>,
    },
    /// The bucket has no properties of its own any more.
    RemoveBucket {
        /// The bucket's type.
        bucket_type: Arc<[u8]>,
        /// The bucket.
        bucket: Arc<[u8]>,
    },
    /// The member is this from now on.
    PutMember(Arc<Member>),
    /// The node is no member any more.
    RemoveMember {
        /// The node.
        id: NodeId,
        /// Whether it may never come back.
        for_ever: bool,
    },
    /// These changes of membership wait for a commit, and no others.
    Stage {
        /// The changes, as they were staged.
        staged: Vec<StagedChange>,
    },
    /// A layout is live from now on, beside those before it.
    PutLayout {
        /// The layout.
        layout: Arc<Layout>,
        /// The `n_val`s of all buckets, ascending. As many copies as the largest says have to be
        /// complete.
        n_vals: Vec<u32>,
    },
    /// A node has complete copies of partitions.
    Copied {
        /// The node.
        node: NodeId,
        /// The partitions.
        partitions: Vec<Partition>,
    },
    /// A node has lost records that were durable: none of its copies is complete any more.
    Lost {
        /// The node.
        node: NodeId,
        /// The `n_val`s of all buckets, ascending.
        n_vals: Vec<u32>,
    },
    /// An operator has taken note that some partitions may have lost records for good.
    AcceptLosses,
    /// Members hold each other's certificates against this from now on.
    PutTrust(Arc<Trust>),
    /// A node serves with these layouts.
    Serves {
        /// The node.
        node: NodeId,
        /// The layouts.
        served: Served,
    },
    /// A rule of security is this from now on.
    Rule(quoit_security::Change),
}

impl Change {
    /// Whether it changes what properties a bucket or a bucket type has.
    pub(crate) const fn is_of_properties(&self) -> bool {
        matches!(self, Self::PutType { .. } | Self::PutBucket { .. } | Self::RemoveBucket { .. })
    }
}

/// Changes that are made together or not at all.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Decision {
    /// Revision of the state that the decision was made on. On another one it has no effect and is to be
    /// made again. `None`: the changes hold on every state.
    pub(crate) base: Option<u64>,
    /// The changes, in order.
    pub(crate) changes: Vec<Change>,
}
