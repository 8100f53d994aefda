//! Decides whether the grants of a write are enough. Pure.

use crate::error::{QuorumKind, RequestError};
use crate::votes::{NodeIndex, Voter, Voters};
use quoit_planted::planted;

/// The answer of a primary to a request for a grant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GrantAnswer {
    /// It grants the write.
    Granted {
        /// True if the primary's copy of the partition is complete.
        is_complete: bool,
    },
    /// Another write holds a grant there.
    HeldByOther,
    /// It did not answer, or can't grant.
    Failed,
}

/// Decision from the answers of all primaries.
#[derive(Debug)]
pub(crate) enum GrantDecision {
    /// The write may be made.
    Granted,
    /// Other writes hold the grants that are missing. The coordinator may try again.
    HeldByOther,
    /// Too few primaries have answered for any write to get a majority.
    NoMajority(RequestError),
}

/// Smallest majority of `n_val` positions.
pub(crate) fn majority(n_val: u32) -> u32 {
    n_val / 2 + 1 - u32::from(planted!(CountsGrantsShort))
}

/// Looks for a majority of the `n_val` positions in every live layout. `reads` is the index of the layout
/// that serves reads. In that layout only complete copies count, because a filling copy may lack the
/// latest write.
pub(crate) fn decide(
    n_val: u32,
    layouts: &[Voters],
    reads: usize,
    answers: &[(NodeIndex, GrantAnswer)],
) -> GrantDecision {
    debug_assert!(!layouts.is_empty(), "a majority is one of at least one layout");
    let wanted = majority(n_val);
    for (index, voters) in layouts.iter().enumerate() {
        let votes = |counts: &dyn Fn(GrantAnswer) -> bool| -> u32 {
            // Counts voters and not answers, so that a node that answers twice has its votes once.
            let has_answered = |voter: &&Voter| {
                let mut of_voter = answers.iter().filter(|(node, _)| *node == voter.node);
                of_voter.any(|(_, answer)| counts(*answer))
            };
            voters.iter().filter(has_answered).map(|voter| voter.primary).sum()
        };
        let is_granted = |answer| match answer {
            GrantAnswer::Granted { is_complete } => is_complete || index != reads,
            GrantAnswer::HeldByOther | GrantAnswer::Failed => false,
        };
        let got = votes(&is_granted);
        debug_assert!(got <= n_val, "a position is granted once");
        if got >= wanted {
            continue;
        }
        if got + votes(&|answer| answer == GrantAnswer::HeldByOther) >= wanted {
            return GrantDecision::HeldByOther;
        }
        return GrantDecision::NoMajority(RequestError::Unsatisfied {
            kind: QuorumKind::Pw,
            wanted,
            got,
        });
    }
    GrantDecision::Granted
}
