//! Times at which the operations of an open loop are due.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::config::Arrivals;
use crate::random::Random;
use crate::share::Share;

/// The arrivals of a run, each taken by one worker. The schedule does not depend on the progress of the
/// workers.
#[derive(Debug)]
pub(super) struct Schedule {
    rate_per_s: f64,
    arrivals: Arrivals,
    /// All shares draw all arrivals and take only their own, so that agents need not communicate.
    share: Share,
    state: Mutex<ScheduleState>,
    /// Number of arrivals that were taken but not started, because the run was over.
    given_up: AtomicU64,
}

#[derive(Debug)]
struct ScheduleState {
    random: Random,
    /// Number of arrivals drawn so far, of all shares.
    count: u64,
    /// Time of the last arrival, in seconds since the release.
    last_s: f64,
}

impl Schedule {
    /// Creates the schedule of a share. `rate_per_s` is the rate of all shares together. Every share must
    /// pass a `random` of the same state.
    pub(super) fn new(rate_per_s: f64, arrivals: Arrivals, share: Share, random: Random) -> Self {
        let state = Mutex::new(ScheduleState { random, count: 0, last_s: 0.0 });
        Self { rate_per_s, arrivals, share, state, given_up: AtomicU64::new(0) }
    }

    /// Takes the next arrival of the share and returns its time since the release of the workers. Costs one
    /// short lock, and one draw for each arrival of any share on the way.
    pub(super) fn take(&self) -> Duration {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let number = state.count;
            let due_s = match self.arrivals {
                // Computed from the count, so that rounding errors do not add up.
                Arrivals::Constant => number as f64 / self.rate_per_s,
                Arrivals::Poisson => state.last_s + state.random.exponential(1.0 / self.rate_per_s),
            };
            state.count += 1;
            state.last_s = due_s;
            if self.share.takes(number) {
                return Duration::try_from_secs_f64(due_s).unwrap_or(Duration::MAX);
            }
        }
    }

    /// Records that a taken arrival is not started.
    pub(super) fn give_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of arrivals that were due before `end` (since the release) and not started. Above 0, the
    /// workers were too few or the server too slow. Consumes the schedule.
    pub(super) fn unstarted(&self, end: Duration) -> u64 {
        let given_up = self.given_up.load(Ordering::Relaxed);
        given_up + (0..).take_while(|_| self.take() < end).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goodness_of_fit::{SEEDS, assert_mean_and_distribution};
    use crate::random::{RandomKind, Seed};

    fn schedule(rate_per_s: f64, arrivals: Arrivals) -> Schedule {
        let random = Random::new(RandomKind::Xoshiro, Seed::default(), 0);
        Schedule::new(rate_per_s, arrivals, Share::WHOLE, random)
    }

    /// Rates, in arrivals per second, over the range of realistic runs.
    const RATES: [f64; 5] = [100.0, 1000.0, 7777.7, 20_000.0, 200_000.0];

    #[test]
    fn constant_arrivals_are_evenly_spaced() {
        let schedule = schedule(4.0, Arrivals::Constant);
        let due: Vec<Duration> = (0..4).map(|_| schedule.take()).collect();
        assert_eq!(due, [0, 250, 500, 750].map(Duration::from_millis));
    }

    #[test]
    fn constant_arrivals_have_exactly_the_rate_for_as_long_as_they_go_on() {
        for rate in RATES {
            let schedule = schedule(rate, Arrivals::Constant);
            for number in 0..500_000_u64 {
                let due_s = schedule.take().as_secs_f64();
                let off_s = (due_s - number as f64 / rate).abs();
                // A `Duration` has a resolution of one nanosecond.
                assert!(off_s <= 1e-9, "arrival {number} of {rate}/s: {off_s} s off");
            }
        }
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_exponential_gaps() {
        let count = 200_000;
        for (rate, seed) in RATES.into_iter().flat_map(|rate| SEEDS.map(|seed| (rate, seed))) {
            let random = Random::new(RandomKind::Xoshiro, Seed(seed), 0);
            let schedule = Schedule::new(rate, Arrivals::Poisson, Share::WHOLE, random);
            let mut last = Duration::ZERO;
            let gaps: Vec<f64> = (0..count)
                .map(|_| {
                    let due = schedule.take();
                    (due - std::mem::replace(&mut last, due)).as_secs_f64() * rate
                })
                .collect();
            assert_mean_and_distribution(&format!("{rate}/s, seed {seed:?}"), gaps);
        }
    }

    #[test]
    fn shares_take_each_arrival_of_the_whole_once_and_at_its_time() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let of = |share| {
                let random = Random::new(RandomKind::Xoshiro, Seed::default(), 0);
                Schedule::new(777.7, arrivals, share, random)
            };
            let whole = of(Share::WHOLE);
            let shares: Vec<Schedule> =
                (0..4).filter_map(|index| Share::new(index, 4)).map(of).collect();
            for number in 0..4000 {
                assert_eq!(shares[number % 4].take(), whole.take(), "arrival {number}");
            }
            let end = Duration::from_secs(8);
            let unstarted: u64 = shares.iter().map(|share| share.unstarted(end)).sum();
            assert_eq!(unstarted, whole.unstarted(end));
        }
    }

    #[test]
    fn what_was_due_and_not_started_is_counted() {
        let schedule = schedule(10.0, Arrivals::Constant);
        assert_eq!((0..7).map(|_| schedule.take()).max(), Some(Duration::from_millis(600)));
        schedule.give_up();
        // Ten arrivals are due in the first second, at 0.0 s to 0.9 s.
        assert_eq!(schedule.unstarted(Duration::from_secs(1)), 3 + 1);
    }
}
