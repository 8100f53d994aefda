//! The phi accrual failure detector.
//!
//! Hayashibara, Défago, Yared, Katayama: "The phi accrual failure detector", SRDS 2004. Instead of a
//! verdict, up or down, it computes how surprising the current silence is, given the intervals between
//! earlier signs of life: phi = -log10(probability that a sign of life comes later than now).

use super::LivenessSettings;
use quoit_number::{saturating_u64, whole};
use std::collections::VecDeque;

/// Judges silence by the intervals between earlier signs of life. All times are microseconds.
#[derive(Debug, Clone)]
pub struct PhiDetector {
    settings: LivenessSettings,
    intervals_us: VecDeque<u64>,
    sum_us: u64,
    /// Sum of the squares of the intervals. Intervals are capped at some seconds, so the sum does not
    /// overflow.
    square_sum_us2: u128,
    /// Distance from the mean, in standard deviations, at which phi reaches the threshold.
    deviations_max: f64,
}

impl PhiDetector {
    /// Creates a detector that expects a sign of life in each heartbeat interval until it has seen real
    /// intervals.
    #[must_use]
    pub fn new(settings: LivenessSettings) -> PhiDetector {
        let mut detector = PhiDetector {
            settings,
            intervals_us: VecDeque::with_capacity(settings.sample_count.max(1)),
            sum_us: 0,
            square_sum_us2: 0,
            deviations_max: deviations_at(settings.phi_threshold),
        };
        detector.push(saturating_u64(settings.heartbeat_interval.as_micros()));
        detector
    }

    /// Records the interval between two signs of life. An interval that is so long that the node was
    /// suspected is recorded as the longest one without suspicion, because an outage says little
    /// about normal operation.
    pub fn observe(&mut self, interval_us: u64) {
        self.push(interval_us.min(self.suspect_after_us()));
    }

    /// Returns phi after a silence of `silent_us`; at least 0. A live node is as silent as that with
    /// probability 10^-phi: once in ten intervals for 1, once in 10^8 for 8.
    #[must_use]
    pub fn phi(&self, silent_us: u64) -> f64 {
        let (mean_us, deviation_us) = self.distribution();
        phi_at((silent_us as f64 - mean_us) / deviation_us)
    }

    /// Returns the silence at which phi reaches the threshold.
    #[must_use]
    pub fn suspect_after_us(&self) -> u64 {
        let (mean_us, deviation_us) = self.distribution();
        whole(mean_us + self.deviations_max * deviation_us)
    }

    /// Returns the mean, including the acceptable pause, and the standard deviation.
    fn distribution(&self) -> (f64, f64) {
        let count = self.intervals_us.len() as f64;
        let mean_us = self.sum_us as f64 / count;
        let variance_us2 = self.square_sum_us2 as f64 / count - mean_us * mean_us;
        let deviation_us = variance_us2.max(0.0).sqrt();
        let pause_us = self.settings.acceptable_pause.as_micros() as f64;
        let deviation_min_us = (self.settings.deviation_min.as_micros() as f64).max(1.0);
        (mean_us + pause_us, deviation_us.max(deviation_min_us))
    }

    fn push(&mut self, interval_us: u64) {
        if self.intervals_us.len() >= self.settings.sample_count.max(1)
            && let Some(oldest_us) = self.intervals_us.pop_front()
        {
            self.sum_us -= oldest_us;
            self.square_sum_us2 -= u128::from(oldest_us).pow(2);
        }
        self.intervals_us.push_back(interval_us);
        self.sum_us += interval_us;
        self.square_sum_us2 += u128::from(interval_us).pow(2);
    }
}

/// Returns phi at a distance from the mean, in standard deviations of a normal distribution. The tail of
/// the distribution is approximated by a logistic function (Page, "Approximations to the cumulative
/// normal function", 1977).
fn phi_at(deviations: f64) -> f64 {
    // Natural logarithm of the odds that the sign of life has come by now.
    let ln_odds = deviations * (1.5976 + 0.070566 * deviations * deviations);
    // -log10(1 / (1 + e^x)), without overflow for large x.
    let ln_1p = if ln_odds > 30.0 { ln_odds } else { ln_odds.exp().ln_1p() };
    ln_1p / std::f64::consts::LN_10
}

/// Returns the distance at which phi is `phi`, by bisection. Phi grows with the distance.
fn deviations_at(phi: f64) -> f64 {
    let (mut low, mut high) = (-10.0, 100.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if phi_at(middle) < phi { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEARTBEAT_US: u64 = 300_000;

    fn steady() -> PhiDetector {
        let mut detector = PhiDetector::new(LivenessSettings::default());
        for _ in 0..200 {
            detector.observe(HEARTBEAT_US);
        }
        detector
    }

    #[test]
    fn a_steady_node_is_suspected_between_one_and_two_seconds() {
        let detector = steady();
        assert!(detector.phi(HEARTBEAT_US) < 1.0);
        assert!((900_000..1_500_000).contains(&detector.suspect_after_us()));
    }

    #[test]
    fn one_standard_deviation_is_exceeded_once_in_six_times() {
        assert!((phi_at(0.0) - 0.301).abs() < 0.001, "half of all are later than the mean");
        assert!((phi_at(1.0) - 0.80).abs() < 0.01);
        assert!((phi_at(3.0) - 2.87).abs() < 0.05);
    }

    #[test]
    fn an_unsteady_node_is_given_more_time() {
        let mut unsteady = steady();
        for round in 0..100 {
            unsteady.observe(if round % 2 == 0 { 100_000 } else { 900_000 });
        }
        assert!(unsteady.suspect_after_us() > 2 * steady().suspect_after_us());
    }

    #[test]
    fn an_outage_is_not_taken_for_normal() {
        let mut detector = steady();
        let before_us = detector.suspect_after_us();
        detector.observe(3_600_000_000);
        assert!(detector.suspect_after_us() < 2 * before_us);
    }

    proptest! {
        #[test]
        fn phi_grows_with_silence_and_meets_the_threshold_where_told(
            intervals_us in prop::collection::vec(0_u64..10_000_000, 0..300),
            silent_us in 0_u64..100_000_000,
        ) {
            let mut detector = PhiDetector::new(LivenessSettings::default());
            intervals_us.iter().for_each(|&interval_us| detector.observe(interval_us));
            let phi = detector.phi(silent_us);
            prop_assert!(phi >= 0.0 && phi.is_finite());
            prop_assert!(detector.phi(silent_us + 1000) >= phi);
            let suspect_after_us = detector.suspect_after_us();
            prop_assert!(detector.phi(suspect_after_us + 1000) >= 8.0);
            prop_assert!(detector.phi(suspect_after_us.saturating_sub(1000)) <= 8.0);
        }
    }
}
