//! Time for which the node may not have learned of rights that were changed elsewhere.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// The beginning of the time in which the node reaches no majority of the voters, if it reaches none.
#[derive(Debug, Default)]
pub(super) struct CutOff {
    since: Mutex<Option<Instant>>,
}

/// A change of whether the node reaches a majority of the voters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CutOffChange {
    /// It does no longer.
    Began,
    /// It does again, after so long.
    Ended(Duration),
}

impl CutOff {
    /// Takes note of how it is now.
    pub(super) fn note(&self, is_cut_off: bool, now: Instant) -> Option<CutOffChange> {
        let mut since = self.since.lock();
        match (is_cut_off, *since) {
            (true, None) => {
                *since = Some(now);
                Some(CutOffChange::Began)
            }
            (false, Some(began)) => {
                *since = None;
                Some(CutOffChange::Ended(now.saturating_duration_since(began)))
            }
            (true, Some(_)) | (false, None) => None,
        }
    }

    /// How long the node has reached no majority; `None` = it does.
    pub(super) fn lasts(&self, now: Instant) -> Option<Duration> {
        self.since.lock().map(|since| now.saturating_duration_since(since))
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
        assert_eq!(cut_off.note(true, began), Some(CutOffChange::Began));
        assert_eq!(cut_off.note(true, later(5)), None);
        assert_eq!(cut_off.lasts(later(7)), Some(Duration::from_secs(7)));
        let ended = CutOffChange::Ended(Duration::from_secs(9));
        assert_eq!(cut_off.note(false, later(9)), Some(ended));
        assert_eq!(cut_off.lasts(later(10)), None);
    }
}
