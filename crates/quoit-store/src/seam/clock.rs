//! Time.

use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

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

/// The clocks of the machine. Each request reads the monotonic one twice and more; the standard library
/// would subtract it in seconds and nanoseconds, which costs more than to read it.
#[derive(Debug)]
pub struct SystemClock {
    /// The monotonic clock when this one was made.
    start_us: u64,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start_us: monotonic_us() }
    }
}

impl Clock for SystemClock {
    fn unix_us(&self) -> u64 {
        // By the C library's function, so that a library loaded before it can give a process another time.
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
    }

    fn monotonic_us(&self) -> u64 {
        monotonic_us() - self.start_us
    }
}

/// The monotonic clock of the system.
fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // It begins with the machine, and nanoseconds are below a second.
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
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
