//! Votes: which nodes answer a request, and for how many positions of the preference list.
//!
//! A bucket with n_val = n has n positions. Position i of a partition is the business of the i-th
//! node of the partition's order, and where there are fewer nodes than positions, of node i modulo
//! their number: a node keeps one copy and carries the votes of all its positions. The vote of a
//! dead primary goes to a live node of the order that has none yet, else to a live node that is
//! there already; neither is a primary's vote. Strict quorums have no such fallbacks.
//!
//! Everything here is pure: who is up is an argument.

mod read;
mod write;

pub(crate) use read::{ReadNeed, ReadState, ReadTally};
pub(crate) use write::{WriteNeed, WriteTally};

use smallvec::SmallVec;

/// A node's place in the list of nodes that a request may go to.
pub(crate) type NodePlace = u16;

/// How many replicas the records of a bucket have, and how many of the first of them have all of its records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReplicaCount {
    /// Replicas.
    pub(crate) n_val: u32,
    /// Those of them that have all records: the same, but where the number was raised lately.
    pub(crate) filled_n_val: u32,
}

impl ReplicaCount {
    /// So many replicas that all have the bucket's records, or for which it does not matter whether they do.
    pub(crate) const fn all_filled(n_val: u32) -> Self {
        Self { n_val, filled_n_val: n_val }
    }
}

/// Votes of one node in one layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Voter {
    /// Which node.
    pub(crate) node: NodePlace,
    /// Positions whose own node this is.
    pub(crate) primary: u32,
    /// Positions of dead primaries that it answers for.
    pub(crate) stand_in: u32,
}

impl Voter {
    /// Positions that an answer of this node counts for.
    pub(crate) const fn votes(&self) -> u32 {
        self.primary + self.stand_in
    }
}

/// The nodes that a request goes to, in the order of preference, each once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Voters {
    voters: SmallVec<[Voter; 4]>,
}

/// The nodes that a write goes to in each live layout, oldest layout first.
pub(crate) type Layouts = SmallVec<[Voters; 2]>;

impl Voters {
    /// Hands out the votes of `n_val` positions to nodes that are up. `order` is the partition's whole
    /// preference order. With `sloppy` other nodes stand in for dead primaries.
    ///
    /// No allocation for up to four nodes; looks at no more of the order than it needs.
    pub(crate) fn assign(
        mut order: impl ExactSizeIterator<Item = NodePlace>,
        n_val: u32,
        sloppy: bool,
        is_up: impl Fn(NodePlace) -> bool,
    ) -> Self {
        let mut voters = Self::default();
        let primary_count = n_val.min(order.len() as u32);
        let mut orphaned = 0;
        for (place, node) in (0..primary_count).zip(&mut order) {
            // Positions place, place + k, place + 2k and so on.
            let positions = (n_val - place).div_ceil(primary_count);
            if is_up(node) {
                voters.voters.push(Voter { node, primary: positions, stand_in: 0 });
            } else {
                orphaned += positions;
            }
        }
        if !sloppy || orphaned == 0 {
            return voters;
        }
        for node in order.filter(|node| is_up(*node)).take(orphaned as usize) {
            voters.voters.push(Voter { node, primary: 0, stand_in: 1 });
            orphaned -= 1;
        }
        // No further node is left: those that were chosen answer for the rest, evenly.
        for _ in 0..orphaned {
            let Some(fewest) = voters.voters.iter_mut().min_by_key(|voter| voter.votes()) else {
                break;
            };
            fewest.stand_in += 1;
        }
        voters
    }

    /// Takes from some nodes what counts as a primary's vote: they answer like fallbacks, which know only a
    /// part of what was written.
    pub(crate) fn demote(&mut self, knows_a_part: impl Fn(NodePlace) -> bool) {
        for voter in self.voters.iter_mut().filter(|voter| knows_a_part(voter.node)) {
            voter.stand_in += voter.primary;
            voter.primary = 0;
        }
    }

    /// The nodes and their votes, most preferred first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Voter> {
        self.voters.iter()
    }

    /// A node's votes.
    pub(crate) fn of(&self, node: NodePlace) -> Option<&Voter> {
        self.voters.iter().find(|voter| voter.node == node)
    }

    /// Number of nodes.
    pub(crate) fn node_count(&self) -> u32 {
        self.voters.len() as u32
    }

    /// Votes of all nodes together.
    pub(crate) fn votes(&self) -> u32 {
        self.voters.iter().map(Voter::votes).sum()
    }

    /// Positions whose own node is up.
    pub(crate) fn primary_votes(&self) -> u32 {
        self.voters.iter().map(|voter| voter.primary).sum()
    }
}

#[cfg(test)]
mod tests;
