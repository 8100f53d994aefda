//! Plans of staged changes.

use crate::NodeId;
use crate::change::Change;
use crate::members::{Member, MemberStatus};
use crate::membership_error::MembershipError;
use crate::plan_id::PlanId;
use crate::staged::StagedChange;
use crate::state::State;
use quoit_model::layout::{Layout, LayoutRequest, LayoutWarning, Movement, Replacement};
use quoit_number::length_u32;
use std::collections::BTreeMap;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// A member before and after a plan.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedMember {
    /// The member as it will be.
    pub member: Arc<Member>,
    /// Its share of the ring now, in percent.
    pub percent_now: f64,
    /// Its share of the ring afterwards, in percent.
    pub percent_then: f64,
}

/// Copies of partitions that one node gets from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlannedTransfer {
    /// The node that has them.
    pub from: NodeId,
    /// The node that gets them.
    pub to: NodeId,
    /// Number of partitions.
    pub partition_count: u32,
    /// True if the source stays until the copies have moved; false if it is removed by force.
    pub has_source: bool,
}

/// Effects of a commit of the staged changes.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Identity of the plan, for the commit.
    pub id: PlanId,
    /// The staged changes, in the order in which they were staged.
    pub staged: Vec<StagedChange>,
    /// All members as they will be, without those that are removed by force.
    pub members: Vec<PlannedMember>,
    /// Nodes that are removed without handing over their data. All replicas on them are lost.
    pub lost: Vec<NodeId>,
    /// Copies that move between pairs of nodes, for buckets with the largest `n_val`.
    pub transfers: Vec<PlannedTransfer>,
    /// Number of partitions that get other primaries.
    pub partition_count: u32,
    /// Goals that the layout misses.
    pub warnings: Vec<LayoutWarning>,
    /// The layout afterwards.
    pub layout: Arc<Layout>,
    /// Changes that the cluster agrees on with the commit.
    pub(crate) changes: Vec<Change>,
}

/// Members, removals and replacements that result from the staged changes.
struct PlanOutcome {
    members: BTreeMap<NodeId, Arc<Member>>,
    removed: Vec<NodeId>,
    replacements: Vec<Replacement>,
}

impl PlanOutcome {
    fn of(state: &State) -> Self {
        let members = state.members().iter();
        let members = members.map(|member| (member.id, Arc::clone(member))).collect();
        let mut outcome = Self { members, removed: Vec::new(), replacements: Vec::new() };
        for change in state.staged() {
            outcome.make(change);
        }
        outcome
    }

    fn set(&mut self, node: NodeId, change: impl FnOnce(&mut Member)) {
        if let Some(member) = self.members.get_mut(&node) {
            change(Arc::make_mut(member));
        }
    }

    fn remove(&mut self, node: NodeId) {
        self.members.remove(&node);
        self.removed.push(node);
    }

    fn make(&mut self, change: &StagedChange) {
        match change {
            StagedChange::Join { node } => {
                self.set(*node, |member| member.status = MemberStatus::Valid);
            }
            StagedChange::Leave { node } => {
                self.set(*node, |member| member.status = MemberStatus::Leaving);
            }
            StagedChange::ForceRemove { node } => self.remove(*node),
            StagedChange::Replace { old, new } => {
                self.replacements.push(Replacement { old: *old, new: *new });
                self.set(*old, |member| member.status = MemberStatus::Leaving);
            }
            StagedChange::ForceReplace { old, new } => {
                self.replacements.push(Replacement { old: *old, new: *new });
                self.remove(*old);
            }
            StagedChange::Location { node, location } => {
                self.set(*node, |member| member.location.clone_from(location));
            }
            StagedChange::Capacity { node, capacity } => {
                self.set(*node, |member| member.capacity = *capacity);
            }
        }
    }

    /// Computes the layout of the members that hold data.
    fn layout(&self, previous: &Layout) -> Result<Layout, MembershipError> {
        let holding = self.members.values().filter(|member| member.stays());
        let members: Vec<_> = holding.map(|member| member.for_layout()).collect();
        let held = |replacement: &&Replacement| previous.node_index(replacement.old).is_some();
        let replacements: Vec<_> = self.replacements.iter().filter(held).copied().collect();
        let request = LayoutRequest {
            replacements: &replacements,
            ..LayoutRequest::after(previous, &members)
        };
        Ok(Layout::compute(&request)?)
    }
}

impl State {
    /// Returns the plan of the staged changes. It is the same on every node with the same state.
    ///
    /// # Errors
    ///
    /// [`MembershipError`] if nothing is staged, or if no layout is possible with the members that would
    /// remain.
    pub fn plan(&self) -> Result<Plan, MembershipError> {
        if self.staged().is_empty() {
            return Err(MembershipError::NothingStaged);
        }
        let outcome = PlanOutcome::of(self);
        let now = self.layouts().newest();
        let then = outcome.layout(now)?;
        // A layout that changes nothing needs no new version.
        let same = now.members() == then.members()
            && now.partitions().all(|partition| now.order(partition) == then.order(partition));
        let layout = if same { Arc::clone(now) } else { Arc::new(then) };
        debug_assert!(
            layout.nodes().iter().all(|node| outcome.members.contains_key(node)),
            "a planned layout has only nodes that stay members"
        );
        let n_vals = self.n_vals();
        debug_assert!(n_vals.is_sorted(), "the numbers of replicas are in order");
        let n_val_max = n_vals.last().copied().unwrap_or(1);
        let movement = Movement::between(now, &layout, n_val_max);
        let transfers = movement.by_pair().into_iter();
        let transfers = transfers.map(|((from, to), partition_count)| PlannedTransfer {
            from,
            to,
            partition_count,
            has_source: !outcome.removed.contains(&from),
        });
        let mut changes = self.membership_changes(&outcome);
        if !same {
            changes.push(Change::PutLayout { layout: Arc::clone(&layout), n_vals });
        }
        changes.push(Change::Stage { staged: Vec::new() });
        // Different staged changes may lead to the same layout, so the identity covers both.
        let mut name = layout.encode();
        for change in self.staged() {
            name.extend(format!("{change:?}").bytes());
        }
        Ok(Plan {
            id: PlanId(xxh3_64(&name)),
            staged: self.staged().to_vec(),
            members: planned_members(now, &layout, &outcome),
            transfers: transfers.collect(),
            partition_count: length_u32(movement.partition_count()),
            warnings: layout.warnings(),
            lost: outcome.removed,
            layout,
            changes,
        })
    }

    fn membership_changes(&self, outcome: &PlanOutcome) -> Vec<Change> {
        let changed = |member: &&Arc<Member>| self.members().get(member.id) != Some(*member);
        let members = outcome.members.values().filter(changed);
        let mut changes: Vec<_> =
            members.map(|member| Change::PutMember(Arc::clone(member))).collect();
        let removed = outcome.removed.iter();
        changes.extend(removed.map(|id| Change::RemoveMember { id: *id, for_ever: true }));
        changes
    }
}

fn planned_members(now: &Layout, then: &Layout, outcome: &PlanOutcome) -> Vec<PlannedMember> {
    let percents = |layout: &Layout| -> BTreeMap<NodeId, f64> {
        layout.shares().into_iter().map(|share| (share.node, share.percent)).collect()
    };
    let (now, then) = (percents(now), percents(then));
    let percent = |of: &BTreeMap<NodeId, f64>, id| of.get(&id).copied().unwrap_or_default();
    let planned = |member: &Arc<Member>| PlannedMember {
        member: Arc::clone(member),
        percent_now: percent(&now, member.id),
        percent_then: percent(&then, member.id),
    };
    outcome.members.values().map(planned).collect()
}
