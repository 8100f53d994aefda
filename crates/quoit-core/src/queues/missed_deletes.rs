//! Missed deletes: deletes that a queue does not bring to its sinks, so that only full-sync can.
//!
//! A queue that is suspended or full discards them, a cleared queue forgets them, and the filter of the
//! queue that full-sync uses may leave them out. The reap records of such deletes must stay until a
//! full-sync has found that the sink's cluster lacks nothing. A full-sync proves that only for deletes
//! that had reached every replica when it began. Deletes of the two minutes before its beginning
//! therefore wait for the next full-sync.

use quoit_number::saturating_u64;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Age in microseconds from which on a delete is assumed to be on all replicas: the longest time that a
/// message can be under way (`docs/design/reaping.md`).
const SETTLING_US: u64 = 120_000_000;

/// Random number of a full-sync, drawn by the node that runs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FullSyncNumber(pub u64);

/// Missed deletes of a queue.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct MissedDeletes {
    /// Times of the first and the last of them, microseconds since 1970.
    span_us: Option<(u64, u64)>,
    /// The full-sync that began last.
    check: Option<RunningCheck>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct RunningCheck {
    number: FullSyncNumber,
    /// Times of the deletes that this full-sync proves nothing about.
    later_us: Option<(u64, u64)>,
}

impl MissedDeletes {
    /// Missed deletes that an earlier process noted.
    pub(super) fn restored(span_us: Option<(u64, u64)>) -> Self {
        Self { span_us, check: None }
    }

    /// Times of the first and the last of them, microseconds since 1970.
    pub(super) fn span_us(&self) -> Option<(u64, u64)> {
        self.span_us
    }

    /// Time of the first of them.
    pub(super) fn since_us(&self) -> Option<u64> {
        self.span_us.map(|(first_us, _)| first_us)
    }

    /// Notes deletes that were made between two times, in microseconds since 1970.
    pub(super) fn note(&mut self, made_us: RangeInclusive<u64>) {
        let (first_us, last_us) = made_us.into_inner();
        assert!(first_us <= last_us, "the first delete comes before the last");
        let check = self.check.as_mut().map(|check| &mut check.later_us);
        for span_us in std::iter::once(&mut self.span_us).chain(check) {
            let (first, last) = span_us.unwrap_or((first_us, last_us));
            *span_us = Some((first.min(first_us), last.max(last_us)));
        }
        self.assert_order();
    }

    /// Checks, in debug builds, that the times are in order, and that the deletes which stay missed after the
    /// full-sync are among the missed ones.
    fn assert_order(&self) {
        debug_assert!(
            self.span_us.is_none_or(|(first_us, last_us)| first_us <= last_us),
            "the first missed delete comes before the last"
        );
        let later_us = self.check.as_ref().and_then(|check| check.later_us);
        let is_part = |(first_us, last_us): (u64, u64)| {
            let is_within = |span: (u64, u64)| span.0 <= first_us && last_us <= span.1;
            first_us <= last_us && self.span_us.is_some_and(is_within)
        };
        debug_assert!(
            later_us.is_none_or(is_part),
            "deletes that stay missed after the full-sync are missed now"
        );
    }

    /// Notes that a full-sync begins. `settling_max` limits the age from which on deletes count as settled.
    pub(super) fn begin_full_sync(
        &mut self,
        number: FullSyncNumber,
        now_us: u64,
        settling_max: Duration,
    ) {
        let settling_us = SETTLING_US.min(saturating_u64(settling_max.as_micros()));
        let settled_us = now_us.saturating_sub(settling_us);
        let later = |(first_us, last_us): (u64, u64)| (first_us.max(settled_us), last_us);
        let later_us = self.span_us.map(later).filter(|(first_us, last_us)| first_us <= last_us);
        self.check = Some(RunningCheck { number, later_us });
        self.assert_order();
    }

    /// Notes that a full-sync has found that the other cluster lacks nothing. Only the full-sync that
    /// began last counts.
    pub(super) fn end_full_sync(&mut self, number: FullSyncNumber) {
        if let Some(check) = self.check.take_if(|check| check.number == number) {
            self.span_us = check.later_us;
        }
        self.assert_order();
    }

    /// Forgets all of them: an operator has dealt with them.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000_000;

    #[test]
    fn a_full_sync_clears_deletes_that_were_settled_when_it_began() {
        let mut missed = MissedDeletes::default();
        missed.note(MINUTE..=2 * MINUTE);
        missed.begin_full_sync(FullSyncNumber(7), 10 * MINUTE, Duration::MAX);
        missed.end_full_sync(FullSyncNumber(8));
        assert_eq!(missed.since_us(), Some(MINUTE), "another full-sync has ended");
        missed.end_full_sync(FullSyncNumber(7));
        assert_eq!(missed.since_us(), None);
    }

    #[test]
    fn deletes_of_the_last_two_minutes_and_those_meanwhile_wait_for_the_next_full_sync() {
        let mut missed = MissedDeletes::default();
        missed.note(MINUTE..=9 * MINUTE);
        missed.begin_full_sync(FullSyncNumber(7), 10 * MINUTE, Duration::MAX);
        missed.note(11 * MINUTE..=11 * MINUTE);
        missed.end_full_sync(FullSyncNumber(7));
        assert_eq!(missed.span_us(), Some((8 * MINUTE, 11 * MINUTE)));
        missed.begin_full_sync(FullSyncNumber(9), 20 * MINUTE, Duration::MAX);
        missed.note(21 * MINUTE..=21 * MINUTE);
        missed.end_full_sync(FullSyncNumber(9));
        assert_eq!(missed.span_us(), Some((21 * MINUTE, 21 * MINUTE)));
    }
}
