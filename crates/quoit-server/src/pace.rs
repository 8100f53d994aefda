//! Slowest rates at which a client may send the rest of a request or read an answer.

use std::time::Duration;
use tokio::time::Instant;

/// Slowest rates that are accepted from clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PaceSettings {
    /// Longest time in which no byte of a started request arrives, or no byte of an answer is taken
    /// (`request.stall_timeout`).
    pub stall_limit: Duration,
    /// Lowest average rate of a transfer in bytes per second, with `stall_limit` as a grace period
    /// (`request.minimum_rate`); 0 for none.
    pub bytes_per_sec_min: u64,
}

impl Default for PaceSettings {
    fn default() -> Self {
        Self { stall_limit: Duration::from_secs(60), bytes_per_sec_min: 16 << 10 }
    }
}

/// The transfer of one request or answer. It is only created for a transfer that has to wait; a transfer
/// that completes at once never reads the clock.
#[derive(Debug)]
pub(crate) struct PacedTransfer {
    pace: PaceSettings,
    began: Instant,
    moved_bytes: u64,
}

impl PacedTransfer {
    /// Starts a transfer now.
    pub(crate) fn begin(pace: PaceSettings) -> Self {
        Self { pace, began: Instant::now(), moved_bytes: 0 }
    }

    /// Counts bytes that have arrived or were taken.
    pub(crate) const fn moved(&mut self, bytes: usize) {
        self.moved_bytes += bytes as u64;
    }

    /// The moment at which the transfer is given up if nothing moves from now on.
    pub(crate) fn deadline(&self) -> Instant {
        let PaceSettings { stall_limit, bytes_per_sec_min } = self.pace;
        let by_stall = Instant::now() + stall_limit;
        match self.moved_bytes.checked_div(bytes_per_sec_min) {
            Some(earned_secs) => {
                (self.began + stall_limit + Duration::from_secs(earned_secs)).min(by_stall)
            }
            None => by_stall,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn a_transfer_ends_when_it_stands_still_and_when_it_is_too_slow_on_the_whole() {
        let stall_limit = Duration::from_secs(10);
        let pace = PaceSettings { stall_limit, bytes_per_sec_min: 1_000 };
        let mut transfer = PacedTransfer::begin(pace);
        let left = |transfer: &PacedTransfer| transfer.deadline().duration_since(Instant::now());
        assert_eq!(left(&transfer), stall_limit);
        transfer.moved(1_000_000);
        assert_eq!(left(&transfer), stall_limit, "what has moved does not allow it to stand still");
        let mut transfer = PacedTransfer::begin(pace);
        for _ in 0..9 {
            advance(Duration::from_secs(1)).await;
            transfer.moved(100);
        }
        assert_eq!(left(&transfer), Duration::from_secs(1), "it is too slow, though it moves");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_lowest_rate_a_transfer_ends_only_when_it_stands_still() {
        let stall_limit = Duration::from_secs(10);
        let mut transfer = PacedTransfer::begin(PaceSettings { stall_limit, bytes_per_sec_min: 0 });
        for _ in 0..100 {
            advance(Duration::from_secs(9)).await;
            transfer.moved(1);
        }
        assert_eq!(transfer.deadline().duration_since(Instant::now()), stall_limit);
    }
}
