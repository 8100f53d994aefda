//! Votes: which nodes answer a request, and for how many positions of the preference list.
//!
//! A bucket with n_val = n has n positions. Position i belongs to the i-th node of the partition's
//! preference list, or, with k < n nodes, to node i modulo k: a node keeps one copy and has the votes of
//! all its positions. The vote of a primary that is down goes to the next live node of the list that has
//! no vote yet, else to a live node that already votes. Such a vote is not a primary's vote. Strict
//! quorums have no fallbacks.
//!
//! All functions here are pure: the set of nodes that are up is an argument.

mod read;
mod write;

pub(crate) use read::{ReadNeed, ReadState, ReadTally};
pub(crate) use write::{WriteNeed, WriteTally};

use quoit_number::{length_u32, saturating_u32};
use smallvec::SmallVec;

/// A node's place in the topology's list of nodes.
pub(crate) type NodeIndex = u16;

/// Number of replicas of a bucket's records, and number of those that are filled. The filled replicas are
/// the first ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReplicaCount {
    /// Number of replicas.
    pub(crate) n_val: u32,
    /// Number of replicas that have all records of the bucket. Less than `n_val` only while replicas that
    /// a raised n_val has added are being filled.
    pub(crate) filled_n_val: u32,
}

impl ReplicaCount {
    /// `n_val` replicas that all have the bucket's records, or for which that does not matter.
    pub(crate) const fn all_filled(n_val: u32) -> Self {
        Self { n_val, filled_n_val: n_val }
    }
}

/// Votes of one node in one layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Voter {
    /// The node.
    pub(crate) node: NodeIndex,
    /// Number of positions that belong to this node.
    pub(crate) primary: u32,
    /// Number of positions of primaries that are down for which this node answers.
    pub(crate) fallback_votes: u32,
}

impl Voter {
    /// Number of positions for which an answer of this node counts.
    pub(crate) const fn votes(&self) -> u32 {
        self.primary + self.fallback_votes
    }
}

/// The nodes to which a request goes, in order of preference, each once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Voters {
    voters: SmallVec<[Voter; 4]>,
}

/// The nodes to which a write goes in each live layout, oldest layout first.
pub(crate) type Layouts = SmallVec<[Voters; 2]>;

impl Voters {
    /// Assigns the votes of `n_val` positions to nodes that are up. `order` is the partition's whole
    /// preference list. With `sloppy`, fallbacks get the votes of primaries that are down.
    ///
    /// Does not allocate for up to four nodes, and looks at no more of the list than it needs.
    pub(crate) fn assign(
        mut order: impl ExactSizeIterator<Item = NodeIndex>,
        n_val: u32,
        sloppy: bool,
        is_up: impl Fn(NodeIndex) -> bool,
    ) -> Self {
        let mut voters = Self::default();
        let primary_count = n_val.min(saturating_u32(order.len() as u64));
        let mut orphaned = 0;
        for (place, node) in (0..primary_count).zip(&mut order) {
            // Positions place, place + k, place + 2k and so on.
            let positions = (n_val - place).div_ceil(primary_count);
            if is_up(node) {
                voters.voters.push(Voter { node, primary: positions, fallback_votes: 0 });
            } else {
                orphaned += positions;
            }
        }
        if !sloppy || orphaned == 0 {
            return voters.checked(n_val, sloppy);
        }
        for node in order.filter(|node| is_up(*node)).take(orphaned as usize) {
            voters.voters.push(Voter { node, primary: 0, fallback_votes: 1 });
            orphaned -= 1;
        }
        // No further node is left, so the chosen nodes share the rest evenly.
        for _ in 0..orphaned {
            let Some(fewest) = voters.voters.iter_mut().min_by_key(|voter| voter.votes()) else {
                break;
            };
            fewest.fallback_votes += 1;
        }
        voters.checked(n_val, sloppy)
    }

    /// Returns an assignment of `n_val` positions. Debug builds check what the counting of votes relies on.
    fn checked(self, n_val: u32, sloppy: bool) -> Self {
        let is_first = |(place, voter): (usize, &Voter)| {
            self.iter().position(|other| other.node == voter.node) == Some(place)
        };
        debug_assert!(self.iter().enumerate().all(is_first), "a node is among the voters once");
        debug_assert!(self.iter().all(|voter| voter.votes() > 0), "each voter has a vote");
        debug_assert!(self.votes() <= n_val, "a position has one vote");
        debug_assert!(
            sloppy || self.primary_votes() == self.votes(),
            "strict quorums have no fallbacks"
        );
        debug_assert!(
            !sloppy || self.voters.is_empty() || self.votes() == n_val,
            "in a sloppy quorum each position has a vote while any node is up"
        );
        self
    }

    /// Turns the primary votes of some nodes into fallback votes, because these nodes know only a part of
    /// what was written.
    pub(crate) fn demote(&mut self, knows_a_part: impl Fn(NodeIndex) -> bool) {
        let votes_before = self.votes();
        for voter in self.voters.iter_mut().filter(|voter| knows_a_part(voter.node)) {
            voter.fallback_votes += voter.primary;
            voter.primary = 0;
        }
        debug_assert_eq!(self.votes(), votes_before, "a demoted node keeps its votes");
    }

    /// The nodes with their votes, most preferred first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Voter> {
        self.voters.iter()
    }

    /// A node's votes.
    pub(crate) fn of(&self, node: NodeIndex) -> Option<&Voter> {
        self.voters.iter().find(|voter| voter.node == node)
    }

    /// Number of nodes.
    pub(crate) fn node_count(&self) -> u32 {
        length_u32(self.voters.len())
    }

    /// Number of votes of all nodes together.
    pub(crate) fn votes(&self) -> u32 {
        self.voters.iter().map(Voter::votes).sum()
    }

    /// Number of positions whose own node votes.
    pub(crate) fn primary_votes(&self) -> u32 {
        self.voters.iter().map(|voter| voter.primary).sum()
    }
}

#[cfg(test)]
mod tests;
