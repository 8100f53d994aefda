//! How soon a peer is asked again: peers that have something are asked at once, others ever more rarely.

use parking_lot::Mutex;
use std::time::Duration;

/// The delay that a peer begins with, in milliseconds.
const DELAY_MS_FIRST: u64 = 8;
/// The longest delay after an empty queue.
const DELAY_MS_EMPTY_MAX: u64 = 1_024;
/// The delay after a first error. It doubles with each further one: a peer that is restarted is asked again
/// within seconds, one that is gone costs little.
const DELAY_MS_ERROR_MIN: u64 = 256;
/// The longest delay after errors. All connections to a peer that is restarted fail at once and double the
/// delay together, so that a few seconds lead here: it is what replication may wait for beyond the restart.
const DELAY_MS_ERROR_MAX: u64 = 8_192;

/// How a peer has answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// With something to be stored, which was.
    Stored,
    /// Its queue was empty.
    Empty,
    /// Not, or something could not be stored.
    Failed,
}

/// The delay of a peer, shared by all that ask it.
#[derive(Debug)]
pub(crate) struct Pace {
    delay_ms: Mutex<u64>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { delay_ms: Mutex::new(DELAY_MS_FIRST) }
    }
}

impl Pace {
    /// Takes note of an answer.
    pub(crate) fn note(&self, outcome: Outcome) {
        let mut delay_ms = self.delay_ms.lock();
        *delay_ms = match outcome {
            // A peer that is well again begins anew.
            Outcome::Empty | Outcome::Stored if *delay_ms > DELAY_MS_EMPTY_MAX => DELAY_MS_FIRST,
            Outcome::Stored => *delay_ms / 2,
            Outcome::Empty => (*delay_ms * 2).clamp(1, DELAY_MS_EMPTY_MAX),
            Outcome::Failed => (*delay_ms * 2).clamp(DELAY_MS_ERROR_MIN, DELAY_MS_ERROR_MAX),
        };
    }

    /// The delay, in milliseconds.
    pub(crate) fn delay_ms(&self) -> u64 {
        *self.delay_ms.lock()
    }

    /// The time until the peer is asked again: a random part of the delay.
    pub(crate) fn wait(&self, random: u64) -> Duration {
        match self.delay_ms() {
            0 => Duration::ZERO,
            delay_ms => Duration::from_millis(1 + random % delay_ms),
        }
    }

    /// Forgets what was: an operator has changed something.
    pub(crate) fn reset(&self) {
        *self.delay_ms.lock() = DELAY_MS_FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_halved_by_objects_and_doubled_by_empty_queues() {
        let pace = Pace::default();
        let after = |outcome: Outcome| {
            pace.note(outcome);
            pace.delay_ms()
        };
        let stored: Vec<u64> = (0..5).map(|_| after(Outcome::Stored)).collect();
        assert_eq!(stored, [4, 2, 1, 0, 0]);
        let empty: Vec<u64> = (0..13).map(|_| after(Outcome::Empty)).collect();
        assert_eq!(empty, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]);
        let pace = Pace::default();
        let after = |outcome: Outcome| {
            pace.note(outcome);
            pace.delay_ms()
        };
        let failed: Vec<u64> = (0..10).map(|_| after(Outcome::Failed)).collect();
        assert_eq!(failed[..3], [256, 512, 1024]);
        assert_eq!(failed[4..7], [4_096, 8_192, 8_192]);
        assert_eq!(after(Outcome::Stored), 8);
        assert!(pace.wait(u64::MAX) <= Duration::from_millis(8));
    }
}
