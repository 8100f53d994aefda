//! Whether a node is up. Every request reads it.

use super::{LivenessSettings, PhiDetector};
use parking_lot::Mutex;
use quoit_number::saturating_u64;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::Instant;

/// The opinion about one node. Reading it costs a clock reading and an atomic load.
pub(crate) struct Health {
    start: Instant,
    /// Time from which the node counts as down if nothing more is heard of it; 0 without a connection.
    up_until_us: AtomicU64,
    heard_at_us: AtomicU64,
    /// Earliest time at which the detector gets its next interval.
    sample_at_us: AtomicU64,
    suspect_after_us: AtomicU64,
    heartbeat_us: u64,
    sampling: Mutex<Sampling>,
}

struct Sampling {
    detector: PhiDetector,
    sampled_at_us: u64,
}

impl Health {
    pub(crate) fn new(settings: LivenessSettings) -> Health {
        let detector = PhiDetector::new(settings);
        Health {
            start: Instant::now(),
            up_until_us: AtomicU64::new(0),
            heard_at_us: AtomicU64::new(0),
            sample_at_us: AtomicU64::new(0),
            suspect_after_us: AtomicU64::new(detector.suspect_after_us()),
            heartbeat_us: saturating_u64(settings.heartbeat_interval.as_micros()),
            sampling: Mutex::new(Sampling { detector, sampled_at_us: 0 }),
        }
    }

    /// Notes that a connection was made, so that the node is up.
    pub(crate) fn connected(&self, now: Instant) {
        let now_us = self.us(now);
        self.sampling.lock().sampled_at_us = now_us;
        self.sample_at_us.store(now_us + self.heartbeat_us, Ordering::Relaxed);
        self.extend(now_us);
    }

    /// Notes that bytes have arrived. Intervals shorter than a heartbeat are joined into one. Has no
    /// effect on whether the node is up if there is no connection any more.
    pub(crate) fn heard(&self, now: Instant) {
        let now_us = self.us(now);
        if now_us >= self.sample_at_us.load(Ordering::Relaxed) {
            let mut sampling = self.sampling.lock();
            let interval_us = now_us.saturating_sub(sampling.sampled_at_us);
            sampling.detector.observe(interval_us);
            sampling.sampled_at_us = now_us;
            let suspect_after_us = sampling.detector.suspect_after_us();
            drop(sampling);
            self.suspect_after_us.store(suspect_after_us, Ordering::Relaxed);
            // Three quarters of a heartbeat, because a heartbeat may arrive slightly earlier than the one
            // before.
            self.sample_at_us.store(now_us + self.heartbeat_us * 3 / 4, Ordering::Relaxed);
        }
        if self.up_until_us.load(Ordering::Relaxed) != 0 {
            self.extend(now_us);
        }
    }

    /// Notes that the connection is gone. The node counts as down until there is another.
    pub(crate) fn disconnected(&self) {
        self.up_until_us.store(0, Ordering::Relaxed);
    }

    /// Returns true if there is a connection and phi is below the threshold.
    pub(crate) fn is_up(&self, now: Instant) -> bool {
        self.us(now) < self.up_until_us.load(Ordering::Relaxed)
    }

    /// Returns phi at this moment; infinite without a connection.
    pub(crate) fn phi(&self, now: Instant) -> f64 {
        if self.up_until_us.load(Ordering::Relaxed) == 0 {
            return f64::INFINITY;
        }
        let silent_us = self.us(now).saturating_sub(self.heard_at_us.load(Ordering::Relaxed));
        self.sampling.lock().detector.phi(silent_us)
    }

    fn extend(&self, now_us: u64) {
        let suspect_after_us = self.suspect_after_us.load(Ordering::Relaxed);
        self.heard_at_us.store(now_us, Ordering::Relaxed);
        self.up_until_us.store(now_us + suspect_after_us, Ordering::Relaxed);
    }

    fn us(&self, now: Instant) -> u64 {
        saturating_u64(now.saturating_duration_since(self.start).as_micros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_node_is_up_from_its_connection_until_it_is_silent_for_too_long() {
        let start = Instant::now();
        let health = Health::new(LivenessSettings::default());
        let at = |ms| start + Duration::from_millis(ms);
        assert!(!health.is_up(at(1)), "nothing is known yet");
        health.connected(at(10));
        assert!(health.is_up(at(10)));
        for beat in 1..50 {
            health.heard(at(10 + beat * 300));
        }
        let last_ms = 10 + 49 * 300;
        assert!(health.is_up(at(last_ms + 800)));
        assert!(!health.is_up(at(last_ms + 2000)));
        assert!(health.phi(at(last_ms + 2000)) > 8.0);
        health.heard(at(last_ms + 3000));
        assert!(health.is_up(at(last_ms + 3000)), "it speaks again");
        health.disconnected();
        health.heard(at(last_ms + 3001));
        assert!(!health.is_up(at(last_ms + 3001)), "what was under way does not count");
        assert_eq!(health.phi(at(last_ms + 3001)), f64::INFINITY);
    }

    #[test]
    fn a_busy_connection_does_not_make_the_detector_nervous() {
        let start = Instant::now();
        let health = Health::new(LivenessSettings::default());
        health.connected(start);
        for ms in 0..60_000 {
            health.heard(start + Duration::from_millis(ms));
        }
        assert!(health.is_up(start + Duration::from_millis(60_700)));
    }
}
