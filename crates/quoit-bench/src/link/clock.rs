//! Measurement of the difference between two clocks, by round trips.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The monotonic clock of an agent: nanoseconds since its creation.
#[derive(Debug, Clone, Copy)]
pub struct LinkClock(Instant);

impl LinkClock {
    /// Creates a clock that begins now.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Current time of the clock, in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The instant of a time of this clock; `None` if an `Instant` can't represent it.
    #[must_use]
    pub fn instant(&self, at_ns: u64) -> Option<Instant> {
        self.0.checked_add(Duration::from_nanos(at_ns))
    }

    /// Nanoseconds since 1970, by the system clock.
    #[must_use]
    pub fn unix_ns() -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A request for the time, and the answer.
#[derive(Debug, Clone, Copy)]
pub struct RoundTrip {
    /// Time at which the coordinator asked.
    pub asked: Instant,
    /// The coordinator's system clock at that time, in nanoseconds since 1970.
    pub asked_unix_ns: u64,
    /// Time from the request to the answer.
    pub took: Duration,
    /// The agent's monotonic clock, in nanoseconds.
    pub agent_ns: u64,
    /// The agent's system clock, in nanoseconds since 1970.
    pub agent_unix_ns: u64,
}

/// The relation of an agent's clocks to the coordinator's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// A moment on the coordinator's clock...
    pub at: Instant,
    /// ...and the time of the agent's monotonic clock at that moment, in nanoseconds.
    pub agent_ns: u64,
    /// Nanoseconds by which the agent's system clock is ahead.
    pub ahead_ns: i64,
    /// Uncertainty of these times: the agent took them at an unknown moment of the round trip.
    pub uncertainty: Duration,
}

impl ClockReading {
    /// The time of the agent's monotonic clock at a later moment of the coordinator.
    #[must_use]
    pub fn agent_ns_at(&self, moment: Instant) -> u64 {
        let later = moment.saturating_duration_since(self.at);
        self.agent_ns.saturating_add(u64::try_from(later.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The reading of the shortest round trip, which is the most exact one; `None` without a round trip.
#[must_use]
pub fn best_reading(trips: &[RoundTrip]) -> Option<ClockReading> {
    let best = trips.iter().min_by_key(|trip| trip.took)?;
    let half = best.took / 2;
    let middle_unix_ns = i128::from(best.asked_unix_ns) + half.as_nanos().cast_signed();
    let ahead_ns = i128::from(best.agent_unix_ns) - middle_unix_ns;
    Some(ClockReading {
        at: best.asked + half,
        agent_ns: best.agent_ns,
        ahead_ns: i64::try_from(ahead_ns).unwrap_or(if ahead_ns < 0 { i64::MIN } else { i64::MAX }),
        uncertainty: half,
    })
}
