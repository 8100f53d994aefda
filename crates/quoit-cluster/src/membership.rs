//! Operations on the members of a cluster.

use crate::NodeId;
use crate::change::Change;
use crate::error::ChangeError;
use crate::layouts::MemberReport;
use crate::membership_error::MembershipError;
use crate::plan::Plan;
use crate::plan_id::PlanId;
use crate::plane::ControlPlane;
use crate::staged::StagedChange;
use crate::state::{MembershipCommand, RaiseReport};
use quoit_model::hash::Partition;

impl ControlPlane {
    /// Returns the member with a name.
    ///
    /// # Errors
    ///
    /// [`MembershipError::NotAMember`] if there is none.
    pub fn member_named(&self, name: &str) -> Result<NodeId, MembershipError> {
        match self.read().members().named(name) {
            Some(member) => Ok(member.id),
            None => Err(MembershipError::NotAMember { name: name.to_owned() }),
        }
    }

    /// Stages a change. It takes effect with a commit.
    ///
    /// # Errors
    ///
    /// [`MembershipError`] if the change is not possible, and as [`ControlPlane::run`].
    pub async fn stage(&self, change: &StagedChange) -> Result<(), ChangeError> {
        self.run_membership(MembershipCommand::Stage(change)).await
    }

    /// Drops all staged changes. Nodes whose join was staged run alone again.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn clear_staged(&self) -> Result<(), ChangeError> {
        self.run_membership(MembershipCommand::Clear).await
    }

    /// Returns the plan of the staged changes, and remembers it for a later commit on this node.
    ///
    /// # Errors
    ///
    /// [`MembershipError`] if nothing is staged, or there is no layout with the staged changes.
    pub fn plan(&self) -> Result<Plan, MembershipError> {
        let plan = self.read().plan()?;
        *self.shown_plan().lock() = Some(plan.id);
        Ok(plan)
    }

    /// Commits all staged changes, provided that they still lead to the plan that was shown: `shown`, or
    /// the last plan that was shown on this node. Partitions start to move.
    ///
    /// # Errors
    ///
    /// [`MembershipError`] if no plan was shown, if the plan has changed since, or if a joining node is
    /// not reachable; and as [`ControlPlane::run`].
    pub async fn commit_staged(&self, shown: Option<PlanId>) -> Result<(), ChangeError> {
        let shown = shown.or(*self.shown_plan().lock()).ok_or(MembershipError::NotPlanned)?;
        self.check_joining_are_up()?;
        self.run_membership(MembershipCommand::Commit(shown)).await?;
        *self.shown_plan().lock() = None;
        Ok(())
    }

    fn check_joining_are_up(&self) -> Result<(), MembershipError> {
        let state = self.read();
        for change in state.staged() {
            if let StagedChange::Join { node } = change
                && !self.is_reachable(*node)
            {
                let name = state.members().name_of(*node).to_string();
                return Err(MembershipError::NotUp { name });
            }
        }
        Ok(())
    }

    /// Returns true if this node is connected to another one and considers it up. True for the node
    /// itself.
    #[must_use]
    pub fn is_reachable(&self, node: NodeId) -> bool {
        if node == self.read().node_id() {
            return true;
        }
        let peer = self.link().internode().and_then(|internode| internode.peer(node));
        peer.is_some_and(|peer| peer.is_up())
    }

    /// Marks an unreachable member as down, so that changes of layout do not wait for it. It keeps its
    /// status and its positions in the layouts. The mark is removed when the member is back.
    ///
    /// # Errors
    ///
    /// [`MembershipError`] if this node can reach the member or does not know it, and as
    /// [`ControlPlane::run`].
    pub async fn mark_down(&self, node: NodeId) -> Result<(), ChangeError> {
        if self.is_reachable(node) {
            let name = self.read().members().name_of(node).to_string();
            return Err(MembershipError::IsUp { name }.into());
        }
        self.run_membership(MembershipCommand::Down(node)).await
    }

    /// Reports that this node's copies of partitions are complete: the node has everything that their
    /// former holders had. Reporting again does no harm.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn report_moved(&self, partitions: &[Partition]) -> Result<(), ChangeError> {
        let node = self.read().node_id();
        let partitions = partitions.to_vec();
        self.tell(vec![Change::Copied { node, partitions }]).await
    }

    /// Reports that this node has lost records of unknown partitions. None of its copies counts as
    /// complete until the node reports it again ([`ControlPlane::report_moved`]).
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn report_loss(&self) -> Result<(), ChangeError> {
        let (node, n_vals) = {
            let state = self.read();
            (state.node_id(), state.n_vals())
        };
        self.tell(vec![Change::Lost { node, n_vals }]).await
    }

    /// Acknowledges for an operator that some partitions may have lost records for good.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn accept_losses(&self) -> Result<(), ChangeError> {
        self.tell(vec![Change::AcceptLosses]).await
    }

    /// Reports that from now on this node serves only with these layouts and newer ones.
    pub(crate) async fn acknowledge(&self, served: MemberReport) -> Result<(), ChangeError> {
        let node = self.read().node_id();
        self.tell(vec![Change::ServedLayouts { node, served }]).await
    }

    /// Reports which raises of an `n_val` this node knows, and for which of them it has handed over its
    /// records. Reporting again does no harm.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn report_raises(&self, report: RaiseReport) -> Result<(), ChangeError> {
        self.acknowledge(MemberReport {
            raises_known: report.known,
            raises_filled: report.filled,
            ..MemberReport::default()
        })
        .await
    }

    /// Returns the leader of the control plane, as far as this node knows. Riak's commands call it the
    /// claimant.
    #[must_use]
    pub fn claimant(&self) -> Option<NodeId> {
        self.group().leader().map(|leader| leader.0)
    }
}
