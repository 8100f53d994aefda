//! Pauses between the operations of a worker that works at a rate.
//!
//! A timer wakes some tens of microseconds late. At thousands of operations per second, that would make
//! each pause noticeably longer than drawn. So the next pause is shortened by the lateness of the earlier
//! ones.

use std::time::{Duration, Instant};

/// Maximum lateness that later pauses compensate. A process that was suspended for longer does not send a
/// burst afterwards.
const LATENESS_MAX: Duration = Duration::from_millis(10);

/// The pauses of one worker.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// Time by which earlier pauses exceeded their drawn length, not compensated yet.
    lateness: Duration,
}

impl Pauses {
    /// The end of a pause of `drawn_s` seconds that begins `now`, shortened by the lateness of earlier
    /// pauses.
    pub(super) fn end_of_next(&mut self, now: Instant, drawn_s: f64) -> Instant {
        let drawn = Duration::try_from_secs_f64(drawn_s).unwrap_or(Duration::MAX);
        let pause = drawn.saturating_sub(self.lateness);
        self.lateness = self.lateness.saturating_sub(drawn);
        // A pause beyond the range of the clock lasts until the end of the run.
        now.checked_add(pause).unwrap_or_else(|| now + Duration::from_secs(u64::from(u32::MAX)))
    }

    /// Records that a pause ended `late` after the time at which it was due to end.
    pub(super) fn ended(&mut self, late: Duration) {
        self.lateness = (self.lateness + late).min(LATENESS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goodness_of_fit::{SEEDS, assert_mean, assert_mean_and_distribution};
    use crate::random::{Random, RandomKind, Seed};

    const COUNT: usize = 200_000;

    /// The pauses of a worker whose timer always wakes `late` after the time, on a simulated clock, as
    /// multiples of the mean pause.
    fn pauses(per_second: f64, late: Duration, seed: [i64; 3]) -> Vec<f64> {
        let mut random = Random::new(RandomKind::Xoshiro, Seed(seed), 1);
        let mut pauses = Pauses::default();
        let began = Instant::now();
        let next = |_| {
            let until = pauses.end_of_next(began, random.exponential(1.0 / per_second));
            let pause = until.saturating_duration_since(began);
            // A pause of length zero does not use the timer.
            let late = if pause.is_zero() { Duration::ZERO } else { late };
            pauses.ended(late);
            (pause + late).as_secs_f64() * per_second
        };
        (0..COUNT).map(next).collect()
    }

    const RATES: [f64; 5] = [100.0, 1000.0, 5000.0, 20_000.0, 200_000.0];

    #[test]
    fn pauses_are_exponential_and_of_the_mean_that_is_named_at_any_rate() {
        for (rate, seed) in RATES.into_iter().flat_map(|rate| SEEDS.map(|seed| (rate, seed))) {
            let drawn = pauses(rate, Duration::ZERO, seed);
            assert_mean_and_distribution(&format!("{rate}/s, seed {seed:?}"), drawn);
        }
    }

    #[test]
    fn the_mean_is_as_named_however_late_the_timer_is() {
        for (rate, seed) in RATES.into_iter().flat_map(|rate| SEEDS.map(|seed| (rate, seed))) {
            let drawn = pauses(rate, Duration::from_micros(60), seed);
            assert_mean(&format!("{rate}/s, seed {seed:?}"), &drawn);
        }
    }

    #[test]
    fn a_long_stall_is_not_made_up_for() {
        let mut pauses = Pauses::default();
        pauses.ended(Duration::from_secs(5));
        assert_eq!(pauses.lateness, LATENESS_MAX);
    }
}
