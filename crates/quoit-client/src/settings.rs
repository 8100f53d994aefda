//! The client's settings.

use crate::error::Error;
use crate::login::Login;
use quoit_wire::frame::FRAME_LENGTH_BYTES_MAX_DEFAULT;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Upper bound of all times in settings and options. It is longer than the 49 days that the protocol can
/// express, and short enough to be added to a clock without overflow.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(100 * 24 * 3600);

/// Settings of the pool.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) nodes: Vec<String>,
    pub(crate) connections_per_node_max: usize,
    pub(crate) in_flight_per_connection_max: usize,
    pub(crate) streams_max: usize,
    pub(crate) attempts_max: u32,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) attempt_timeout: Duration,
    pub(crate) backoff_min: Duration,
    pub(crate) backoff_max: Duration,
    pub(crate) replica_aware: bool,
    pub(crate) layout_refresh: Duration,
    pub(crate) frame_length_bytes_max: u32,
    pub(crate) login: Option<Login>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            nodes: Vec::new(),
            connections_per_node_max: 8,
            in_flight_per_connection_max: 16,
            streams_max: 8,
            attempts_max: 3,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(65),
            attempt_timeout: Duration::from_secs(5),
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(5),
            replica_aware: false,
            layout_refresh: Duration::from_secs(10),
            frame_length_bytes_max: FRAME_LENGTH_BYTES_MAX_DEFAULT,
            login: None,
        }
    }
}

impl Settings {
    /// Refuses settings that can't work, and shortens times to [`DURATION_MAX`].
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        let times = [
            &mut self.connect_timeout,
            &mut self.request_timeout,
            &mut self.attempt_timeout,
            &mut self.backoff_min,
            &mut self.backoff_max,
            &mut self.layout_refresh,
        ];
        for time in times {
            *time = DURATION_MAX.min(*time);
        }
        let refuse =
            |setting, value: String, remedy| Err(Error::Setting { setting, value, remedy });
        if self.nodes.is_empty() {
            return refuse("nodes", "empty".to_owned(), "name at least one host:port");
        }
        let counts = [
            ("connections_per_node_max", self.connections_per_node_max),
            ("in_flight_per_connection_max", self.in_flight_per_connection_max),
            ("streams_max", self.streams_max),
            ("attempts_max", self.attempts_max as usize),
        ];
        // The products of these counts must not exceed the number of permits that a semaphore can hold.
        for (setting, count) in counts {
            if !(1..=10_000).contains(&count) {
                return refuse(setting, count.to_string(), "choose 1 to 10000");
            }
        }
        Ok(())
    }

    /// Time for which a node is not used after `failures` failed connection attempts in a row. It doubles
    /// with each failure up to a bound, and is shortened at random by up to half, so that clients don't
    /// return at the same moment.
    pub(crate) fn backoff(&self, failures: u32) -> Duration {
        let doubled = 2u32.saturating_pow(failures.saturating_sub(1).min(20));
        let whole = self.backoff_min.saturating_mul(doubled).min(self.backoff_max);
        let random = RandomState::new().hash_one(failures) % 512;
        whole.mul_f64(1.0 - random as f64 / 1024.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_left_alone_twice_as_long_after_each_failure_up_to_the_bound() {
        let settings = Settings::default();
        let wholes_ms = [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000];
        for (failures, whole_ms) in (1..).zip(wholes_ms) {
            let whole = Duration::from_millis(whole_ms);
            for _ in 0..100 {
                let backoff = settings.backoff(failures);
                assert!(backoff <= whole && backoff >= whole / 2, "{failures}: {backoff:?}");
            }
        }
        assert!(settings.backoff(u32::MAX) <= settings.backoff_max);
    }
}
