//! Running commands: from a request to a change that all nodes agree on.
//!
//! 1. Get the read index from the leader, and wait until this node has applied the log up to it.
//! 2. Decide on this node's state. A refusal ends the command.
//! 3. Propose the decision to the leader. It names the revision of the state.
//! 4. Wait until this node has applied the entry. If another decision came first, the entry has no
//!    effect; start again.
//!
//! Without a leader the steps are repeated until the command times out.

use crate::ClusterId;
use crate::change::Change;
use crate::change::Decision;
use crate::command::Command;
use crate::control::codec::encode_decision;
use crate::control::group::{CommittedDecision, GroupError, STEP_TIMEOUT};
use crate::control::link::LinkError;
use crate::control::types::RaftId;
use crate::error::ChangeError;
use crate::plane::ControlPlane;
use crate::state::{MembershipCommand, State};
use crate::transport::CallError;
use crate::trust::TrustCommand;
use quoit_wire::internode::control::{
    Empty, METHOD_PROPOSE, METHOD_READ_INDEX, Proposed, REFUSED_NOT_LEADER, ReadIndex,
};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Maximum time for a command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before a command without a leader is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Reason why an attempt to run a command failed.
enum AttemptError {
    /// The command failed for good.
    Refused(ChangeError),
    /// There was no leader, or it gave no answer. The command is tried again.
    NoLeader,
}

impl From<GroupError> for AttemptError {
    fn from(error: GroupError) -> Self {
        match error {
            GroupError::NotLeader => Self::NoLeader,
            error => Self::Refused(error.into()),
        }
    }
}

impl From<LinkError> for AttemptError {
    fn from(error: LinkError) -> Self {
        // The leader may have carried out the command. The next attempt decides again and sees its effect.
        if !matches!(error, LinkError::Call(CallError::Refused { code: REFUSED_NOT_LEADER, .. })) {
            tracing::debug!(%error, "the leader gave no answer");
        }
        Self::NoLeader
    }
}

impl ControlPlane {
    /// Runs a command: decides on the newest state, has the cluster agree, and waits until this node's state
    /// includes the outcome. If another decision came in between, it decides again.
    ///
    /// # Errors
    ///
    /// [`ChangeError`] if the command is refused, if the change cannot be written, or if no majority
    /// agrees in time. In the last two cases the change may or may not take effect.
    pub async fn run(&self, command: Command<'_>) -> Result<(), ChangeError> {
        self.run_deciding(|state| state.decide(command)).await
    }

    pub(crate) async fn run_membership(
        &self,
        command: MembershipCommand<'_>,
    ) -> Result<(), ChangeError> {
        self.run_deciding(|state| Ok(state.decide_membership(command)?)).await
    }

    pub(crate) async fn run_trust(&self, command: &TrustCommand) -> Result<(), ChangeError> {
        self.run_deciding(|state| Ok(state.decide_trust(command, quoit_tls::Instant::now())?)).await
    }

    async fn run_deciding(
        &self,
        decide: impl Fn(&State) -> Result<Vec<Change>, ChangeError>,
    ) -> Result<(), ChangeError> {
        let deadline = Instant::now() + COMMAND_TIMEOUT;
        loop {
            match self.run_once(&decide, deadline).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(AttemptError::Refused(refusal)) => return Err(refusal),
                Err(AttemptError::NoLeader) if Instant::now() < deadline => {
                    sleep(RETRY_INTERVAL).await
                }
                Err(AttemptError::NoLeader) => return Err(ChangeError::NoLeader),
            }
        }
    }

    /// Makes one attempt. Returns false if another decision came first.
    async fn run_once(
        &self,
        decide: &impl Fn(&State) -> Result<Vec<Change>, ChangeError>,
        deadline: Instant,
    ) -> Result<bool, AttemptError> {
        let cluster = self.read().cluster_id();
        let newest = self.read_index().await?;
        self.wait_applied(cluster, newest, deadline).await?;
        let state = self.state();
        let changes = decide(&state).map_err(AttemptError::Refused)?;
        if changes.is_empty() {
            return Ok(true);
        }
        let decision = Decision { base: Some(state.revision()), changes };
        let CommittedDecision { applied, index } = self.agree(decision).await?;
        self.wait_applied(cluster, index, deadline).await?;
        Ok(applied)
    }

    /// Has the cluster agree on changes that are valid for every state.
    pub(crate) async fn tell(&self, changes: Vec<Change>) -> Result<(), ChangeError> {
        let deadline = Instant::now() + COMMAND_TIMEOUT;
        loop {
            let cluster = self.read().cluster_id();
            let decision = Decision { base: None, changes: changes.clone() };
            let told = match self.agree(decision).await {
                Ok(agreed) => self.wait_applied(cluster, agreed.index, deadline).await,
                Err(attempt) => Err(attempt),
            };
            match told {
                Ok(()) => return Ok(()),
                Err(AttemptError::Refused(refusal)) => return Err(refusal),
                Err(AttemptError::NoLeader) if Instant::now() < deadline => {
                    sleep(RETRY_INTERVAL).await
                }
                Err(AttemptError::NoLeader) => return Err(ChangeError::NoLeader),
            }
        }
    }

    /// Returns the leader, if it is another node.
    async fn other_leader(&self) -> Result<Option<RaftId>, GroupError> {
        // Starts this node's Raft instance if it does not run.
        self.group().raft().await?;
        let own = self.read().node_id();
        Ok(self.group().leader().filter(|leader| leader.0 != own))
    }

    async fn read_index(&self) -> Result<u64, AttemptError> {
        let Some(leader) = self.other_leader().await? else {
            return Ok(self.group().read_index().await?);
        };
        let asked = self.link().call(leader, METHOD_READ_INDEX, &Empty {}, &[], STEP_TIMEOUT).await;
        let ReadIndex { index } = asked?;
        Ok(index)
    }

    async fn agree(&self, decision: Decision) -> Result<CommittedDecision, AttemptError> {
        let Some(leader) = self.other_leader().await? else {
            return Ok(self.group().propose(decision).await?);
        };
        let header = encode_decision(&decision);
        let asked = self.link().call(leader, METHOD_PROPOSE, &header, &[], STEP_TIMEOUT).await;
        let Proposed { applied, index } = asked?;
        Ok(CommittedDecision { applied, index })
    }

    /// Waits until this node has applied the log up to an entry, or no longer belongs to the cluster,
    /// because the entry may be the one that dropped this node's join.
    async fn wait_applied(
        &self,
        cluster: ClusterId,
        index: u64,
        deadline: Instant,
    ) -> Result<(), AttemptError> {
        let mut applied = self.published().applied_index.subscribe();
        let shown = |applied: &u64| *applied >= index || self.read().cluster_id() != cluster;
        match timeout_at(deadline, applied.wait_for(shown)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(AttemptError::NoLeader),
        }
    }
}
