//! Pauses before a node that could not be reached is dialed again.

use super::settings::Limits;
use std::time::Duration;

/// A small generator of random numbers: SplitMix64 (Steele, Lea, Flood: "Fast splittable
/// pseudorandom number generators", OOPSLA 2014). It keeps nodes from dialing in step, and its
/// numbers follow from a seed.
pub(super) struct Jitter {
    state: u64,
}

impl Jitter {
    pub(super) const fn new(seed: u64) -> Jitter {
        Jitter { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns `pause` with a deviation of up to a quarter in either direction.
    fn around(&mut self, pause: Duration) -> Duration {
        let thousandths = 750 + (self.next() % 501) as u32;
        pause * thousandths / 1000
    }
}

/// Pauses that double with each failure.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failure_count: u32,
}

impl Backoff {
    /// Starts again with the shortest pause, because a connection was made.
    pub(super) fn reset(&mut self) {
        self.failure_count = 0;
    }

    /// Returns the pause after one more failure.
    pub(super) fn pause(&mut self, limits: &Limits, jitter: &mut Jitter) -> Duration {
        let doubled = limits.redial_pause_min.saturating_mul(1 << self.failure_count.min(16));
        self.failure_count = self.failure_count.saturating_add(1);
        jitter.around(doubled.min(limits.redial_pause_max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(seed: u64) -> Vec<Duration> {
        let mut jitter = Jitter::new(seed);
        let mut backoff = Backoff::default();
        (0..40).map(|_| backoff.pause(&Limits::default(), &mut jitter)).collect()
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_stay_near_it() {
        let limits = Limits::default();
        for (count, pause) in pauses(1).into_iter().enumerate() {
            let doubled = limits.redial_pause_min * (1 << count.min(10));
            let around = doubled.min(limits.redial_pause_max);
            assert!(pause >= around * 3 / 4 && pause <= around * 5 / 4, "{count}: {pause:?}");
        }
    }

    #[test]
    fn pauses_depend_on_the_seed_alone() {
        assert_eq!(pauses(7), pauses(7));
        assert_ne!(pauses(7), pauses(8));
    }

    #[test]
    fn a_connection_starts_the_pauses_anew() {
        let mut jitter = Jitter::new(3);
        let mut backoff = Backoff::default();
        let limits = Limits::default();
        for _ in 0..10 {
            backoff.pause(&limits, &mut jitter);
        }
        backoff.reset();
        assert!(backoff.pause(&limits, &mut jitter) < limits.redial_pause_min * 2);
    }
}
