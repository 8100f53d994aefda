//! The operator's limits of transfers, and the throttle that keeps to them.

use super::hand::TransferError;
use crate::settings::TransferLimits;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// Shortest pause that is made, in seconds: timers are not finer.
const TIMER_SECS: f64 = 0.001;
/// Longest pause, in seconds, after which the rest is calculated again.
const PAUSE_SECS_MAX: f64 = 3_600.0;

/// A change of limits. Limits that are `None` stay as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LimitChange {
    /// See [`TransferLimits::partition_count_max`].
    pub partition_count_max: Option<u32>,
    /// See [`TransferLimits::bytes_per_sec_max`].
    pub bytes_per_sec_max: Option<u64>,
    /// See [`TransferLimits::inbound`].
    pub inbound: Option<bool>,
    /// See [`TransferLimits::outbound`].
    pub outbound: Option<bool>,
}

impl LimitChange {
    /// Returns the limits after the change.
    #[must_use]
    pub fn of(self, before: TransferLimits) -> TransferLimits {
        TransferLimits {
            partition_count_max: self.partition_count_max.unwrap_or(before.partition_count_max),
            bytes_per_sec_max: self.bytes_per_sec_max.unwrap_or(before.bytes_per_sec_max),
            inbound: self.inbound.unwrap_or(before.inbound),
            outbound: self.outbound.unwrap_or(before.outbound),
        }
    }
}

/// Keeps transfers to their limits.
pub(crate) struct Throttle {
    partition_count_max: AtomicU32,
    bytes_per_sec_max: AtomicU64,
    inbound: AtomicBool,
    outbound: AtomicBool,
    meter: Mutex<Meter>,
    /// Wakes senders that wait, because the limits have changed.
    changed: Notify,
}

/// Bytes that were sent, and bytes that the rate has allowed so far. The former are ahead of the latter.
struct Meter {
    sent_bytes: u64,
    allowed_bytes: f64,
    /// Time up to which the allowed bytes are counted.
    counted_at: Instant,
}

impl Meter {
    /// Adds the bytes that the rate has allowed since the last call. The sum never exceeds the bytes
    /// sent, so that an idle sender does not save up bytes for a burst.
    fn count(&mut self, bytes_per_sec_max: u64) {
        let now = Instant::now();
        let since = now.saturating_duration_since(self.counted_at);
        let allowed_bytes = self.allowed_bytes + since.as_secs_f64() * bytes_per_sec_max as f64;
        self.allowed_bytes = match bytes_per_sec_max {
            0 => self.sent_bytes as f64,
            _ => allowed_bytes.min(self.sent_bytes as f64),
        };
        debug_assert!(
            self.allowed_bytes <= self.sent_bytes as f64,
            "an idle sender saves up no bytes"
        );
        self.counted_at = now;
    }
}

impl Throttle {
    pub(super) fn new(limits: TransferLimits) -> Self {
        let (sent_bytes, allowed_bytes, counted_at) = (0, 0.0, Instant::now());
        Self {
            partition_count_max: AtomicU32::new(limits.partition_count_max.max(1)),
            bytes_per_sec_max: AtomicU64::new(limits.bytes_per_sec_max),
            inbound: AtomicBool::new(limits.inbound),
            outbound: AtomicBool::new(limits.outbound),
            meter: Mutex::new(Meter { sent_bytes, allowed_bytes, counted_at }),
            changed: Notify::new(),
        }
    }

    pub(crate) fn set(&self, limits: TransferLimits) {
        // The time until now counts at the former rate.
        self.meter.lock().count(self.bytes_per_sec_max.load(Ordering::Relaxed));
        self.partition_count_max.store(limits.partition_count_max.max(1), Ordering::Relaxed);
        self.bytes_per_sec_max.store(limits.bytes_per_sec_max, Ordering::Relaxed);
        self.inbound.store(limits.inbound, Ordering::Relaxed);
        self.outbound.store(limits.outbound, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// Returns the limits.
    pub(crate) fn limits(&self) -> TransferLimits {
        TransferLimits {
            partition_count_max: self.partition_count_max.load(Ordering::Relaxed),
            bytes_per_sec_max: self.bytes_per_sec_max.load(Ordering::Relaxed),
            inbound: self.inbound.load(Ordering::Relaxed),
            outbound: self.outbound.load(Ordering::Relaxed),
        }
    }

    /// Counts bytes as sent, and waits until the rate has allowed for them. If the rate is raised
    /// meanwhile, the wait becomes shorter.
    pub(crate) async fn wait_for(&self, byte_count: u64) {
        let due_bytes = {
            let mut meter = self.meter.lock();
            meter.count(self.bytes_per_sec_max.load(Ordering::Relaxed));
            meter.sent_bytes += byte_count;
            meter.sent_bytes as f64
        };
        loop {
            // Created before the rate is read, so that a change after that is not missed.
            let changed = self.changed.notified();
            let bytes_per_sec_max = self.bytes_per_sec_max.load(Ordering::Relaxed);
            let missing_bytes = {
                let mut meter = self.meter.lock();
                meter.count(bytes_per_sec_max);
                due_bytes - meter.allowed_bytes
            };
            // Pauses shorter than a timer's resolution are left out; they add up in the meter.
            let pause = missing_bytes / bytes_per_sec_max as f64;
            if bytes_per_sec_max == 0 || pause < TIMER_SECS {
                return;
            }
            // At very low rates the pause may be longer than a timer allows.
            let pause = Duration::from_secs_f64(pause.min(PAUSE_SECS_MAX));
            let _ = timeout(pause, changed).await;
        }
    }

    /// Returns an error if sending records is switched off.
    pub(crate) fn check_outbound(&self) -> Result<(), TransferError> {
        if self.outbound.load(Ordering::Relaxed) { Ok(()) } else { Err(TransferError::SwitchedOff) }
    }

    /// True if receiving records is switched on.
    pub(crate) fn takes(&self) -> bool {
        self.inbound.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    fn throttle(bytes_per_sec_max: u64) -> Throttle {
        Throttle::new(TransferLimits { bytes_per_sec_max, ..TransferLimits::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_take_the_time_that_the_rate_gives_them_together() {
        let throttle = throttle(1_000);
        let began = Instant::now();
        tokio::join!(throttle.wait_for(2_000), throttle.wait_for(3_000));
        assert_eq!(began.elapsed().as_secs(), 5);
        throttle.wait_for(1_000).await;
        assert_eq!(began.elapsed().as_secs(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_saved_up_while_nothing_is_sent() {
        let throttle = throttle(1_000);
        sleep(Duration::from_secs(100)).await;
        let began = Instant::now();
        throttle.wait_for(2_000).await;
        assert_eq!(began.elapsed().as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_sender_continues_when_the_rate_is_raised_or_lifted() {
        for bytes_per_sec_max in [1_000_000, 0] {
            let throttle = throttle(1);
            let began = Instant::now();
            let raise = async {
                sleep(Duration::from_secs(10)).await;
                throttle.set(TransferLimits { bytes_per_sec_max, ..TransferLimits::default() });
            };
            tokio::join!(throttle.wait_for(1_000_000), raise);
            let elapsed_secs = began.elapsed().as_secs();
            assert!((10..=11).contains(&elapsed_secs), "{elapsed_secs} s");
        }
    }
}
