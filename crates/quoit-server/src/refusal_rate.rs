//! A limit on the log lines for refusals of one type, so that strangers can't flood the log and rotate all
//! other lines away.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Number of refusals of one type that are logged in a second. Further ones are only counted.
const REFUSALS_PER_SEC_MAX: u32 = 10;

/// Limits the log lines for refusals of one type.
#[derive(Debug, Default)]
pub(crate) struct RefusalRate {
    /// The beginning of the current second, and the number of refusals logged since.
    recorded: Mutex<Option<(Instant, u32)>>,
    passed_over_count: AtomicU64,
}

impl RefusalRate {
    /// True if one more line may be logged. Counts the refusals for which it returns false.
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

    /// Number of refusals that were not logged, since the start.
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
