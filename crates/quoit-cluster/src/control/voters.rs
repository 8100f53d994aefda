//! Choice of the voters.

use crate::NodeId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A member that can be a voter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    pub(crate) id: NodeId,
    pub(crate) location: Option<Arc<str>>,
    /// True if it is a voter now.
    pub(crate) votes: bool,
    /// True if it can be relied on: it was reachable recently and its log is not far behind.
    pub(crate) is_fit: bool,
    /// True if it is leaving: it hands over its data and will stop.
    pub(crate) is_leaving: bool,
}

/// Returns the number of voters for a number of candidates. It is odd, because an even number enlarges the
/// majority without tolerating one more failure. Five voters survive the loss of any two.
const fn voter_count(member_count: usize) -> usize {
    match member_count {
        0..=2 => 1,
        3 | 4 => 3,
        _ => 5,
    }
}

/// Chooses one, three or five voters. The order of preference: fit candidates; candidates that are not
/// leaving; candidates from locations with fewer chosen voters; current voters. An unfit voter stays until
/// a fit candidate can take its place, unless the number of voters would be even.
///
/// A voter that is leaving remains a voter if there would be fewer voters without it. Handing over its data
/// may take hours. During this time, a cluster of three must not depend on a single voter.
pub(crate) fn choose_voters(candidates: &[Candidate]) -> BTreeSet<NodeId> {
    let count = voter_count(candidates.len());
    let mut chosen: Vec<&Candidate> = Vec::new();
    while chosen.len() < count {
        let crowd = |candidate: &Candidate| {
            chosen.iter().filter(|other| other.location == candidate.location).count()
        };
        let left = candidates.iter().filter(|candidate| !chosen.contains(candidate));
        // An unfit voter stays if no fit candidate is left. An unfit learner never becomes a voter.
        let able =
            left.filter(|candidate| candidate.votes || (candidate.is_fit && !candidate.is_leaving));
        let best = able.min_by_key(|candidate| {
            let is_new = !candidate.votes;
            (!candidate.is_fit, candidate.is_leaving, crowd(candidate), is_new, candidate.id)
        });
        let Some(best) = best else { break };
        chosen.push(best);
    }
    // An even number of voters tolerates no more failures than one voter less, and needs one more answer.
    if chosen.len() > 1 && chosen.len().is_multiple_of(2) {
        chosen.pop();
    }
    debug_assert!(
        chosen.len() <= count && (chosen.is_empty() || !chosen.len().is_multiple_of(2)),
        "one, three or five vote, or none if none can"
    );
    debug_assert!(
        chosen.iter().all(|candidate| candidate.votes || candidate.is_fit),
        "an unfit learner does not become a voter"
    );
    chosen.iter().map(|candidate| candidate.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidate(id: u8, location: &str, votes: bool, is_fit: bool) -> Candidate {
        let location = (!location.is_empty()).then(|| Arc::from(location));
        Candidate { id: NodeId([id; 16]), location, votes, is_fit, is_leaving: false }
    }

    fn chosen(candidates: &[Candidate]) -> Vec<u8> {
        choose_voters(candidates).iter().map(|id| id.0[0]).collect()
    }

    fn fit(ids: std::ops::Range<u8>) -> Vec<Candidate> {
        ids.map(|id| candidate(id, "", false, true)).collect()
    }

    #[test]
    fn one_three_or_five_vote() {
        for (members, voters) in [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (6, 5), (40, 5)] {
            assert_eq!(chosen(&fit(0..members)).len(), voters, "{members} members");
        }
    }

    #[test]
    fn voters_stay_while_they_are_fit() {
        let mut candidates = fit(0..7);
        for voter in &mut candidates[2..] {
            voter.votes = true;
        }
        assert_eq!(chosen(&candidates), [2, 3, 4, 5, 6]);
        candidates[4].is_fit = false;
        assert_eq!(chosen(&candidates), [0, 2, 3, 5, 6]);
    }

    #[test]
    fn locations_are_spread_before_anything_else() {
        let candidates = [
            candidate(1, "a", true, true),
            candidate(2, "a", true, true),
            candidate(3, "a", true, true),
            candidate(4, "b", false, true),
        ];
        assert_eq!(chosen(&candidates), [1, 2, 4]);
    }

    #[test]
    fn unfit_voter_is_kept_when_nobody_can_take_its_place() {
        let mut candidates = fit(0..3);
        for candidate in &mut candidates {
            candidate.votes = true;
        }
        candidates[1].is_fit = false;
        assert_eq!(chosen(&candidates), [0, 1, 2]);
        candidates[1].votes = false;
        assert_eq!(chosen(&candidates), [0], "two voters are worse than one");
    }

    #[test]
    fn leaver_votes_on_only_while_fewer_would_vote_without_it() {
        let leaving = |others: std::ops::Range<u8>| {
            let mut candidates = vec![candidate(0, "", true, true)];
            candidates[0].is_leaving = true;
            candidates.extend(fit(others));
            candidates
        };
        assert_eq!(chosen(&leaving(1..2)), [1], "one of two votes");
        assert_eq!(chosen(&leaving(1..3)), [0, 1, 2]);
        assert_eq!(chosen(&leaving(1..4)), [1, 2, 3]);
        assert_eq!(chosen(&leaving(1..5)).len(), 5);
        let mut learner = leaving(1..3);
        learner[0].votes = false;
        assert_eq!(chosen(&learner), [1], "a leaver does not begin to vote");
    }

    proptest! {
        #[test]
        fn choice_is_stable_and_odd(
            members in prop::collection::vec(
                (any::<bool>(), any::<bool>(), any::<bool>(), 0u8..4),
                1..20,
            ),
        ) {
            let mut candidates: Vec<_> = members
                .iter()
                .enumerate()
                .map(|(id, (votes, is_fit, is_leaving, place))| Candidate {
                    is_leaving: *is_leaving,
                    ..candidate(id as u8, ["", "a", "b", "c"][usize::from(*place)], *votes, *is_fit)
                })
                .collect();
            let first = choose_voters(&candidates);
            prop_assert!(first.is_empty() || first.len() % 2 == 1);
            for candidate in &mut candidates {
                candidate.votes = first.contains(&candidate.id);
            }
            prop_assert_eq!(choose_voters(&candidates), first, "chosen again");
        }
    }
}
