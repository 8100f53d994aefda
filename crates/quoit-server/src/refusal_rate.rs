//! A bound of the lines that refusals of one kind get in a log, so that strangers can't rotate all other
//! lines away.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Refusals of one kind that are recorded within a second. Others are counted.
const REFUSALS_PER_SEC_MAX: u32 = 10;

/// Bounds the lines of refusals of one kind.
#[derive(Debug, Default)]
pub(crate) struct RefusalRate {
    /// The beginning of a second, and the refusals recorded since.
    recorded: Mutex<Option<(Instant, u32)>>,
    passed_over_count: AtomicU64,
}

impl RefusalRate {
    /// Whether there is room for one more line. Counts those for which there is none.
    pub(crate) fn has_room(&self, now: Instant) -> bool {
        let second = Duration::from_secs(1);
        let mut recorded = self.recorded.lock();
        let same = recorded.filter(|(began, _)| now.saturating_duration_since(*began) < second);
        let (began, count) = same.unwrap_or((now, 0));
        let has_room = count < REFUSALS_PER_SEC_MAX;
        *recorded = Some((began, count + u32::from(has_room)));
        if !has_room {
            self.passed_over_count.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    /// Refusals for which there was no room, since the start.
    pub(crate) fn passed_over_count(&self) -> u64 {
        self.passed_over_count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_strangers_are_recorded_few_a_second_and_the_others_counted() {
        let rate = RefusalRate::default();
        let began = Instant::now();
        let recorded = (0..100).filter(|_| rate.has_room(began)).count();
        assert_eq!(recorded, REFUSALS_PER_SEC_MAX as usize);
        assert_eq!(
            rate.passed_over_count.load(Ordering::Relaxed),
            100 - u64::from(REFUSALS_PER_SEC_MAX)
        );
        assert!(rate.has_room(began + Duration::from_secs(1)), "the next second has room");
    }
}
