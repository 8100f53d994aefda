//! The pauses between the operations of a worker that works at a rate.
//!
//! A timer wakes a little late, by some tens of microseconds. At thousands of operations a second that would
//! make each pause a good part longer than it was drawn, so the next pause is shorter by as much.

use std::time::{Duration, Instant};

/// Lateness that later pauses make up for. A process that stood still longer is not followed by a burst.
const LATENESS_MAX: Duration = Duration::from_millis(10);

/// The pauses of one worker.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// Time that pauses have taken beyond what was drawn for them.
    lateness: Duration,
}

impl Pauses {
    /// The end of a pause of `drawn_s` seconds that begins `now`: earlier by what earlier pauses were late.
    pub(super) fn end_of_next(&mut self, now: Instant, drawn_s: f64) -> Instant {
        let drawn = Duration::try_from_secs_f64(drawn_s).unwrap_or(Duration::MAX);
        let pause = drawn.saturating_sub(self.lateness);
        self.lateness = self.lateness.saturating_sub(drawn);
        // A pause beyond the clock's range ends with the run.
        now.checked_add(pause).unwrap_or_else(|| now + Duration::from_secs(u64::from(u32::MAX)))
    }

    /// Notes when a pause ended.
    pub(super) fn ended(&mut self, until: Instant, now: Instant) {
        self.lateness = (self.lateness + now.saturating_duration_since(until)).min(LATENESS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Random, RandomKind, Seed};

    /// The mean pause of a worker whose timer wakes `late` after the end, by a clock of its own.
    fn mean_pause(per_second: f64, late: Duration) -> f64 {
        let mut random = Random::new(RandomKind::Xoshiro, Seed::default(), 1);
        let mut pauses = Pauses::default();
        let mut paused = Duration::ZERO;
        let count = 200_000;
        for _ in 0..count {
            let began = Instant::now();
            let until = pauses.end_of_next(began, random.exponential(1.0 / per_second));
            let pause = until.saturating_duration_since(began);
            // A pause that is over at once takes no timer.
            let late = if pause.is_zero() { Duration::ZERO } else { late };
            pauses.ended(until, until + late);
            paused += pause + late;
        }
        paused.as_secs_f64() / f64::from(count)
    }

    #[test]
    fn the_mean_is_as_named_at_any_rate_however_late_the_timer_is() {
        for per_second in [100.0, 5_000.0, 20_000.0] {
            for late in [0, 60] {
                let mean = mean_pause(per_second, Duration::from_micros(late));
                let ratio = mean * per_second;
                assert!((ratio - 1.0).abs() < 0.02, "{per_second}/s, {late} us late: {ratio}");
            }
        }
    }

    #[test]
    fn a_long_stall_is_not_made_up_for() {
        let mut pauses = Pauses::default();
        let until = pauses.end_of_next(Instant::now(), 0.0);
        pauses.ended(until, until + Duration::from_secs(5));
        assert_eq!(pauses.lateness, LATENESS_MAX);
    }
}
