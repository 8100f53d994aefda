//! Poisson-distributed numbers.

use crate::random::Random;

/// Default limit above which a mean is approximated, as in basho_bench.
pub(crate) const LIMIT: f64 = 700.0;

/// The greatest mean for which the exact method works: above it, the first probability would underflow to
/// 0.
const EXACT_MAX: f64 = 700.0;

/// A Poisson distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Poisson {
    /// The mean; at least 1.
    pub(crate) mean: f64,
    /// A mean above this limit is approximated by a normal distribution, because the exact method takes a
    /// step for each unit of the drawn number.
    pub(crate) limit: f64,
}

impl Poisson {
    /// Draws a number. The exact method inverts the distribution function with one draw (Devroye,
    /// Non-Uniform Random Variate Generation, X.3.3). The approximation uses the normal distribution by Box
    /// and Muller with two draws.
    pub(crate) fn draw(self, random: &mut Random) -> u64 {
        let Self { mean, limit } = self;
        if mean > limit.min(EXACT_MAX) {
            let (angle, radius) = (random.fraction(), random.fraction());
            let radius = (-2.0 * (1.0 - radius).ln()).sqrt();
            let normal = radius * (2.0 * std::f64::consts::PI * angle).cos();
            return quoit_number::whole(normal * mean.sqrt() + mean);
        }
        let target = random.fraction();
        let mut number = 0;
        let mut probability = (-mean).exp();
        let mut sum = probability;
        // Because of rounding, the sum may never reach the target. The loop then ends when the terms no
        // longer count.
        while target > sum && (probability > f64::EPSILON * 1e-6 || (number as f64) < mean) {
            number += 1;
            probability *= mean / number as f64;
            sum += probability;
        }
        number
    }
}
