//! Times in certificates.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;

/// Seconds in a day.
const DAY_SECS: i64 = 86_400;

/// A point in time, with a resolution of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(i64);

impl Instant {
    /// Returns the time that is `unix_secs` seconds after 1970.
    #[must_use]
    pub const fn from_unix_secs(unix_secs: i64) -> Instant {
        Instant(unix_secs)
    }

    /// Returns the time of the machine's clock.
    #[must_use]
    pub fn now() -> Instant {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Instant(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
    }

    /// Returns the seconds since 1970.
    #[must_use]
    pub const fn unix_secs(self) -> i64 {
        self.0
    }

    /// Returns the time that is `secs` seconds later.
    #[must_use]
    pub const fn plus_secs(self, secs: i64) -> Instant {
        Instant(self.0.saturating_add(secs))
    }

    /// Returns the number of whole days from `now` until this time; negative if it has passed.
    #[must_use]
    pub const fn days_after(self, now: Instant) -> i64 {
        self.0.saturating_sub(now.0).div_euclid(DAY_SECS)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match OffsetDateTime::from_unix_timestamp(self.0) {
            Ok(time) => {
                let (hour, minute, second) = (time.hour(), time.minute(), time.second());
                write!(formatter, "{} {hour:02}:{minute:02}:{second:02} UTC", time.date())
            }
            Err(_) => write!(formatter, "{} s after 1970", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_down_to_the_end_and_below() {
        let now = Instant::from_unix_secs(1_000_000_000);
        assert_eq!(now.plus_secs(86_400 * 30).days_after(now), 30);
        assert_eq!(now.plus_secs(86_399).days_after(now), 0);
        assert_eq!(now.plus_secs(-1).days_after(now), -1);
        assert_eq!(now.to_string(), "2001-09-09 01:46:40 UTC");
        assert_eq!(
            Instant::from_unix_secs(i64::MAX).to_string(),
            format!("{} s after 1970", i64::MAX)
        );
    }
}
