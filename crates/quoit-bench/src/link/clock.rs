//! The difference of two clocks, by round trips.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The clock of an agent: nanoseconds since the clock was made.
#[derive(Debug, Clone, Copy)]
pub struct LinkClock(Instant);

impl LinkClock {
    /// A clock that begins now.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Its time.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The instant of one of its times; nothing for a time that the system's clock can't tell.
    #[must_use]
    pub fn instant(&self, at_ns: u64) -> Option<Instant> {
        self.0.checked_add(Duration::from_nanos(at_ns))
    }

    /// Nanoseconds since 1970 by the clock of the system.
    #[must_use]
    pub fn unix_ns() -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A question for the time, and the answer.
#[derive(Debug, Clone, Copy)]
pub struct RoundTrip {
    /// When the coordinator asked.
    pub asked: Instant,
    /// The coordinator's clock of the system then, in nanoseconds since 1970.
    pub asked_unix_ns: u64,
    /// How long the answer took.
    pub took: Duration,
    /// The agent's own clock.
    pub agent_ns: u64,
    /// The agent's clock of the system.
    pub agent_unix_ns: u64,
}

/// The relation of an agent's clocks to the coordinator's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// A moment of the coordinator...
    pub at: Instant,
    /// ...and the time that the agent's own clock showed then.
    pub agent_ns: u64,
    /// By how much the agent's clock of the system is ahead, in nanoseconds.
    pub ahead_ns: i64,
    /// All of these are this exact: the answer came at some moment of the round trip.
    pub uncertainty: Duration,
}

impl ClockReading {
    /// The time of the agent's own clock at a later moment of the coordinator.
    #[must_use]
    pub fn agent_ns_at(&self, moment: Instant) -> u64 {
        let later = moment.saturating_duration_since(self.at);
        self.agent_ns.saturating_add(u64::try_from(later.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The reading of the shortest round trip, which is the most exact; nothing without a round trip.
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
