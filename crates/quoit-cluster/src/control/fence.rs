//! Excludes a node from the log if it runs on an outdated data directory.
//!
//! A voter that has forgotten its vote may vote twice in a term. A voter that has forgotten entries may let a
//! majority drop them. Working disks do not forget, but a restored backup lacks all votes and entries since
//! it was made. Each node therefore counts its starts in its control file and reports the count to the other
//! members, which record the latest one durably. The node takes part in the log once a majority of the voters
//! knows of no later start. Any two majorities share a voter, so if a later start of this node has taken
//! part, at least one voter reports it.
//!
//! A sole voter is a majority by itself. If the cluster has other members, it still asks them, but waits only
//! for a limited time: one of two members has to continue when the other one is lost.

use super::types::{LogId, StoredMembership};
use crate::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Maximum time for which a sole voter waits for the answer of another member.
const ONLY_VOTER_PATIENCE: Duration = Duration::from_secs(5);

/// Result of reporting a start to the other members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum FenceVerdict {
    /// A majority of the voters knows of no later start, so the node may take part.
    Open,
    /// Too few voters have answered.
    Waiting,
    /// Another node knows of a later start, with this count.
    Stale { known_starts: u64 },
}

/// A set of voters, and the position in the log of the entry that made them voters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Voters {
    pub(crate) position: Option<LogId>,
    pub(crate) nodes: BTreeSet<NodeId>,
}

impl Voters {
    pub(crate) fn of(electorate: &StoredMembership) -> Self {
        let nodes = electorate.membership().voter_ids().map(|voter| voter.0).collect();
        Self { position: *electorate.log_id(), nodes }
    }
}

/// Answers of other nodes to the report of this node's start.
#[derive(Debug)]
pub(crate) struct Fence {
    own: NodeId,
    /// The newest set of voters that the node has heard of. The voters may have changed while it was down.
    voters: Voters,
    /// True if the cluster has other members.
    has_others: bool,
    /// Nodes that have answered. The value is true if the node knows of no later start.
    noted: BTreeMap<NodeId, bool>,
    stale: Option<u64>,
}

impl Fence {
    /// Creates a fence for a node that knows of these voters.
    pub(crate) const fn new(own: NodeId, voters: Voters, has_others: bool) -> Self {
        Self { own, voters, has_others, noted: BTreeMap::new(), stale: None }
    }

    /// Returns the nodes among `others` that have not answered yet.
    pub(crate) fn unasked(&self, others: &[NodeId]) -> Vec<NodeId> {
        others.iter().filter(|other| !self.noted.contains_key(other)).copied().collect()
    }

    /// Returns the newest set of voters that the node has heard of.
    pub(crate) const fn voters(&self) -> &BTreeSet<NodeId> {
        &self.voters.nodes
    }

    /// Records the answer of a node.
    pub(crate) fn answered(
        &mut self,
        node: NodeId,
        is_latest: bool,
        known_starts: u64,
        voters: Voters,
    ) {
        self.noted.insert(node, is_latest);
        if !is_latest {
            self.stale = Some(known_starts.max(self.stale.unwrap_or_default()));
        }
        if voters.position > self.voters.position {
            self.voters = voters;
        }
    }

    /// Returns the verdict after `waited`, the time since the first report. A node without other members
    /// needs no answer. Neither does a node that knows no voters: it has joined but knows nothing of its
    /// cluster, so it can't have forgotten anything.
    pub(crate) fn verdict(&self, waited: Duration) -> FenceVerdict {
        if let Some(known_starts) = self.stale {
            return FenceVerdict::Stale { known_starts };
        }
        let voters = &self.voters.nodes;
        let is_only_voter = voters.iter().eq([&self.own]);
        let is_confirmed = !self.noted.is_empty() || waited >= ONLY_VOTER_PATIENCE;
        if is_only_voter && self.has_others && !is_confirmed {
            return FenceVerdict::Waiting;
        }
        let counted = voters.iter().filter(|voter| {
            **voter == self.own || self.noted.get(voter).is_some_and(|is_latest| *is_latest)
        });
        if voters.is_empty() || counted.count() * 2 > voters.len() {
            return FenceVerdict::Open;
        }
        FenceVerdict::Waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::types::RaftId;
    use openraft::CommittedLeaderId;

    fn node(id: u8) -> NodeId {
        NodeId([id; 16])
    }

    fn voters(index: u64, ids: &[u8]) -> Voters {
        let position = LogId::new(CommittedLeaderId::new(1, RaftId(node(1))), index);
        Voters { position: Some(position), nodes: ids.iter().map(|id| node(*id)).collect() }
    }

    fn fence(own: u8, ids: &[u8]) -> Fence {
        Fence::new(node(own), voters(10, ids), true)
    }

    fn hear(fence: &mut Fence, from: u8, is_latest: bool, known_starts: u64) {
        fence.answered(node(from), is_latest, known_starts, voters(9, &[]));
    }

    #[test]
    fn node_alone_needs_nobody() {
        let alone = Fence::new(node(1), voters(10, &[1]), false);
        assert_eq!(alone.verdict(Duration::ZERO), FenceVerdict::Open);
        assert_eq!(fence(1, &[]).verdict(Duration::ZERO), FenceVerdict::Open);
    }

    #[test]
    fn only_voter_waits_for_another_member_and_not_for_ever() {
        let mut fence = fence(1, &[1]);
        assert_eq!(
            fence.verdict(ONLY_VOTER_PATIENCE - Duration::from_millis(1)),
            FenceVerdict::Waiting
        );
        assert_eq!(fence.verdict(ONLY_VOTER_PATIENCE), FenceVerdict::Open);
        hear(&mut fence, 2, true, 4);
        assert_eq!(fence.verdict(Duration::ZERO), FenceVerdict::Open);
        hear(&mut fence, 3, false, 7);
        assert_eq!(fence.verdict(Duration::ZERO), FenceVerdict::Stale { known_starts: 7 });
    }

    #[test]
    fn majority_opens() {
        let mut fence = fence(1, &[1, 2, 3]);
        assert_eq!(fence.verdict(Duration::ZERO), FenceVerdict::Waiting);
        hear(&mut fence, 3, true, 4);
        assert_eq!(fence.verdict(Duration::ZERO), FenceVerdict::Open);
        assert_eq!(fence.unasked(&[node(2), node(3), node(4)]), [node(2), node(4)]);
    }

    #[test]
    fn learner_needs_a_majority_of_the_voters() {
        let mut fence = fence(9, &[1, 2, 3]);
        hear(&mut fence, 1, true, 4);
        hear(&mut fence, 8, true, 4);
        assert_eq!(fence.verdict(Duration::ZERO), FenceVerdict::Waiting);
        hear(&mut fence, 2, true, 4);
        assert_eq!(fence.verdict(Duration::ZERO), FenceVerdict::Open);
    }

    #[test]
    fn one_that_knows_better_closes_for_good() {
        let mut fence = fence(1, &[1, 2, 3]);
        hear(&mut fence, 2, false, 7);
        hear(&mut fence, 3, true, 4);
        assert_eq!(fence.verdict(Duration::ZERO), FenceVerdict::Stale { known_starts: 7 });
    }

    #[test]
    fn voters_that_have_changed_meanwhile_are_asked() {
        let mut fence = fence(1, &[1, 2, 3]);
        fence.answered(node(7), true, 4, voters(20, &[7, 8, 9]));
        hear(&mut fence, 2, true, 4);
        assert_eq!(fence.verdict(Duration::ZERO), FenceVerdict::Waiting);
        hear(&mut fence, 9, true, 4);
        assert_eq!(fence.verdict(Duration::ZERO), FenceVerdict::Open);
    }
}
