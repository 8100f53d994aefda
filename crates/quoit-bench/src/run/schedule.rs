//! When the operations of an open loop are due.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::config::Arrivals;
use crate::random::Random;

/// The arrivals of a run, each taken by one worker. What the workers do has no bearing on it.
#[derive(Debug)]
pub(super) struct Schedule {
    rate_per_s: f64,
    arrivals: Arrivals,
    state: Mutex<ScheduleState>,
    /// Arrivals that were taken, and not started because the run was over.
    given_up: AtomicU64,
}

#[derive(Debug)]
struct ScheduleState {
    random: Random,
    /// Arrivals that were taken.
    count: u64,
    /// When the last Poisson arrival was due.
    last_s: f64,
}

impl Schedule {
    /// A schedule that draws from `random`.
    pub(super) fn new(rate_per_s: f64, arrivals: Arrivals, random: Random) -> Self {
        let state = Mutex::new(ScheduleState { random, count: 0, last_s: 0.0 });
        Self { rate_per_s, arrivals, state, given_up: AtomicU64::new(0) }
    }

    /// Takes the next arrival: when it is due, from the release of the workers on. Costs a short
    /// lock.
    pub(super) fn take(&self) -> Duration {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let due_s = match self.arrivals {
            // From the count, so that errors of rounding do not add up.
            Arrivals::Constant => state.count as f64 / self.rate_per_s,
            Arrivals::Poisson => state.last_s + state.random.exponential(1.0 / self.rate_per_s),
        };
        state.count += 1;
        state.last_s = due_s;
        Duration::try_from_secs_f64(due_s).unwrap_or(Duration::MAX)
    }

    /// Notes that an arrival that was taken is not started.
    pub(super) fn give_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    /// How many arrivals were due before `end`, from the release on, and were not started: more
    /// than none means that the workers were too few or the server too slow. Uses the schedule up.
    pub(super) fn unstarted(&self, end: Duration) -> u64 {
        let given_up = self.given_up.load(Ordering::Relaxed);
        given_up + (0..).take_while(|_| self.take() < end).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{RandomKind, Seed};

    fn schedule(rate_per_s: f64, arrivals: Arrivals) -> Schedule {
        let random = Random::new(RandomKind::Xoshiro, Seed::default(), 0);
        Schedule::new(rate_per_s, arrivals, random)
    }

    #[test]
    fn constant_arrivals_are_evenly_spaced() {
        let schedule = schedule(4.0, Arrivals::Constant);
        let due: Vec<Duration> = (0..4).map(|_| schedule.take()).collect();
        assert_eq!(due, [0, 250, 500, 750].map(Duration::from_millis));
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_gaps_that_vary_as_much_as_they_are_long() {
        let schedule = schedule(1000.0, Arrivals::Poisson);
        let due: Vec<f64> = (0..100_000).map(|_| schedule.take().as_secs_f64()).collect();
        let gaps: Vec<f64> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 0.001).abs() < 0.000_02, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{variance}");
    }

    #[test]
    fn what_was_due_and_not_started_is_counted() {
        let schedule = schedule(10.0, Arrivals::Constant);
        assert_eq!((0..7).map(|_| schedule.take()).max(), Some(Duration::from_millis(600)));
        schedule.give_up();
        // Ten are due in the first second: 0.0 to 0.9.
        assert_eq!(schedule.unstarted(Duration::from_secs(1)), 3 + 1);
    }
}
