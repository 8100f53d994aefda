//! Time for which the node may not have learned of rights that were changed elsewhere.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Shorter times are not told: a node that starts needs a moment to find the others, and so does an election.
const TOLD_AFTER: Duration = Duration::from_secs(5);

/// The beginning of the time in which the node reaches no majority of the voters, if it reaches none.
#[derive(Debug, Default)]
pub(super) struct CutOff {
    current: Mutex<Option<Spell>>,
}

/// A time in which the node reaches no majority.
#[derive(Clone, Copy, Debug)]
struct Spell {
    since: Instant,
    is_told: bool,
}

/// A change of whether the node reaches a majority of the voters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CutOffChange {
    /// It does no longer, for longer than an election takes.
    Began,
    /// It does again, after so long.
    Ended(Duration),
}

impl CutOff {
    /// Takes note of how it is now.
    pub(super) fn note(&self, is_cut_off: bool, now: Instant) -> Option<CutOffChange> {
        let mut current = self.current.lock();
        if !is_cut_off {
            let ended = current.take().filter(|spell| spell.is_told)?;
            return Some(CutOffChange::Ended(now.saturating_duration_since(ended.since)));
        }
        let spell = current.get_or_insert(Spell { since: now, is_told: false });
        let is_news = !spell.is_told && now.saturating_duration_since(spell.since) >= TOLD_AFTER;
        spell.is_told |= is_news;
        is_news.then_some(CutOffChange::Began)
    }

    /// How long the node has reached no majority; `None` = it does.
    pub(super) fn lasts(&self, now: Instant) -> Option<Duration> {
        self.current.lock().map(|spell| now.saturating_duration_since(spell.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_counts_from_the_first_note_and_ends_with_the_first_good_one() {
        let (cut_off, began) = (CutOff::default(), Instant::now());
        let later = |secs| began + Duration::from_secs(secs);
        assert_eq!(cut_off.note(false, began), None);
        assert_eq!(cut_off.lasts(later(1)), None);
        assert_eq!(cut_off.note(true, began), None);
        assert_eq!(cut_off.lasts(later(4)), Some(Duration::from_secs(4)));
        assert_eq!(cut_off.note(true, later(5)), Some(CutOffChange::Began));
        assert_eq!(cut_off.note(true, later(6)), None);
        assert_eq!(cut_off.lasts(later(7)), Some(Duration::from_secs(7)));
        let ended = CutOffChange::Ended(Duration::from_secs(9));
        assert_eq!(cut_off.note(false, later(9)), Some(ended));
        assert_eq!(cut_off.lasts(later(10)), None);
    }

    #[test]
    fn a_start_and_an_election_are_not_told() {
        let (cut_off, began) = (CutOff::default(), Instant::now());
        let later = |secs| began + Duration::from_secs(secs);
        for second in [0, 10] {
            assert_eq!(cut_off.note(true, later(second)), None);
            assert_eq!(cut_off.note(true, later(second + 4)), None);
            assert_eq!(cut_off.note(false, later(second + 5)), None);
        }
    }
}
