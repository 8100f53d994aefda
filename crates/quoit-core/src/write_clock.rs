//! Last-write times: hybrid logical clocks that stay close to the local clock.

use std::sync::atomic::{AtomicU64, Ordering};

/// Most microseconds by which a last-write time runs ahead of the local clock.
const AHEAD_US_MAX: u64 = 500_000;

/// Time of a write, in microseconds since 1970: the local clock, or one microsecond after the latest of
/// the earlier times if that is less than [`AHEAD_US_MAX`] ahead. So the order of last-write times
/// follows the order of writes, and a node with a clock far ahead can't drag others along (Kulkarni et
/// al., "Logical Physical Clocks", 2014).
pub(crate) fn time_after<const COUNT: usize>(clock_us: u64, earlier_us: [u64; COUNT]) -> u64 {
    let bound_us = clock_us.saturating_add(AHEAD_US_MAX);
    let followed = earlier_us.into_iter().filter(|earlier_us| *earlier_us < bound_us);
    followed.map(|earlier_us| earlier_us + 1).fold(clock_us, u64::max)
}

/// Times of writes that do not read the object that they replace. Each time is later than all before it.
#[derive(Default)]
pub(crate) struct WriteClock {
    last_us: AtomicU64,
}

impl WriteClock {
    /// Returns a time later than those of all earlier calls and later than `replaced_us`, within the
    /// bound of [`time_after`]. Costs one atomic update.
    pub(crate) fn next(&self, clock_us: u64, replaced_us: u64) -> u64 {
        let next = |last_us: u64| time_after(clock_us, [last_us, replaced_us]);
        next(self.last_us.update(Ordering::AcqRel, Ordering::Acquire, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_rise_while_the_clock_goes_back_by_less_than_the_bound(
            steps in proptest::collection::vec((1..AHEAD_US_MAX / 2, 0..AHEAD_US_MAX / 2), 1..50),
        ) {
            let clock = WriteClock::default();
            let mut last_us = 0;
            for (clock_us, replaced_us) in steps {
                let time_us = clock.next(clock_us, replaced_us);
                prop_assert!(time_us >= clock_us && time_us > replaced_us && time_us > last_us);
                last_us = time_us;
            }
        }
    }

    #[test]
    fn a_time_far_ahead_is_not_followed() {
        let clock = WriteClock::default();
        assert_eq!(clock.next(10_000_000, 0), 10_000_000);
        assert_eq!(clock.next(10_000_000, 10_400_000), 10_400_001);
        assert_eq!(clock.next(10_000_000, u64::MAX), 10_400_002, "still after the last");
        assert_eq!(clock.next(9_900_000, 0), 9_900_000, "500 002 us ahead");
        assert_eq!(time_after(10_000_000, [10_500_000]), 10_000_000);
        assert_eq!(time_after(10_000_000, [10_499_999]), 10_500_000);
    }
}
