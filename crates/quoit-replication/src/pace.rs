//! How soon a peer is asked again: peers that have something are asked at once, others ever more rarely.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// The delay that a peer begins with, in milliseconds.
const DELAY_MS_FIRST: u64 = 8;
/// The longest delay after an empty queue.
const DELAY_MS_EMPTY_MAX: u64 = 1_024;
/// The delay after a first error. It doubles with each further one: a peer that is restarted is asked again
/// within seconds, one that is gone costs little.
const DELAY_MS_ERROR_MIN: u64 = 256;
/// The longest delay after errors: what replication may wait for when a peer is back.
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

/// The delay of a peer, shared by all connections to it.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    state: Mutex<PaceState>,
}

#[derive(Debug)]
struct PaceState {
    delay_ms: u64,
    /// When an error has doubled the delay last; `None` after an answer.
    failed_at: Option<Instant>,
}

impl Default for PaceState {
    fn default() -> Self {
        Self { delay_ms: DELAY_MS_FIRST, failed_at: None }
    }
}

impl PaceState {
    fn note(&mut self, outcome: Outcome, now: Instant) {
        let doubled_ms = self.delay_ms * 2;
        self.delay_ms = match outcome {
            Outcome::Failed if self.is_counted(now) => return,
            Outcome::Failed => doubled_ms.clamp(DELAY_MS_ERROR_MIN, DELAY_MS_ERROR_MAX),
            // A peer that is well again begins anew.
            Outcome::Empty | Outcome::Stored if self.delay_ms > DELAY_MS_EMPTY_MAX => {
                DELAY_MS_FIRST
            }
            Outcome::Stored => self.delay_ms / 2,
            Outcome::Empty => doubled_ms.clamp(1, DELAY_MS_EMPTY_MAX),
        };
        self.failed_at = (outcome == Outcome::Failed).then_some(now);
    }

    /// Whether an error is one of several at about the same time: all connections to a peer that is restarted
    /// fail, which counts once.
    fn is_counted(&self, now: Instant) -> bool {
        let delay = Duration::from_millis(self.delay_ms);
        self.failed_at.is_some_and(|failed_at| now.saturating_duration_since(failed_at) < delay)
    }
}

impl Pace {
    /// Takes note of an answer.
    pub(crate) fn note(&self, outcome: Outcome) {
        self.state.lock().note(outcome, Instant::now());
    }

    /// The delay, in milliseconds.
    pub(crate) fn delay_ms(&self) -> u64 {
        self.state.lock().delay_ms
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
        *self.state.lock() = PaceState::default();
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
        assert!(pace.wait(u64::MAX) <= Duration::from_millis(1_024));
    }

    #[test]
    fn errors_of_all_connections_at_once_double_the_delay_once() {
        let mut state = PaceState::default();
        let mut now = Instant::now();
        let mut delays = Vec::new();
        for _ in 0..7 {
            for _ in 0..24 {
                state.note(Outcome::Failed, now);
            }
            delays.push(state.delay_ms);
            now += Duration::from_millis(state.delay_ms);
        }
        assert_eq!(delays, [256, 512, 1_024, 2_048, 4_096, 8_192, 8_192]);
        state.note(Outcome::Stored, now);
        assert_eq!(state.delay_ms, DELAY_MS_FIRST);
    }
}
