//! Time: one for the run, and what each machine takes it for.

use quoit_seam::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Time that the clocks of a run show at its start: 2025-01-01, microseconds since 1970.
const START_US: u64 = 1_735_689_600_000_000;

/// Simulated time, in microseconds since the start of the run. Clones are the same time.
#[derive(Debug, Clone, Default)]
pub struct SimTime(Arc<AtomicU64>);

impl SimTime {
    /// Microseconds since the start of the run.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The second of so many seconds from now, as a right clock counts since 1970, and its beginning in
    /// simulated microseconds.
    #[must_use]
    pub fn second_in(&self, secs: u64) -> (u32, u64) {
        let unix_secs = (START_US + self.now_us()) / 1_000_000 + secs;
        let unix_secs = u32::try_from(unix_secs).expect("a run takes minutes of 2025");
        (unix_secs, u64::from(unix_secs) * 1_000_000 - START_US)
    }

    /// Goes on by a step of the simulation.
    pub fn advance_us(&self, by_us: u64) {
        self.0.fetch_add(by_us, Ordering::Relaxed);
    }
}

/// The clock of one machine: simulated time, wrong by what the run decides.
#[derive(Debug)]
pub struct SimClock {
    time: SimTime,
    /// Error of the wall clock: how far it is ahead, in microseconds.
    skew_us: AtomicI64,
}

impl SimClock {
    /// A clock that is right.
    #[must_use]
    pub const fn new(time: SimTime) -> Self {
        Self { time, skew_us: AtomicI64::new(0) }
    }

    /// Microseconds that the wall clock shows too much.
    pub fn skew_us(&self) -> i64 {
        self.skew_us.load(Ordering::Relaxed)
    }

    /// Sets what the wall clock shows too much from now on, in microseconds; it jumps.
    pub fn set_skew_us(&self, skew_us: i64) {
        self.skew_us.store(skew_us, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn unix_us(&self) -> u64 {
        let right_us = START_US + self.time.now_us();
        right_us.saturating_add_signed(self.skew_us.load(Ordering::Relaxed))
    }

    fn monotonic_us(&self) -> u64 {
        self.time.now_us()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_moves_the_wall_clock_and_not_the_monotonic_one() {
        let time = SimTime::default();
        let clock = SimClock::new(time.clone());
        time.advance_us(5);
        clock.set_skew_us(-3);
        assert_eq!((clock.unix_us(), clock.monotonic_us()), (START_US + 2, 5));
    }
}
