//! The conditions that end a write, and the answers so far. Pure.

use super::{NodeIndex, Voters};
use crate::error::{QuorumKind, RequestError};
use quoit_model::props::WriteQuorums;
use quoit_planted::planted;
use smallvec::SmallVec;

/// Conditions that end a write. They must hold in every live layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WriteNeed {
    /// Votes that must accept the write.
    pub(crate) w: u32,
    /// Votes that must sync it.
    pub(crate) dw: u32,
    /// Primaries' votes that must be among those that accept it.
    pub(crate) pw: u32,
    /// Distinct nodes that must accept it.
    pub(crate) node_confirms: u32,
}

impl From<&WriteQuorums> for WriteNeed {
    fn from(quorums: &WriteQuorums) -> Self {
        let WriteQuorums { w, dw, pw, node_confirms, .. } = *quorums;
        Self { w, dw, pw, node_confirms }
    }
}

/// Votes and nodes counted in one layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct LayoutCounts {
    accepted: u32,
    synced: u32,
    primary: u32,
    nodes: u32,
}

/// Answers to a write so far.
#[derive(Clone, Debug)]
pub(crate) struct WriteTally {
    need: WriteNeed,
    accepted: SmallVec<[NodeIndex; 4]>,
    synced: SmallVec<[NodeIndex; 4]>,
}

impl WriteTally {
    /// A write that no node has accepted.
    pub(crate) fn new(need: WriteNeed) -> Self {
        Self { need, accepted: SmallVec::new(), synced: SmallVec::new() }
    }

    /// Checks before anything is written that the nodes that are up can meet pw by their primary votes,
    /// w and dw by their votes, and node_confirms by their number, in every layout.
    ///
    /// # Errors
    ///
    /// The quorum that can't be met, with the number of votes or nodes that there are.
    pub(crate) fn check(need: &WriteNeed, layouts: &[Voters]) -> Result<(), RequestError> {
        debug_assert!(!layouts.is_empty(), "a write goes by at least one layout");
        for voters in layouts {
            let (up, votes) = (voters.primary_votes(), voters.votes());
            if up < need.pw {
                return Err(RequestError::Unsatisfied {
                    kind: QuorumKind::Pw,
                    wanted: need.pw,
                    got: up,
                });
            }
            let wanted = need.w.max(need.dw);
            if votes < wanted {
                return Err(RequestError::InsufficientVnodes { have: votes, wanted });
            }
            Self::check_nodes(need.node_confirms, voters.node_count())?;
        }
        Ok(())
    }

    /// Checks before anything is written that `have` nodes can meet node_confirms.
    ///
    /// # Errors
    ///
    /// node_confirms, with the number of nodes.
    pub(crate) fn check_nodes(wanted: u32, have: u32) -> Result<(), RequestError> {
        if have < wanted {
            let kind = QuorumKind::NodeConfirms;
            return Err(RequestError::Unsatisfied { kind, wanted, got: have });
        }
        Ok(())
    }

    /// Notes that a node has accepted the write: it survives the death of the node's process.
    pub(crate) fn accept(&mut self, node: NodeIndex) {
        if !self.accepted.contains(&node) {
            self.accepted.push(node);
        }
    }

    /// Notes that a node has synced the write: it survives the death of the node's machine. Implies
    /// acceptance.
    pub(crate) fn sync(&mut self, node: NodeIndex) {
        self.accept(node);
        if !self.synced.contains(&node) {
            self.synced.push(node);
        }
    }

    /// True if the quorums are met in every layout.
    pub(crate) fn is_met(&self, layouts: &[Voters]) -> bool {
        self.missing(layouts).is_ok()
    }

    /// Checks that the quorums are met in every layout.
    ///
    /// # Errors
    ///
    /// The first quorum that is not met, with the votes or nodes that it has so far.
    pub(crate) fn missing(&self, layouts: &[Voters]) -> Result<(), RequestError> {
        debug_assert!(!layouts.is_empty(), "a write that no layout asks for has no quorum");
        let count = if planted!(SatisfiesOneLayout) { 1 } else { layouts.len() };
        layouts.iter().take(count).try_for_each(|voters| self.missing_in(self.counts(voters)))
    }

    fn missing_in(&self, counts: LayoutCounts) -> Result<(), RequestError> {
        let need = &self.need;
        let wants = [
            (QuorumKind::W, need.w, counts.accepted),
            (QuorumKind::Dw, need.dw, counts.synced),
            (QuorumKind::Pw, need.pw, counts.primary),
            (QuorumKind::NodeConfirms, need.node_confirms, counts.nodes),
        ];
        let short = u32::from(planted!(CountsWritesShort));
        match wants.into_iter().find(|(_, wanted, got)| got + short < *wanted) {
            None => Ok(()),
            Some((kind, wanted, got)) => Err(RequestError::Unsatisfied { kind, wanted, got }),
        }
    }

    fn counts(&self, voters: &Voters) -> LayoutCounts {
        let mut counts = LayoutCounts::default();
        for node in &self.accepted {
            if let Some(voter) = voters.of(*node) {
                counts.accepted += voter.votes();
                let is_counted = planted!(CountsFallbacksAsPrimaries);
                counts.primary += if is_counted { voter.votes() } else { voter.primary };
                counts.nodes += 1;
            }
        }
        for node in &self.synced {
            counts.synced += voters.of(*node).map_or(0, super::Voter::votes);
        }
        debug_assert!(counts.accepted <= voters.votes(), "the votes of a node count once");
        debug_assert!(counts.synced <= counts.accepted, "a node that has synced has accepted");
        debug_assert!(counts.primary <= counts.accepted, "a primary's vote is a vote");
        debug_assert!(counts.nodes <= counts.accepted, "each voter has a vote");
        counts
    }
}
