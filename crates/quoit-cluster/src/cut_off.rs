//! Detection of the time in which the node may miss changes that others have agreed on.

use parking_lot::Mutex;
use quoit_planted::planted;
use std::time::Duration;
use tokio::time::Instant;

/// Time after which the node logs that it is cut off. Shorter times are usual after a start and during an
/// election.
const TOLD_AFTER: Duration = Duration::from_secs(5);

/// A time in which the node reaches no majority of the voters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutOff {
    /// Time at which the node noticed it, at most a second after it began.
    pub since: Instant,
    /// True if it was logged.
    pub is_logged: bool,
}

/// The current time without a majority, if there is one.
#[derive(Debug, Default)]
pub(crate) struct CutOffWatch {
    current: Mutex<Option<CutOff>>,
}

/// A change that is to be logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CutOffChange {
    /// The node has reached no majority for [`TOLD_AFTER`].
    Began,
    /// The node reaches a majority again, after this time.
    Ended(Duration),
}

impl CutOffWatch {
    /// Notes whether the node is cut off now. Returns a change that is to be logged.
    fn note(&self, is_cut_off: bool, now: Instant) -> Option<CutOffChange> {
        let mut current = self.current.lock();
        if !is_cut_off {
            let ended = current.take().filter(|cut_off| cut_off.is_logged)?;
            return Some(CutOffChange::Ended(now.saturating_duration_since(ended.since)));
        }
        let cut_off = current.get_or_insert(CutOff { since: now, is_logged: false });
        if planted!(ForgetsSince) {
            cut_off.since = now;
        }
        let is_news =
            !cut_off.is_logged && now.saturating_duration_since(cut_off.since) >= TOLD_AFTER;
        cut_off.is_logged |= is_news;
        is_news.then_some(CutOffChange::Began)
    }

    /// Notes whether the node is cut off now, and logs changes.
    pub(crate) fn update(&self, is_cut_off: bool) {
        match self.note(is_cut_off, Instant::now()) {
            Some(CutOffChange::Began) => tracing::warn!(
                "the node reaches no majority of the voters: it does not learn of users and rights that are \
                 changed elsewhere, and goes on with those that it knows"
            ),
            Some(CutOffChange::Ended(lasted)) => tracing::info!(
                seconds = lasted.as_secs(),
                "the node reaches a majority of the voters again, and learns of changed users and rights"
            ),
            None => {}
        }
    }

    /// Returns the current time without a majority, as last noted.
    pub(crate) fn current(&self) -> Option<CutOff> {
        *self.current.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_counts_from_the_first_note_and_ends_with_the_first_good_one() {
        let (watch, began) = (CutOffWatch::default(), Instant::now());
        let later = |secs| began + Duration::from_secs(secs);
        assert_eq!(watch.note(false, began), None);
        assert_eq!(watch.current(), None);
        assert_eq!(watch.note(true, began), None);
        assert_eq!(watch.note(true, later(4)), None);
        assert_eq!(watch.current(), Some(CutOff { since: began, is_logged: false }));
        assert_eq!(watch.note(true, later(5)), Some(CutOffChange::Began));
        assert_eq!(watch.note(true, later(6)), None);
        assert_eq!(watch.current(), Some(CutOff { since: began, is_logged: true }));
        let ended = CutOffChange::Ended(Duration::from_secs(9));
        assert_eq!(watch.note(false, later(9)), Some(ended));
        assert_eq!(watch.current(), None);
    }

    #[test]
    fn a_start_and_an_election_are_not_told() {
        let (watch, began) = (CutOffWatch::default(), Instant::now());
        let later = |secs| began + Duration::from_secs(secs);
        for second in [0, 10] {
            assert_eq!(watch.note(true, later(second)), None);
            assert_eq!(watch.note(true, later(second + 4)), None);
            assert_eq!(watch.note(false, later(second + 5)), None);
        }
    }
}
