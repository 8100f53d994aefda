//! Everything the control plane knows, as one immutable value.

mod buckets;

use crate::command::Change;
use crate::control::decision::Decision;
use crate::control::file::Loaded;
use crate::layouts::Layouts;
use crate::members::Members;
use crate::{ClusterId, NodeId};
use buckets::Buckets;
use quoit_model::hash::RingSize;
use quoit_model::layout::Layout;
use quoit_model::props::BucketProps;
use std::sync::Arc;

pub use buckets::{Placements, TypeStatus};

/// What the control plane knows at one moment. Cloning it costs one reference count for each member,
/// for each bucket type and for each untyped bucket with properties of its own.
#[derive(Clone, Debug)]
pub struct State {
    node_id: NodeId,
    node_name: Arc<str>,
    cluster_id: ClusterId,
    version: u64,
    revision: u64,
    members: Members,
    layouts: Arc<Layouts>,
    ring_size: RingSize,
    buckets: Buckets,
}

impl State {
    /// The state of a node that knows nothing of its cluster yet.
    pub(crate) fn new(
        node_id: NodeId,
        node_name: Arc<str>,
        cluster_id: ClusterId,
        ring_size: RingSize,
        untyped_defaults: Arc<BucketProps>,
    ) -> Self {
        Self {
            node_id,
            cluster_id,
            version: 0,
            revision: 0,
            members: Members::default(),
            layouts: Arc::new(Layouts::new(Arc::new(Layout::single(node_id, ring_size)))),
            ring_size,
            node_name,
            buckets: Buckets::new(untyped_defaults),
        }
    }

    /// The state that a control file holds.
    pub(crate) fn loaded(mut empty: Self, loaded: &Loaded) -> Self {
        for change in &loaded.changes {
            empty.apply(change);
        }
        empty.set_version(loaded.version, loaded.revision);
        empty
    }

    /// The same node knowing nothing of a cluster.
    pub(crate) fn emptied(&self, cluster_id: ClusterId, ring_size: RingSize) -> Self {
        let (name, defaults) = (Arc::clone(&self.node_name), self.buckets.untyped_defaults());
        Self::new(self.node_id, name, cluster_id, ring_size, Arc::clone(defaults))
    }

    /// What the node is known by for ever.
    #[must_use]
    pub const fn node_id(&self) -> NodeId {
        self.node_id
    }

    /// The node's name, as clients and operators see it.
    #[must_use]
    pub fn node_name(&self) -> &str {
        &self.node_name
    }

    /// The cluster that the node belongs to.
    #[must_use]
    pub const fn cluster_id(&self) -> ClusterId {
        self.cluster_id
    }

    /// Number of changes that led here: the same on every node that has come equally far.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Number of decisions that led here. A decision holds on the revision that it was made on.
    pub(crate) const fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) const fn set_version(&mut self, version: u64, revision: u64) {
        self.version = version;
        self.revision = revision;
    }

    /// Who belongs to the cluster.
    #[must_use]
    pub const fn members(&self) -> &Members {
        &self.members
    }

    /// Number of partitions.
    #[must_use]
    pub const fn ring_size(&self) -> RingSize {
        self.ring_size
    }

    /// Which nodes hold which partition.
    #[must_use]
    pub const fn layouts(&self) -> &Arc<Layouts> {
        &self.layouts
    }

    /// This state after a change. Changes of buckets of types that do not exist are without effect.
    #[must_use]
    pub fn with(&self, change: &Change) -> Self {
        let mut next = self.clone();
        next.apply(change);
        next
    }

    /// This state after a decision; `None` when the decision was made on another state.
    pub(crate) fn decided(&self, decision: &Decision) -> Option<Self> {
        if decision.base.is_some_and(|base| base != self.revision) {
            return None;
        }
        let mut next = self.clone();
        for change in &decision.changes {
            next.apply(change);
        }
        next.version += 1;
        next.revision += u64::from(decision.base.is_some());
        Some(next)
    }

    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::PutType { name, bucket_type } => self.buckets.put_type(name, bucket_type),
            Change::PutBucket { bucket_type, bucket, props } => {
                self.buckets.put_bucket(bucket_type, bucket, props);
            }
            Change::RemoveBucket { bucket_type, bucket } => {
                self.buckets.remove_bucket(bucket_type, bucket);
            }
            Change::PutMember(member) => self.members.put(Arc::clone(member)),
        }
    }

    /// Changes that lead from nothing to this state, the same for equal states.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let mut changes = self.buckets.changes();
        changes.extend(self.members.iter().map(|member| Change::PutMember(Arc::clone(member))));
        changes
    }
}
