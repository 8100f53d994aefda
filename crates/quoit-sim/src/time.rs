//! Simulated time, and the clocks of machines, which may be wrong.

use quoit_seam::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Wall-clock time at the start of a run: 2025-01-01, in microseconds since 1970.
const START_US: u64 = 1_735_689_600_000_000;

/// Simulated time, in microseconds since the start of the run. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct SimTime(Arc<AtomicU64>);

impl SimTime {
    /// Returns the microseconds since the start of the run.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the second in which `secs` seconds from now will be over: as seconds since 1970 on a right
    /// clock, and as the simulated time in microseconds at which that second begins.
    #[must_use]
    pub fn second_in(&self, secs: u64) -> (u32, u64) {
        let unix_secs = (START_US + self.now_us()) / 1_000_000 + secs;
        let unix_secs = u32::try_from(unix_secs).expect("a run takes minutes of 2025");
        (unix_secs, u64::from(unix_secs) * 1_000_000 - START_US)
    }

    /// Advances simulated time by a step.
    pub fn advance_us(&self, by_us: u64) {
        self.0.fetch_add(by_us, Ordering::Relaxed);
    }
}

/// The clock of one machine: simulated time plus an error that the run sets.
#[derive(Debug)]
pub struct SimClock {
    time: SimTime,
    /// Error of the wall clock in microseconds; positive if it is ahead.
    skew_us: AtomicI64,
}

impl SimClock {
    /// Creates a clock without error.
    #[must_use]
    pub const fn new(time: SimTime) -> Self {
        Self { time, skew_us: AtomicI64::new(0) }
    }

    /// Returns the error of the wall clock in microseconds; positive if it is ahead.
    pub fn skew_us(&self) -> i64 {
        self.skew_us.load(Ordering::Relaxed)
    }

    /// Makes the wall clock jump to an error in microseconds; positive if it is ahead.
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
