//! Clocks.

use quoit_number::saturating_u64;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Source of time.
pub trait Clock: Send + Sync {
    /// Wall-clock time in microseconds since 1970. It may jump forwards or backwards.
    fn unix_us(&self) -> u64;

    /// Microseconds since an arbitrary start. Never goes back.
    fn monotonic_us(&self) -> u64;

    /// Wall-clock time in whole seconds since 1970.
    fn unix_secs(&self) -> u64 {
        self.unix_us() / 1_000_000
    }
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn unix_us(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| saturating_u64(since.as_micros()))
    }

    fn monotonic_us(&self) -> u64 {
        saturating_u64(self.start.elapsed().as_micros())
    }
}
