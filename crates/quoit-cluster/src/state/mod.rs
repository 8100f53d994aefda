//! The state of the control plane, as one immutable value.

mod buckets;
pub(crate) mod cluster_codec;
mod decide;
mod membership;
mod raises;
mod trust;
mod versions;

use crate::change::{Change, Decision};
use crate::layouts::{Layouts, MemberReport};
use crate::members::{Member, MemberStatus, Members};
use crate::outdated::PropertyNeed;
use crate::staged::StagedChange;
use crate::trust::Trust;
use crate::{ClusterId, NodeId};
use buckets::Buckets;
use cluster_codec::{Cluster, encode_cluster};
use quoit_model::hash::RingSize;
use quoit_model::key::BucketRef;
use quoit_model::layout::Layout;
use quoit_model::props::BucketProps;
use quoit_planted::planted;
use quoit_security::Security;
use quoit_wire::internode::control::ClusterMessage;
use std::sync::Arc;

pub use buckets::{ChosenBackend, Placements, PropsEntry, TypeStatus};
pub(crate) use membership::MembershipCommand;
pub use raises::{NValRaise, RaiseReport};

/// Content of a control file or a snapshot, as read.
pub(crate) struct StoredState {
    pub(crate) cluster_id: ClusterId,
    pub(crate) ring_size: RingSize,
    pub(crate) version: u64,
    pub(crate) revision: u64,
    /// Bucket types and then their buckets, members, rules of security.
    pub(crate) changes: Vec<Change>,
    pub(crate) cluster: Cluster,
}

/// State of the control plane at one moment. Cloning it costs one reference count for each member, for
/// each bucket type and for each untyped bucket with properties of its own.
#[derive(Clone, Debug)]
pub struct State {
    node_id: NodeId,
    node_name: Arc<str>,
    cluster_id: ClusterId,
    version: u64,
    revision: u64,
    replicas_lowered_at: u64,
    props_changed_at: u64,
    /// Buckets whose `n_val` was raised and whose added replicas are not filled yet.
    raises: Arc<Vec<NValRaise>>,
    /// The authority of the cluster, the tokens for joining nodes, and the certificates that members hold.
    trust: Arc<Trust>,
    members: Members,
    /// Staged changes, in order.
    staged: Arc<Vec<StagedChange>>,
    layouts: Arc<Layouts>,
    ring_size: RingSize,
    buckets: Buckets,
    security: Arc<Security>,
    property_needs: &'static [PropertyNeed],
}

impl State {
    /// Creates the state of a node that knows nothing of its cluster yet.
    pub(crate) fn new(
        node_id: NodeId,
        node_name: Arc<str>,
        cluster_id: ClusterId,
        ring_size: RingSize,
        untyped_defaults: Arc<BucketProps>,
        property_needs: &'static [PropertyNeed],
    ) -> Self {
        Self {
            node_id,
            cluster_id,
            version: 0,
            revision: 0,
            replicas_lowered_at: 0,
            props_changed_at: 0,
            raises: Arc::default(),
            trust: Arc::default(),
            members: Members::default(),
            staged: Arc::default(),
            layouts: Arc::new(Layouts::new(Arc::new(Layout::single(node_id, ring_size)))),
            ring_size,
            node_name,
            buckets: Buckets::new(untyped_defaults),
            security: Arc::default(),
            property_needs,
        }
    }

    /// Creates the state that a control file or a snapshot holds, for the node with the state `own`.
    pub(crate) fn restored(own: &Self, whole: StoredState) -> Self {
        let mut state = own.emptied(whole.cluster_id, whole.ring_size);
        for change in &whole.changes {
            state.apply(change);
        }
        // Applying the changes has recorded raises, but the stored raises below already include the open
        // ones.
        _ = state.buckets.take_raised();
        state.raises = Arc::new(whole.cluster.raises);
        state.trust = Arc::new(whole.cluster.trust);
        for (id, name) in whole.cluster.removed {
            state.members.note_removed(id, name);
        }
        state.staged = Arc::new(whole.cluster.staged);
        if let Some(layouts) = whole.cluster.layouts {
            state.layouts = Arc::new(layouts);
        }
        let layouts = Arc::unwrap_or_clone(state.layouts);
        state.layouts = Arc::new(layouts.with_lost(whole.cluster.lost));
        state.version = whole.version;
        // The earlier values are not known, so callers must assume a change.
        state.replicas_lowered_at = whole.version;
        state.props_changed_at = whole.version;
        state.revision = whole.revision;
        state
    }

    /// Returns the state of the same node knowing nothing of a cluster.
    pub(crate) fn emptied(&self, cluster_id: ClusterId, ring_size: RingSize) -> Self {
        let (name, defaults) = (Arc::clone(&self.node_name), self.buckets.untyped_defaults());
        let (defaults, needs) = (Arc::clone(defaults), self.property_needs);
        Self::new(self.node_id, name, cluster_id, ring_size, defaults, needs)
    }

    /// Returns the node's permanent identity.
    #[must_use]
    pub const fn node_id(&self) -> NodeId {
        self.node_id
    }

    /// Returns the node's name, as clients and operators see it.
    #[must_use]
    pub fn node_name(&self) -> &str {
        &self.node_name
    }

    /// Returns the identity of the cluster that the node belongs to.
    #[must_use]
    pub const fn cluster_id(&self) -> ClusterId {
        self.cluster_id
    }

    /// Returns the version of the state: the number of applied decisions. It is the same on every node
    /// that has applied the same part of the log.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Returns the version in which the `n_val` of a bucket was last lowered. After reading a control file
    /// or a snapshot it is the version that was read, because earlier changes are not known.
    #[must_use]
    pub const fn replicas_lowered_at(&self) -> u64 {
        self.replicas_lowered_at
    }

    /// Returns the version in which properties of a bucket or a bucket type last changed. After reading a
    /// control file or a snapshot it is the version that was read, because earlier changes are not known.
    #[must_use]
    pub const fn props_changed_at(&self) -> u64 {
        self.props_changed_at
    }

    /// Returns the number of applied decisions that depend on the state. Such a decision takes effect only
    /// if the state still has the revision on which it was made.
    pub(crate) const fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the members of the cluster.
    #[must_use]
    pub const fn members(&self) -> &Members {
        &self.members
    }

    /// Returns the staged changes, in the order in which they were staged.
    #[must_use]
    pub fn staged(&self) -> &[StagedChange] {
        &self.staged
    }

    /// Returns the authority of the cluster, the tokens for joining nodes, and the
    /// certificates that members hold.
    #[must_use]
    pub const fn trust(&self) -> &Arc<Trust> {
        &self.trust
    }

    /// Returns the number of partitions.
    #[must_use]
    pub const fn ring_size(&self) -> RingSize {
        self.ring_size
    }

    /// Returns the users, groups, sources and grants.
    #[must_use]
    pub const fn security(&self) -> &Arc<Security> {
        &self.security
    }

    /// Returns the live layouts, and which copies of partitions are complete.
    #[must_use]
    pub const fn layouts(&self) -> &Arc<Layouts> {
        &self.layouts
    }

    /// Returns this state with a change applied. A change of a bucket has no effect if its type does not
    /// exist.
    #[must_use]
    pub fn with(&self, change: &Change) -> Self {
        let mut next = self.clone();
        next.apply(change);
        next
    }

    /// Returns this state with a decision applied; `None` if the decision was made on another revision.
    pub(crate) fn decided(&self, decision: &Decision) -> Option<Self> {
        if decision.base.is_some_and(|base| base != self.revision) && !planted!(AppliesOutdated) {
            return None;
        }
        let mut next = self.clone();
        for change in &decision.changes {
            next.apply(change);
        }
        next.settle();
        next.version += 1;
        let raised = next.buckets.take_raised();
        next.note_raises(raised);
        next.settle_raises();
        if next.buckets.lowering_count() != self.buckets.lowering_count() {
            next.replicas_lowered_at = next.version;
        }
        if decision.changes.iter().any(Change::is_of_properties) {
            next.props_changed_at = next.version;
        }
        next.revision += u64::from(decision.base.is_some());
        debug_assert!(
            next.has_layout_of_members()
                || !self.has_layout_of_members()
                || planted!(AppliesOutdated),
            "a member that the newest layout has is not removed"
        );
        Some(next)
    }

    /// Returns true if all nodes of the newest layout are members.
    fn has_layout_of_members(&self) -> bool {
        let mut nodes = self.layouts.newest().nodes().iter();
        nodes.all(|node| self.members.get(*node).is_some())
    }

    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::PutType { name, bucket_type } => self.buckets.put_type(name, bucket_type),
            Change::PutBucket { bucket_type, bucket, props } => {
                self.buckets.put_bucket(bucket_type, bucket, props);
            }
            Change::RemoveBucket { bucket_type, bucket } => {
                self.buckets.remove_bucket(BucketRef { bucket_type, bucket });
            }
            Change::PutMember(member) => self.members.put(Arc::clone(member)),
            Change::RemoveMember { id, for_ever } => {
                self.members.remove(*id, *for_ever);
                Arc::make_mut(&mut self.layouts).forget(*id);
            }
            Change::Stage { staged } => self.staged = Arc::new(staged.clone()),
            Change::PutLayout { layout, n_vals } => {
                Arc::make_mut(&mut self.layouts).push(Arc::clone(layout), n_vals);
            }
            Change::Copied { node, partitions } => {
                Arc::make_mut(&mut self.layouts).complete(*node, partitions);
            }
            Change::Lost { node, n_vals } => Arc::make_mut(&mut self.layouts).lose(*node, n_vals),
            Change::PutTrust(trust) => self.trust = Arc::clone(trust),
            Change::AcceptLosses => Arc::make_mut(&mut self.layouts).accept_losses(),
            Change::ServedLayouts { node, served } => {
                Arc::make_mut(&mut self.layouts).acknowledge(*node, *served);
            }
            Change::Rule(rule) => Arc::make_mut(&mut self.security).apply(rule),
        }
    }

    /// Returns true if a member has not yet reported that it serves with the layouts of this state. False
    /// while only one layout is live.
    #[must_use]
    pub fn is_behind(&self, member: NodeId) -> bool {
        let known = self.layouts.served(member);
        self.layouts.is_moving() && known.is_none_or(|known| !known.includes(self.serves()))
    }

    /// Returns the layouts that a node serves with if it follows this state.
    pub(crate) fn serves(&self) -> MemberReport {
        let (writes, reads) = (self.layouts.newest().version(), self.layouts.oldest_read());
        MemberReport { writes, reads, ..MemberReport::default() }
    }

    /// Returns the bucket properties that nodes of older versions would misunderstand.
    pub(crate) const fn property_needs(&self) -> &'static [PropertyNeed] {
        self.property_needs
    }

    /// Makes the changes that follow from others without a decision: layouts that are no longer needed
    /// retire, and leaving members that no live layout has any more become exiting.
    fn settle(&mut self) {
        if self.layouts.is_moving() {
            let present = self.members.iter().filter(|member| !member.is_down);
            let present: Vec<_> = present.map(|member| member.id).collect();
            Arc::make_mut(&mut self.layouts).retire(&present);
        }
        let holds_nothing = |member: &&Arc<Member>| {
            let live = self.layouts.live();
            member.status == MemberStatus::Leaving
                && live.iter().all(|layout| layout.node_index(member.id).is_none())
        };
        let done: Vec<_> = self.members.iter().filter(holds_nothing).map(Arc::clone).collect();
        for member in done {
            self.members.put(member.with_status(MemberStatus::Exiting));
        }
    }

    /// Returns the changes that create all bucket types and buckets.
    pub(crate) fn bucket_changes(&self) -> Vec<Change> {
        self.buckets.changes()
    }

    /// Encodes the part of the state that is neither in [`State::changes`] nor in the encoded layouts.
    pub(crate) fn cluster_message(&self) -> ClusterMessage {
        let (staged, layouts, raises) = (&self.staged, &self.layouts, &self.raises);
        encode_cluster(self.members.removed(), staged, layouts, raises, &self.trust)
    }

    /// Returns true if a later state has the same layouts, raises, staged changes, trust and removed
    /// nodes.
    pub(crate) fn same_cluster(&self, later: &Self) -> bool {
        Arc::ptr_eq(&self.layouts, &later.layouts)
            && Arc::ptr_eq(&self.raises, &later.raises)
            && Arc::ptr_eq(&self.staged, &later.staged)
            && Arc::ptr_eq(&self.trust, &later.trust)
            && self.members.same_removed(&later.members)
    }

    /// Returns the changes that create all bucket types, buckets, members and rules of security. They are
    /// the same for equal states.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let mut changes = self.buckets.changes();
        changes.extend(self.members.iter().map(|member| Change::PutMember(Arc::clone(member))));
        changes.extend(self.security.changes().into_iter().map(Change::Rule));
        changes
    }
}
