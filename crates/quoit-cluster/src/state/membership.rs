//! Decides on commands about members.

use super::State;
use crate::NodeId;
use crate::change::Change;
use crate::layouts::{LIVE_MAX, LIVE_REMOVED_MAX};
use crate::members::{Introduction, Member, MemberStatus};
use crate::membership_error::MembershipError;
use crate::plan_id::PlanId;
use crate::staged::StagedChange;
use quoit_model::key::BucketRef;
use quoit_model::layout::{CAPACITY_MAX, LOCATION_BYTES_MAX};
use quoit_model::props::{BucketProps, BucketType, TypeState};
use quoit_planted::planted;
use quoit_wire::internode::VersionRange;
use std::sync::Arc;

/// A request of a node or an operator about members.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum MembershipCommand<'a> {
    /// Admits a node that ran alone. `brought` are the bucket types and buckets that it has.
    Join { member: &'a Arc<Member>, ring_size: u16, brought: &'a [Change] },
    /// A member reports the facts about itself.
    Introduce { id: NodeId, told: &'a Introduction },
    /// Another member has found that a member speaks these versions of the protocol.
    Speaks { id: NodeId, versions: VersionRange },
    /// Stages a change.
    Stage(&'a StagedChange),
    /// Drops all staged changes.
    Clear,
    /// Commits all staged changes, provided that they lead to the plan with this id.
    Commit(PlanId),
    /// Marks a member as down.
    Down(NodeId),
    /// Removes the mark of a member that is back.
    Up(NodeId),
    /// Removes an exiting member that has handed over all its records.
    RemoveDrained(NodeId),
}

impl State {
    pub(crate) fn decide_membership(
        &self,
        command: MembershipCommand<'_>,
    ) -> Result<Vec<Change>, MembershipError> {
        match command {
            MembershipCommand::Join { member, ring_size, brought } => {
                self.decide_join(member, ring_size, brought)
            }
            MembershipCommand::Introduce { id, told } => self.decide_introduction(id, told),
            MembershipCommand::Speaks { id, versions } => {
                let told = self.member(id)?.introduction();
                self.decide_introduction(id, &Introduction { versions, ..told })
            }
            MembershipCommand::Stage(change) => {
                self.check_stage(change)?;
                let mut staged = self.staged().to_vec();
                staged.push(change.clone());
                Ok(vec![Change::Stage { staged }])
            }
            MembershipCommand::Clear => Ok(self.decide_clear()),
            MembershipCommand::Commit(id) => self.decide_commit(id),
            MembershipCommand::Down(node) => self.decide_down(node),
            MembershipCommand::Up(node) => {
                let down = self.members().get(node).filter(|member| member.is_down).into_iter();
                Ok(down.map(|member| Change::PutMember(member.marked(false))).collect())
            }
            MembershipCommand::RemoveDrained(node) => {
                let member = self.members().get(node);
                let is_exiting = |member: &&Arc<Member>| member.status == MemberStatus::Exiting;
                let gone = member.filter(is_exiting).into_iter();
                Ok(gone.map(|_| Change::RemoveMember { id: node, for_ever: true }).collect())
            }
        }
    }

    fn member(&self, id: NodeId) -> Result<&Arc<Member>, MembershipError> {
        let name = || self.members().name_of(id).to_string();
        self.members().get(id).ok_or_else(|| MembershipError::NotAMember { name: name() })
    }

    fn decide_down(&self, node: NodeId) -> Result<Vec<Change>, MembershipError> {
        let member = self.member(node)?;
        if member.is_down {
            return Ok(Vec::new());
        }
        if !member.stays() && planted!(RefusesMarks) {
            let (name, status) = (member.name.to_string(), member.status);
            return Err(MembershipError::Status { name, status });
        }
        Ok(vec![Change::PutMember(member.marked(true))])
    }

    fn decide_join(
        &self,
        joiner: &Arc<Member>,
        ring_size: u16,
        brought: &[Change],
    ) -> Result<Vec<Change>, MembershipError> {
        let theirs = self.ring_size().get();
        if ring_size != theirs {
            return Err(MembershipError::RingSize { own: ring_size, theirs });
        }
        if self.members().is_removed(joiner.id) {
            return Err(MembershipError::Removed { id: joiner.id });
        }
        if let Some(known) = self.members().get(joiner.id) {
            // The node asks again because it did not get the answer, perhaps from another address.
            if known.status != MemberStatus::Joining {
                let name = joiner.name.to_string();
                return Err(MembershipError::AlreadyMember { name });
            }
            let mut changes = self.take_over(brought)?;
            changes.extend(self.decide_introduction(joiner.id, &joiner.introduction())?);
            return Ok(changes);
        }
        self.check_name(joiner.id, &joiner.name)?;
        self.check_speaks(&joiner.name, joiner.versions)?;
        let mut changes = self.take_over(brought)?;
        changes.push(put(joiner, MemberStatus::Joining));
        let mut staged = self.staged().to_vec();
        staged.push(StagedChange::Join { node: joiner.id });
        changes.push(Change::Stage { staged });
        Ok(changes)
    }

    fn check_name(&self, id: NodeId, name: &str) -> Result<(), MembershipError> {
        match self.members().named(name) {
            Some(other) if other.id != id => {
                Err(MembershipError::NameInUse { name: name.to_owned(), id: other.id })
            }
            _ => Ok(()),
        }
    }

    /// Returns the changes that add the joining node's bucket types and buckets that the cluster does not
    /// have. Refuses those that the cluster has with other properties.
    fn take_over(&self, brought: &[Change]) -> Result<Vec<Change>, MembershipError> {
        let mut changes = Vec::new();
        for change in brought {
            match change {
                Change::PutType { name, bucket_type } => match self.bucket_type(name) {
                    None => {
                        self.check_brought(name, bucket_type)?;
                        changes.push(change.clone());
                    }
                    Some(known) => {
                        if let Some(differing) = difference(&known.props, &bucket_type.props) {
                            let name = String::from_utf8_lossy(name).into_owned();
                            return Err(MembershipError::TypeContradicts { name, differing });
                        }
                        if bucket_type.state == TypeState::Active
                            && known.state != TypeState::Active
                        {
                            self.check_brought(name, bucket_type)?;
                            changes.push(change.clone());
                        }
                    }
                },
                Change::PutBucket { bucket_type, bucket, props } => {
                    let named = BucketRef { bucket_type, bucket };
                    match self.own_props(named) {
                        None => {
                            let usual = BucketProps::untyped();
                            self.check_members_keep(bucket, &usual, props)?;
                            changes.push(change.clone());
                        }
                        Some(known) => {
                            if let Some(differing) = difference(known, props) {
                                return Err(bucket_contradicts(named, differing));
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(changes)
    }

    fn check_brought(&self, name: &[u8], brought: &BucketType) -> Result<(), MembershipError> {
        match brought.state {
            TypeState::Active => Ok(self.check_members_speak(name, &brought.props)?),
            _ => Ok(()),
        }
    }

    fn decide_introduction(
        &self,
        id: NodeId,
        told: &Introduction,
    ) -> Result<Vec<Change>, MembershipError> {
        let member = self.member(id)?;
        if member.introduction() == *told {
            return Ok(Vec::new());
        }
        self.check_name(id, &told.name)?;
        self.check_speaks(&told.name, told.versions)?;
        Ok(vec![Change::PutMember(member.introduced_as(told))])
    }

    fn check_stage(&self, change: &StagedChange) -> Result<(), MembershipError> {
        let member = self.member(change.node())?;
        let name = || member.name.to_string();
        match change {
            StagedChange::Location { location: Some(location), .. }
                if location.len() > LOCATION_BYTES_MAX =>
            {
                return Err(MembershipError::Location { size_bytes: location.len() });
            }
            StagedChange::Capacity { capacity, .. } if !(1..=CAPACITY_MAX).contains(capacity) => {
                return Err(MembershipError::Capacity { capacity: *capacity });
            }
            _ => {}
        }
        if !change.concerns_membership() {
            return match member.status {
                MemberStatus::Leaving | MemberStatus::Exiting => Err(status_error(member)),
                MemberStatus::Joining | MemberStatus::Valid => Ok(()),
            };
        }
        self.check_unstaged(change.node())?;
        let hands_over =
            matches!(change, StagedChange::Leave { .. } | StagedChange::Replace { .. });
        match member.status {
            MemberStatus::Valid => {}
            // A joining, leaving or exiting member that will not finish can be removed by force.
            _ if !hands_over => {}
            _ => return Err(status_error(member)),
        }
        let Some(new) = change.newcomer() else {
            let others = self.members().iter().filter(|other| other.id != member.id);
            return match others
                .filter(|other| other.stays() || self.is_staged_join(other.id))
                .count()
            {
                0 => Err(MembershipError::OnlyMember { name: name() }),
                _ => Ok(()),
            };
        };
        let newcomer = self.member(new)?;
        if new == change.node() {
            return Err(MembershipError::SameNode { name: name() });
        }
        if newcomer.status != MemberStatus::Joining {
            let name = newcomer.name.to_string();
            return Err(MembershipError::HoldsPartitions { name });
        }
        match self.staged().iter().find(|staged| staged.newcomer() == Some(new)) {
            Some(staged) => Err(self.already_staged(new, staged)),
            None => Ok(()),
        }
    }

    fn is_staged_join(&self, node: NodeId) -> bool {
        self.staged().contains(&StagedChange::Join { node })
    }

    fn check_unstaged(&self, node: NodeId) -> Result<(), MembershipError> {
        let concerns = |staged: &&StagedChange| {
            staged.concerns_membership()
                && (staged.node() == node || staged.newcomer() == Some(node))
        };
        match self.staged().iter().find(concerns) {
            Some(staged) => Err(self.already_staged(node, staged)),
            None => Ok(()),
        }
    }

    fn already_staged(&self, node: NodeId, staged: &StagedChange) -> MembershipError {
        let name = self.members().name_of(node).to_string();
        MembershipError::AlreadyStaged { name, action: staged.action() }
    }

    /// Drops all staged changes. Nodes whose join was staged are removed, but not for ever: they run alone
    /// again.
    fn decide_clear(&self) -> Vec<Change> {
        if self.staged().is_empty() {
            return Vec::new();
        }
        let joins = self.staged().iter().filter_map(|change| match change {
            StagedChange::Join { node } => {
                Some(Change::RemoveMember { id: *node, for_ever: false })
            }
            _ => None,
        });
        joins.chain([Change::Stage { staged: Vec::new() }]).collect()
    }

    fn decide_commit(&self, id: PlanId) -> Result<Vec<Change>, MembershipError> {
        let plan = self.plan()?;
        if plan.id != id {
            return Err(MembershipError::PlanChanged);
        }
        let count = self.layouts().live().len();
        // A forced removal may exceed the usual limit, because the other layouts may wait for the very
        // member that it removes.
        let bound = if plan.lost.is_empty() { LIVE_MAX } else { LIVE_REMOVED_MAX };
        if count >= bound {
            return Err(MembershipError::TooManyLayouts { count });
        }
        Ok(plan.changes)
    }
}

fn put(member: &Member, status: MemberStatus) -> Change {
    Change::PutMember(member.with_status(status))
}

fn status_error(member: &Member) -> MembershipError {
    MembershipError::Status { name: member.name.to_string(), status: member.status }
}

fn bucket_contradicts(bucket: BucketRef<'_>, differing: String) -> MembershipError {
    let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let (bucket_type, bucket) = (shown(bucket.bucket_type), shown(bucket.bucket));
    MembershipError::BucketContradicts { bucket_type, bucket, differing }
}

/// Returns the names of the properties that differ; `None` if all are equal.
fn difference(one: &BucketProps, other: &BucketProps) -> Option<String> {
    let (one, other) = (one.to_json(), other.to_json());
    let mut names: Vec<_> = one.keys().chain(other.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| one.get(*name) != other.get(*name));
    let names: Vec<_> = names.into_iter().map(String::as_str).collect();
    (!names.is_empty()).then(|| names.join(", "))
}
