//! Operations on the members of a cluster.

use crate::NodeId;
use crate::change::Change;
use crate::error::ChangeError;
use crate::layouts::Served;
use crate::membership_error::MembershipError;
use crate::plan::Plan;
use crate::plan_id::PlanId;
use crate::plane::ControlPlane;
use crate::staged::StagedChange;
use crate::state::MembershipCommand;
use quoit_model::hash::Partition;

impl ControlPlane {
    /// The member that operators call so.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn member_named(&self, name: &str) -> Result<NodeId, MembershipError> {
        match self.read().members().named(name) {
            Some(member) => Ok(member.id),
            None => Err(MembershipError::NotAMember { name: name.to_owned() }),
        }
    }

    /// Stages a change of membership: nothing happens before it is committed.
    ///
    /// # Errors
    ///
    /// The refusal, and as [`ControlPlane::run`].
    pub async fn stage(&self, change: &StagedChange) -> Result<(), ChangeError> {
        self.run_membership(MembershipCommand::Stage(change)).await
    }

    /// Drops all staged changes. Nodes that wait for the commit go back to being alone.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn clear_staged(&self) -> Result<(), ChangeError> {
        self.run_membership(MembershipCommand::Clear).await
    }

    /// The plan of the staged changes. A later commit on this node means this plan.
    ///
    /// # Errors
    ///
    /// When nothing is staged, or what is staged can't be.
    pub fn plan(&self) -> Result<Plan, MembershipError> {
        let plan = self.read().plan()?;
        *self.shown_plan().lock() = Some(plan.id);
        Ok(plan)
    }

    /// Makes all staged changes, if they come to the plan that was shown: `shown`, or the last one that was
    /// shown on this node. Partitions start to move.
    ///
    /// # Errors
    ///
    /// When no plan was shown, when it is no longer the plan, when a node that joins is not reachable, and
    /// as [`ControlPlane::run`].
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

    /// Whether this node can talk to another one just now; to itself it always can.
    #[must_use]
    pub fn is_reachable(&self, node: NodeId) -> bool {
        if node == self.read().node_id() {
            return true;
        }
        let peer = self.link().internode().and_then(|internode| internode.peer(node));
        peer.is_some_and(|peer| peer.is_up())
    }

    /// Marks a member that is not reachable as absent, so that changes of layout don't wait for it. It
    /// keeps its partitions, and is a full member again as soon as it is back.
    ///
    /// # Errors
    ///
    /// When the member is up, or not a full one, and as [`ControlPlane::run`].
    pub async fn mark_down(&self, node: NodeId) -> Result<(), ChangeError> {
        if self.is_reachable(node) {
            let name = self.read().members().name_of(node).to_string();
            return Err(MembershipError::IsUp { name }.into());
        }
        self.run_membership(MembershipCommand::Down(node)).await
    }

    /// Tells the cluster that this node's copies of partitions are complete: everything that those who
    /// held them before have is here.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`]. Telling again does no harm.
    pub async fn report_moved(&self, partitions: &[Partition]) -> Result<(), ChangeError> {
        let node = self.read().node_id();
        let partitions = partitions.to_vec();
        self.tell(vec![Change::Copied { node, partitions }]).await
    }

    /// Tells the cluster that this node has lost records of any partition: none of its copies counts as
    /// complete until it is reported so ([`ControlPlane::report_moved`]).
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

    /// Takes note for an operator of all partitions that may have lost records for good.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn accept_losses(&self) -> Result<(), ChangeError> {
        self.tell(vec![Change::AcceptLosses]).await
    }

    /// Tells the cluster that this node serves with these layouts and those after them only.
    pub(crate) async fn acknowledge(&self, served: Served) -> Result<(), ChangeError> {
        let node = self.read().node_id();
        self.tell(vec![Change::Serves { node, served }]).await
    }

    /// Tells the cluster up to which version of its state this node knows which buckets got more replicas,
    /// and up to which it has handed over what it had of them.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`]. Telling again does no harm.
    pub async fn report_raises(&self, known: u64, filled: u64) -> Result<(), ChangeError> {
        self.acknowledge(Served { raises_known: known, raises_filled: filled, ..Served::default() })
            .await
    }

    /// The node that decides at present: the leader of the control plane.
    #[must_use]
    pub fn claimant(&self) -> Option<NodeId> {
        self.group().leader().map(|leader| leader.0)
    }
}
