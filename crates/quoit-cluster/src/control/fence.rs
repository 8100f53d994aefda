//! Keeps a node with an old data directory out of the log.
//!
//! A voter that has forgotten its vote may vote twice, and one that has forgotten entries may make a
//! majority forget them. Disks do not forget by themselves, but backups do: whoever restores one brings a
//! node back that has promised things that it no longer knows of. So each start of a node is counted in
//! its control file and told to the other members, who note the latest one durably; the node takes part
//! when a majority of the voters knows of none that is later. Any two majorities have a voter in common,
//! so a node whose later start took part is always found out.
//!
//! An only voter is its own majority. If there are other members it asks them all the same, but does not wait
//! for them for ever: one of two members has to go on when the other one is lost.

use super::types::{LogId, StoredMembership};
use crate::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// For so long an only voter waits for the word of another member.
const ONLY_VOTER_PATIENCE: Duration = Duration::from_secs(5);

/// Where a node stands after it has told others of its start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Passage {
    /// A majority knows of no later start.
    Open,
    /// Not enough have answered yet.
    Waiting,
    /// Another node knows of a later start: so many were counted there.
    Stale { known_starts: u64 },
}

/// Voters, and the place in the log where they were decided.
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

/// Answers so far.
#[derive(Debug)]
pub(crate) struct Fence {
    own: NodeId,
    /// The latest electorate that the node has heard of: it may have been away while voters changed.
    voters: Voters,
    /// Whether there are other members.
    has_others: bool,
    /// Voters that have answered, and whether they know of no later start.
    noted: BTreeMap<NodeId, bool>,
    stale: Option<u64>,
}

impl Fence {
    /// A fence for a node that knows of these voters.
    pub(crate) const fn new(own: NodeId, voters: Voters, has_others: bool) -> Self {
        Self { own, voters, has_others, noted: BTreeMap::new(), stale: None }
    }

    /// Those of these nodes that have not answered yet.
    pub(crate) fn unasked(&self, others: &[NodeId]) -> Vec<NodeId> {
        others.iter().filter(|other| !self.noted.contains_key(other)).copied().collect()
    }

    /// The voters, by the latest that was heard.
    pub(crate) const fn voters(&self) -> &BTreeSet<NodeId> {
        &self.voters.nodes
    }

    /// A node has answered.
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

    /// Where the node stands when it has asked for so long. A node alone, and one that has forgotten nothing
    /// because it knows nothing, need nobody's answer.
    pub(crate) fn passage(&self, waited: Duration) -> Passage {
        if let Some(known_starts) = self.stale {
            return Passage::Stale { known_starts };
        }
        let voters = &self.voters.nodes;
        let is_only_voter = voters.iter().eq([&self.own]);
        let is_confirmed = !self.noted.is_empty() || waited >= ONLY_VOTER_PATIENCE;
        if is_only_voter && self.has_others && !is_confirmed {
            return Passage::Waiting;
        }
        let counted = voters.iter().filter(|voter| {
            **voter == self.own || self.noted.get(voter).is_some_and(|is_latest| *is_latest)
        });
        if voters.is_empty() || counted.count() * 2 > voters.len() {
            return Passage::Open;
        }
        Passage::Waiting
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
        assert_eq!(alone.passage(Duration::ZERO), Passage::Open);
        assert_eq!(fence(1, &[]).passage(Duration::ZERO), Passage::Open);
    }

    #[test]
    fn only_voter_waits_for_another_member_and_not_for_ever() {
        let mut fence = fence(1, &[1]);
        assert_eq!(fence.passage(ONLY_VOTER_PATIENCE - Duration::from_millis(1)), Passage::Waiting);
        assert_eq!(fence.passage(ONLY_VOTER_PATIENCE), Passage::Open);
        hear(&mut fence, 2, true, 4);
        assert_eq!(fence.passage(Duration::ZERO), Passage::Open);
        hear(&mut fence, 3, false, 7);
        assert_eq!(fence.passage(Duration::ZERO), Passage::Stale { known_starts: 7 });
    }

    #[test]
    fn majority_opens() {
        let mut fence = fence(1, &[1, 2, 3]);
        assert_eq!(fence.passage(Duration::ZERO), Passage::Waiting);
        hear(&mut fence, 3, true, 4);
        assert_eq!(fence.passage(Duration::ZERO), Passage::Open);
        assert_eq!(fence.unasked(&[node(2), node(3), node(4)]), [node(2), node(4)]);
    }

    #[test]
    fn learner_needs_a_majority_of_the_voters() {
        let mut fence = fence(9, &[1, 2, 3]);
        hear(&mut fence, 1, true, 4);
        hear(&mut fence, 8, true, 4);
        assert_eq!(fence.passage(Duration::ZERO), Passage::Waiting);
        hear(&mut fence, 2, true, 4);
        assert_eq!(fence.passage(Duration::ZERO), Passage::Open);
    }

    #[test]
    fn one_that_knows_better_closes_for_good() {
        let mut fence = fence(1, &[1, 2, 3]);
        hear(&mut fence, 2, false, 7);
        hear(&mut fence, 3, true, 4);
        assert_eq!(fence.passage(Duration::ZERO), Passage::Stale { known_starts: 7 });
    }

    #[test]
    fn voters_that_have_changed_meanwhile_are_asked() {
        let mut fence = fence(1, &[1, 2, 3]);
        fence.answered(node(7), true, 4, voters(20, &[7, 8, 9]));
        hear(&mut fence, 2, true, 4);
        assert_eq!(fence.passage(Duration::ZERO), Passage::Waiting);
        hear(&mut fence, 9, true, 4);
        assert_eq!(fence.passage(Duration::ZERO), Passage::Open);
    }
}
