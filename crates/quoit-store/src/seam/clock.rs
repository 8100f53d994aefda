//! Time.

use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where time comes from.
pub trait Clock: Send + Sync {
    /// Wall-clock time, microseconds since 1970. May jump.
    fn unix_us(&self) -> u64;

    /// Microseconds since some start; never goes back.
    fn monotonic_us(&self) -> u64;

    /// Wall-clock time, whole seconds since 1970.
    fn unix_secs(&self) -> u64 {
        self.unix_us() / 1_000_000
    }
}

/// The machine's clocks. Each request reads them twice and more: the types of the standard library would have
/// them subtracted in seconds and nanoseconds, which costs more than the clock.
#[derive(Debug)]
pub struct SystemClock {
    /// The monotonic clock when this one was made.
    start_us: u64,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start_us: now_us(ClockId::Monotonic) }
    }
}

impl Clock for SystemClock {
    fn unix_us(&self) -> u64 {
        now_us(ClockId::Realtime)
    }

    fn monotonic_us(&self) -> u64 {
        now_us(ClockId::Monotonic) - self.start_us
    }
}

/// The time of a clock; 0 before its beginning.
fn now_us(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    // Nanoseconds are below a second, and seconds fit for half a million years.
    u64::try_from(now.tv_sec).map_or(0, |secs| secs * 1_000_000 + now.tv_nsec as u64 / 1_000)
}

/// A clock that moves only when told to.
#[derive(Debug, Default)]
pub struct ManualClock {
    unix_us: AtomicU64,
}

impl ManualClock {
    /// A clock that stands at `unix_us`.
    #[must_use]
    pub const fn at(unix_us: u64) -> Self {
        Self { unix_us: AtomicU64::new(unix_us) }
    }

    /// Moves the clock forward.
    pub fn advance_us(&self, by_us: u64) {
        self.unix_us.fetch_add(by_us, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn unix_us(&self) -> u64 {
        self.unix_us.load(Ordering::Relaxed)
    }

    fn monotonic_us(&self) -> u64 {
        self.unix_us()
    }
}
