//! Delays between requests to a peer: peers with entries are asked at once, others more and more
//! rarely.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// First delay of a peer, in milliseconds.
const DELAY_MS_FIRST: u64 = 8;
/// Longest delay after empty queues, in milliseconds.
const DELAY_MS_EMPTY_MAX: u64 = 1_024;
/// Delay after a first error, in milliseconds. It doubles with each further error, so that a peer that
/// restarts is asked again within seconds, while one that is gone costs little.
const DELAY_MS_ERROR_MIN: u64 = 256;
/// Longest delay after errors, in milliseconds: the time that replication may lose when a peer is back.
const DELAY_MS_ERROR_MAX: u64 = 8_192;

/// Outcome of a request to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequestOutcome {
    /// The peer sent entries, and they were stored.
    Stored,
    /// The peer's queue was empty.
    Empty,
    /// The peer did not answer, or an entry could not be stored.
    Failed,
}

/// Delay of a peer, shared by all connections to it.
#[derive(Debug, Default)]
pub(crate) struct PeerDelay {
    state: Mutex<PeerDelayState>,
}

#[derive(Debug)]
struct PeerDelayState {
    delay_ms: u64,
    /// Time at which an error has last doubled the delay; `None` after an answer.
    failed_at: Option<Instant>,
}

impl Default for PeerDelayState {
    fn default() -> Self {
        Self { delay_ms: DELAY_MS_FIRST, failed_at: None }
    }
}

impl PeerDelayState {
    fn note(&mut self, outcome: RequestOutcome, now: Instant) {
        let doubled_ms = self.delay_ms * 2;
        self.delay_ms = match outcome {
            RequestOutcome::Failed if self.is_counted(now) => return,
            RequestOutcome::Failed => doubled_ms.clamp(DELAY_MS_ERROR_MIN, DELAY_MS_ERROR_MAX),
            // A peer that has recovered starts again with the first delay.
            RequestOutcome::Empty | RequestOutcome::Stored
                if self.delay_ms > DELAY_MS_EMPTY_MAX =>
            {
                DELAY_MS_FIRST
            }
            RequestOutcome::Stored => self.delay_ms / 2,
            RequestOutcome::Empty => doubled_ms.clamp(1, DELAY_MS_EMPTY_MAX),
        };
        self.failed_at = (outcome == RequestOutcome::Failed).then_some(now);
        debug_assert!(
            self.delay_ms <= DELAY_MS_ERROR_MAX
                && (outcome == RequestOutcome::Failed || self.delay_ms <= DELAY_MS_EMPTY_MAX),
            "a peer that answers is asked again within the delay for empty queues"
        );
    }

    /// True if an error is one of several at about the same time. All connections to a peer that
    /// restarts fail at once, which counts as one error.
    fn is_counted(&self, now: Instant) -> bool {
        let delay = Duration::from_millis(self.delay_ms);
        self.failed_at.is_some_and(|failed_at| now.saturating_duration_since(failed_at) < delay)
    }
}

impl PeerDelay {
    /// Notes the outcome of a request.
    pub(crate) fn note(&self, outcome: RequestOutcome) {
        self.state.lock().note(outcome, Instant::now());
    }

    /// Present delay in milliseconds.
    pub(crate) fn delay_ms(&self) -> u64 {
        self.state.lock().delay_ms
    }

    /// Time until the next request: a random part of the delay.
    pub(crate) fn wait(&self, random: u64) -> Duration {
        match self.delay_ms() {
            0 => Duration::ZERO,
            delay_ms => Duration::from_millis(1 + random % delay_ms),
        }
    }

    /// Starts again with the first delay, because an operator has changed something.
    pub(crate) fn reset(&self) {
        *self.state.lock() = PeerDelayState::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_halved_by_objects_and_doubled_by_empty_queues() {
        let delay = PeerDelay::default();
        let after = |outcome: RequestOutcome| {
            delay.note(outcome);
            delay.delay_ms()
        };
        let stored: Vec<u64> = (0..5).map(|_| after(RequestOutcome::Stored)).collect();
        assert_eq!(stored, [4, 2, 1, 0, 0]);
        let empty: Vec<u64> = (0..13).map(|_| after(RequestOutcome::Empty)).collect();
        assert_eq!(empty, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]);
        assert!(delay.wait(u64::MAX) <= Duration::from_millis(1_024));
    }

    #[test]
    fn errors_of_all_connections_at_once_double_the_delay_once() {
        let mut state = PeerDelayState::default();
        let mut now = Instant::now();
        let mut delays = Vec::new();
        for _ in 0..7 {
            for _ in 0..24 {
                state.note(RequestOutcome::Failed, now);
            }
            delays.push(state.delay_ms);
            now += Duration::from_millis(state.delay_ms);
        }
        assert_eq!(delays, [256, 512, 1_024, 2_048, 4_096, 8_192, 8_192]);
        state.note(RequestOutcome::Stored, now);
        assert_eq!(state.delay_ms, DELAY_MS_FIRST);
    }
}
