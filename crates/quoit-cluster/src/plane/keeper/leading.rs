//! Duties of the leader: adjusting the voters and learners to the members.

use super::Keeper;
use crate::NodeId;
use crate::control::group::Metrics;
use crate::control::types::RaftId;
use crate::control::voters::{Candidate, choose_voters};
use crate::members::{Member, MemberStatus};
use crate::plane::ControlPlane;
use crate::state::State;
use openraft::ChangeMembers;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// Time after which an unreachable voter is replaced, if another member can take its place.
const VOTER_PATIENCE: Duration = Duration::from_secs(30);
/// Maximum time for which the leader waits for an unreachable node to learn of its own removal.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(10);
/// Time after which a removed node that has the entry about its removal also knows that the entry is
/// committed.
const FAREWELL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of entries by which a node may lag and still become a voter.
const LAG_ENTRIES_MAX: u64 = 64;

impl Keeper {
    /// Takes one step towards the voters and learners that the cluster should have.
    pub(super) async fn lead(&mut self, plane: &ControlPlane, state: &State, metrics: &Metrics) {
        let Ok(raft) = plane.group().raft().await else { return };
        let electorate = metrics.membership_config.membership();
        let present: BTreeSet<NodeId> = electorate.nodes().map(|(id, ())| id.0).collect();
        // New members become learners first: a voter has to follow the log before its vote counts.
        for member in state.members().iter().filter(|member| !present.contains(&member.id)) {
            if let Err(fault) = raft.add_learner(RaftId(member.id), (), false).await {
                tracing::debug!(%fault, "a learner could not be added");
                return;
            }
        }
        let wanted = choose_voters(&self.candidates(state, metrics));
        let voters: BTreeSet<NodeId> = electorate.voter_ids().map(|id| id.0).collect();
        let is_joint = electorate.get_joint_config().len() > 1;
        if !wanted.is_empty() && (wanted != voters || is_joint) {
            let names: Vec<_> =
                wanted.iter().map(|voter| state.members().name_of(*voter).to_string()).collect();
            tracing::info!(voters = names.join(" "), "voters of the control plane");
            let wanted: BTreeSet<_> = wanted.into_iter().map(RaftId).collect();
            let change = ChangeMembers::ReplaceAllVoters(wanted);
            if let Err(fault) = raft.change_membership(change, true).await {
                tracing::debug!(%fault, "the voters could not be changed");
            }
            return;
        }
        let gone = present.iter().filter(|node| state.members().get(**node).is_none());
        let gone = gone.filter(|node| !voters.contains(*node));
        let gone: Vec<NodeId> = gone.copied().collect();
        let gone = gone.into_iter().filter(|node| self.is_informed(*node, metrics));
        let gone: BTreeSet<_> = gone.map(RaftId).collect();
        if !gone.is_empty()
            && let Err(fault) = raft.change_membership(ChangeMembers::RemoveNodes(gone), true).await
        {
            tracing::debug!(%fault, "nodes could not be removed from the group");
        }
    }

    /// Returns true if a removed node has learned of its removal, or will not learn of it.
    fn is_informed(&mut self, node: NodeId, metrics: &Metrics) -> bool {
        if node == self.internode.node_id() {
            return true;
        }
        if self.internode.peer(node).is_none() || self.is_away_for(node, FAREWELL_PATIENCE) {
            return true;
        }
        let applied = metrics.last_applied.map(|id| id.index);
        if !self.informed.contains_key(&node) && self.matched(node, metrics) < applied {
            return false;
        }
        // The node has the entry, and learns with the next heartbeats that it is committed.
        self.informed.entry(node).or_insert_with(Instant::now).elapsed() >= FAREWELL_INTERVAL
    }

    fn matched(&self, node: NodeId, metrics: &Metrics) -> Option<u64> {
        let replication = metrics.replication.as_ref()?;
        replication.get(&RaftId(node)).copied().flatten().map(|id| id.index)
    }

    fn candidates(&self, state: &State, metrics: &Metrics) -> Vec<Candidate> {
        let own = state.node_id();
        let voters: BTreeSet<_> = metrics.membership_config.membership().voter_ids().collect();
        let last = metrics.last_log_index.unwrap_or_default();
        let votes = |member: &Member| voters.contains(&RaftId(member.id));
        let is_leaving = |member: &Member| member.status == MemberStatus::Leaving;
        let able = state
            .members()
            .iter()
            .filter(|member| member.stays() || (is_leaving(member) && votes(member)));
        able.map(|member| {
            let votes = votes(member);
            let patience = if votes { VOTER_PATIENCE } else { Duration::ZERO };
            let follows = self
                .matched(member.id, metrics)
                .is_some_and(|matched| matched + LAG_ENTRIES_MAX >= last);
            let is_present =
                !member.is_down && !self.is_away_for(member.id, patience) && (votes || follows);
            Candidate {
                id: member.id,
                location: member.location.clone(),
                votes,
                is_fit: member.id == own || is_present,
                is_leaving: is_leaving(member),
            }
        })
        .collect()
    }
}

/// Returns true if a node leads and has applied the entries of earlier leaders. The first entry of its own
/// term comes after all of those.
pub(super) fn leads(metrics: &Metrics) -> bool {
    let applied_term = metrics.last_applied.map(|applied| applied.leader_id.term);
    metrics.state.is_leader() && applied_term == Some(metrics.current_term)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::types::LogId;
    use openraft::{CommittedLeaderId, ServerState};

    #[test]
    fn a_leader_begins_when_it_has_applied_an_entry_of_its_own_term() {
        let id = RaftId(NodeId([1; 16]));
        let mut metrics = Metrics::new_initial(id);
        let applied = |term| Some(LogId::new(CommittedLeaderId::new(term, id), 7));
        metrics.current_term = 3;
        metrics.state = ServerState::Leader;
        assert!(!leads(&metrics));
        metrics.last_applied = applied(2);
        assert!(!leads(&metrics), "what the leader before has decided may be missing");
        metrics.last_applied = applied(3);
        assert!(leads(&metrics));
        metrics.state = ServerState::Follower;
        assert!(!leads(&metrics));
    }
}
