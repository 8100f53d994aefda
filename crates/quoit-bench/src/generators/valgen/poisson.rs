//! Poisson-distributed numbers.

use crate::random::Random;

/// Means above this are approximated where nothing else is said, as basho_bench does.
pub(crate) const LIMIT: f64 = 700.0;

/// The greatest mean that the exact method can do: its first probability is not yet 0.
const EXACT_MAX: f64 = 700.0;

/// A Poisson distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Poisson {
    /// Its mean; at least 1.
    pub(crate) mean: f64,
    /// A mean above this is approximated by a normal distribution: the exact method takes a step
    /// for each unit of the number.
    pub(crate) limit: f64,
}

impl Poisson {
    /// Draws a number: by inversion of the distribution function from one draw (Devroye, Non-Uniform
    /// Random Variate Generation, X.3.3), or by Box and Muller's normal distribution from two.
    pub(crate) fn draw(self, random: &mut Random) -> u64 {
        let Self { mean, limit } = self;
        if mean > limit.min(EXACT_MAX) {
            let (angle, radius) = (random.fraction(), random.fraction());
            let radius = (-2.0 * (1.0 - radius).ln()).sqrt();
            let normal = radius * (2.0 * std::f64::consts::PI * angle).cos();
            return (normal * mean.sqrt() + mean) as u64;
        }
        let target = random.fraction();
        let mut number = 0;
        let mut probability = (-mean).exp();
        let mut sum = probability;
        // Rounding may keep the sum below the target for ever; the terms then no longer count.
        while target > sum && (probability > f64::EPSILON * 1e-6 || (number as f64) < mean) {
            number += 1;
            probability *= mean / number as f64;
            sum += probability;
        }
        number
    }
}
