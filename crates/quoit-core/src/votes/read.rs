//! The conditions that end a read, and the answers so far. Pure.

use super::{NodeIndex, ReplicaCount, Voter, Voters};
use crate::error::{QuorumKind, RequestError};
use quoit_model::props::ReadQuorums;
use quoit_planted::planted;
use smallvec::SmallVec;

/// Conditions that end a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReadNeed {
    /// Number of replicas of this read.
    pub(crate) n_val: u32,
    /// Number of replicas that have all records of the bucket.
    pub(crate) filled_n_val: u32,
    /// Votes that must answer.
    pub(crate) r: u32,
    /// Primaries' votes that must be among them.
    pub(crate) pr: u32,
    /// Distinct nodes that must be among them.
    pub(crate) node_confirms: u32,
    /// True if "not found" counts as an answer.
    pub(crate) notfound_ok: bool,
    /// True if a majority of "not found" ends the read although `notfound_ok` is false.
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

/// State of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadState {
    /// It needs further answers.
    Open,
    /// Its conditions are met.
    Met,
    /// Enough nodes have answered "not found".
    NotFound,
}

/// Answers to a read so far.
#[derive(Clone, Debug)]
pub(crate) struct ReadTally {
    need: ReadNeed,
    answers: SmallVec<[(NodeIndex, NodeAnswer); 4]>,
}

impl ReadTally {
    /// A read that no node has answered.
    pub(crate) fn new(need: ReadNeed) -> Self {
        Self { need, answers: SmallVec::new() }
    }

    /// Checks before any replica is asked that the nodes that are up can meet the read: pr by their
    /// primary votes, node_confirms by their number, and r by their votes.
    ///
    /// # Errors
    ///
    /// The condition that can't be met, with the number of nodes or votes that there are.
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

    /// Adds the answer of a node that has the record.
    pub(crate) fn found(&mut self, node: NodeIndex) {
        self.answer(node, NodeAnswer::Found);
    }

    /// Adds the answer of a node that does not have the record.
    pub(crate) fn missing(&mut self, node: NodeIndex) {
        self.answer(node, NodeAnswer::Missing);
    }

    /// True if a node has answered.
    pub(crate) fn has(&self, node: NodeIndex) -> bool {
        self.answers.iter().any(|(known, _)| *known == node)
    }

    fn answer(&mut self, node: NodeIndex, answer: NodeAnswer) {
        if !self.has(node) {
            self.answers.push((node, answer));
        }
    }

    /// The state of the read.
    pub(crate) fn state(&self, voters: &Voters) -> ReadState {
        // A read with r = 0 takes the first answer, whatever it is, but needs at least one.
        if self.answers.is_empty() {
            return ReadState::Open;
        }
        let need = &self.need;
        debug_assert!(voters.votes() <= need.n_val, "the voters are those of the read's replicas");
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

    /// The result of a read when no node is left to ask: "not found" if all answers said so and the nodes
    /// that have not answered could not make up a quorum, else an error.
    ///
    /// # Errors
    ///
    /// The quorum that is not met, with the votes or nodes that it has.
    pub(crate) fn give_up(&self, voters: &Voters) -> Result<ReadState, RequestError> {
        let need = &self.need;
        debug_assert_eq!(
            self.state(voters),
            ReadState::Open,
            "a read that has its answers goes on"
        );
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
        debug_assert!(nodes < need.node_confirms, "a quorum that is not met is named");
        Err(RequestError::InsufficientNodes { have: nodes, wanted: need.node_confirms })
    }

    /// Counts the votes, the primaries' votes and the nodes of the answers that count.
    ///
    /// A fallback knows only the writes that it took. Its vote counts only when every primary that is up
    /// has answered. So if a quorum of primaries took a write, a quorum of the same primaries shows it,
    /// whichever other nodes have gone down in the meantime.
    fn counts(&self, voters: &Voters) -> (u32, u32, u32) {
        let all_primaries = planted!(BelievesFallbacks) || self.all_primaries_answered(voters);
        let votes_of =
            |voter: &Voter| voter.primary + if all_primaries { voter.fallback_votes } else { 0 };
        let good = self
            .answers
            .iter()
            .filter(|(_, answer)| *answer == NodeAnswer::Found || self.need.notfound_ok);
        let (votes, primary, nodes) = good.filter_map(|(node, _)| voters.of(*node)).fold(
            (0, 0, 0),
            |(votes, primary, nodes), voter| {
                (votes + votes_of(voter), primary + voter.primary, nodes + 1)
            },
        );
        debug_assert!(votes <= voters.votes(), "the votes of a node count once");
        debug_assert!(primary <= votes, "a primary's vote is a vote");
        (votes, primary, nodes)
    }

    /// True if every primary that is up has answered.
    fn all_primaries_answered(&self, voters: &Voters) -> bool {
        let answered = |node| self.answers.iter().any(|(known, _)| *known == node);
        voters.iter().all(|voter| voter.primary == 0 || answered(voter.node))
    }

    /// Counts the votes for "not found". Votes of fallbacks count under the same condition as in
    /// `counts`.
    fn missing_votes(&self, voters: &Voters) -> u32 {
        let all_primaries = self.all_primaries_answered(voters);
        let missing = self.answers.iter().filter(|(_, answer)| *answer == NodeAnswer::Missing);
        let votes = missing.filter_map(|(node, _)| voters.of(*node));
        votes.map(|voter| if all_primaries { voter.votes() } else { voter.primary }).sum()
    }
}
