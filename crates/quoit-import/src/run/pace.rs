//! The rate limit of an import.

use std::num::NonZeroU32;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A limit on records a second, so that the clients of a running cluster keep their share of it.
pub(super) struct Pace {
    per_second: Option<NonZeroU32>,
    /// Time at which the next records may be sent.
    next_at: Instant,
}

impl Pace {
    /// A limit of that many records a second; without a number there is no limit.
    pub(super) fn new(per_second: Option<NonZeroU32>) -> Self {
        Self { per_second, next_at: Instant::now() }
    }

    /// Waits until that many records may be sent. Unused time is not saved up for later.
    pub(super) fn wait(&mut self, record_count: usize) {
        let Some(per_second) = self.per_second else { return };
        let now = Instant::now();
        sleep(self.next_at.saturating_duration_since(now));
        let took = Duration::from_secs(record_count as u64) / per_second.get();
        self.next_at = self.next_at.max(now) + took;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_wait_for_those_before_them() {
        let mut pace = Pace::new(NonZeroU32::new(1000));
        let began = Instant::now();
        for _ in 0..4 {
            pace.wait(50);
        }
        // The first batch does not wait.
        assert!(began.elapsed() >= Duration::from_millis(150));
        assert!(pace.next_at >= began + Duration::from_millis(200));
        let mut unbounded = Pace::new(None);
        let due = unbounded.next_at;
        unbounded.wait(1_000_000);
        assert_eq!(unbounded.next_at, due);
    }
}
