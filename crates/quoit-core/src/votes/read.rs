//! When a read has enough.

use super::{NodePlace, ReplicaCount, Voter, Voters};
use crate::error::{QuorumKind, RequestError};
use quoit_model::props::ReadQuorums;
use quoit_planted::planted;
use smallvec::SmallVec;

/// Conditions that end a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReadNeed {
    /// Replicas of this read.
    pub(crate) n_val: u32,
    /// The first of them that have all records of the bucket.
    pub(crate) filled_n_val: u32,
    /// Votes that answered.
    pub(crate) r: u32,
    /// Primaries' votes among them.
    pub(crate) pr: u32,
    /// Distinct nodes among them.
    pub(crate) node_confirms: u32,
    /// Whether "not found" counts as an answer.
    pub(crate) notfound_ok: bool,
    /// Whether a majority of "not found" ends the read.
    pub(crate) basic_quorum: bool,
}

impl From<&ReadQuorums> for ReadNeed {
    fn from(quorums: &ReadQuorums) -> Self {
        let ReadQuorums { n_val, r, pr, node_confirms, basic_quorum, notfound_ok } = *quorums;
        let filled_n_val = n_val;
        Self { n_val, filled_n_val, r, pr, node_confirms, notfound_ok, basic_quorum }
    }
}

impl ReadNeed {
    /// The replicas that may be asked.
    pub(crate) const fn replica_count(&self) -> ReplicaCount {
        ReplicaCount { n_val: self.n_val, filled_n_val: self.filled_n_val }
    }
}

/// Answer of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NodeAnswer {
    Found,
    Missing,
}

/// How a read stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadState {
    /// It needs further answers.
    Open,
    /// It has what it asked for.
    Met,
    /// Enough nodes have said that there is nothing.
    NotFound,
}

/// Answers to a read so far.
#[derive(Clone, Debug)]
pub(crate) struct ReadTally {
    need: ReadNeed,
    answers: SmallVec<[(NodePlace, NodeAnswer); 4]>,
}

impl ReadTally {
    /// Nobody has.
    pub(crate) fn new(need: ReadNeed) -> Self {
        Self { need, answers: SmallVec::new() }
    }

    /// Checks what has to hold before a replica is asked: enough primaries up for pr, enough nodes for
    /// node_confirms and, where nobody may stand in, enough nodes for r.
    ///
    /// # Errors
    ///
    /// Names the condition that can't be met, and the number of nodes or primaries there are.
    pub(crate) fn check(need: &ReadNeed, voters: &Voters) -> Result<(), RequestError> {
        let (up, votes, have) = (voters.primary_votes(), voters.votes(), voters.node_count());
        if up < need.pr {
            let (kind, wanted) = (QuorumKind::Pr, need.pr);
            return Err(RequestError::Unsatisfied { kind, wanted, got: up });
        }
        if have < need.node_confirms {
            return Err(RequestError::InsufficientNodes { have, wanted: need.node_confirms });
        }
        if votes < need.r {
            return Err(RequestError::InsufficientVnodes { have: votes, wanted: need.r });
        }
        Ok(())
    }

    /// A node has answered with an object, or with the digest of one.
    pub(crate) fn found(&mut self, node: NodePlace) {
        self.answer(node, NodeAnswer::Found);
    }

    /// A node has answered that it has nothing.
    pub(crate) fn missing(&mut self, node: NodePlace) {
        self.answer(node, NodeAnswer::Missing);
    }

    /// Whether a node has answered.
    pub(crate) fn has(&self, node: NodePlace) -> bool {
        self.answers.iter().any(|(known, _)| *known == node)
    }

    fn answer(&mut self, node: NodePlace, answer: NodeAnswer) {
        if !self.has(node) {
            self.answers.push((node, answer));
        }
    }

    /// How the read stands.
    pub(crate) fn state(&self, voters: &Voters) -> ReadState {
        // A read with r = 0 takes the first answer, whatever it is; without any it knows nothing.
        if self.answers.is_empty() {
            return ReadState::Open;
        }
        let need = &self.need;
        let (good, primary, nodes) = self.counts(voters);
        let good_enough = good + u32::from(planted!(CountsReadsShort)) >= need.r;
        if good_enough && primary >= need.pr && nodes >= need.node_confirms {
            return ReadState::Met;
        }
        let majority = need.n_val / 2 + 1;
        if !need.notfound_ok && need.basic_quorum && self.missing_votes(voters) >= majority {
            return ReadState::NotFound;
        }
        ReadState::Open
    }

    /// The result of a read when no node is left to ask: nothing found where all answers were that and no
    /// other node could change that, else an error.
    ///
    /// # Errors
    ///
    /// The quorum that is not met, with what it has.
    pub(crate) fn give_up(&self, voters: &Voters) -> Result<ReadState, RequestError> {
        let need = &self.need;
        let (good, primary, nodes) = self.counts(voters);
        let missing = self.missing_votes(voters);
        if !need.notfound_ok && good == 0 && missing > 0 && missing + need.r > need.n_val {
            return Ok(ReadState::NotFound);
        }
        let wanted = need.r.max(u32::from(self.answers.is_empty()));
        if good < wanted {
            let kind = QuorumKind::R;
            return Err(RequestError::Unsatisfied { kind, wanted, got: good });
        }
        if primary < need.pr {
            let (kind, wanted) = (QuorumKind::Pr, need.pr);
            return Err(RequestError::Unsatisfied { kind, wanted, got: primary });
        }
        Err(RequestError::InsufficientNodes { have: nodes, wanted: need.node_confirms })
    }

    /// Votes, primaries' votes and nodes among the answers that count.
    ///
    /// A fallback knows only the writes that it took. Its vote counts when no primary that is
    /// up has still to answer: so what a quorum of primaries was written, a quorum of the same primaries
    /// shows, whoever else has died meanwhile.
    fn counts(&self, voters: &Voters) -> (u32, u32, u32) {
        let all_primaries = planted!(BelievesStandIns) || self.all_primaries_answered(voters);
        let votes_of =
            |voter: &Voter| voter.primary + if all_primaries { voter.stand_in } else { 0 };
        let good = self
            .answers
            .iter()
            .filter(|(_, answer)| *answer == NodeAnswer::Found || self.need.notfound_ok);
        good.filter_map(|(node, _)| voters.of(*node)).fold(
            (0, 0, 0),
            |(votes, primary, nodes), voter| {
                (votes + votes_of(voter), primary + voter.primary, nodes + 1)
            },
        )
    }

    /// Whether every primary that is up has answered.
    fn all_primaries_answered(&self, voters: &Voters) -> bool {
        let answered = |node| self.answers.iter().any(|(known, _)| *known == node);
        voters.iter().all(|voter| voter.primary == 0 || answered(voter.node))
    }

    /// Votes for there being nothing; those of fallbacks count as elsewhere.
    fn missing_votes(&self, voters: &Voters) -> u32 {
        let all_primaries = self.all_primaries_answered(voters);
        let missing = self.answers.iter().filter(|(_, answer)| *answer == NodeAnswer::Missing);
        let votes = missing.filter_map(|(node, _)| voters.of(*node));
        votes.map(|voter| if all_primaries { voter.votes() } else { voter.primary }).sum()
    }
}
