//! Zipf's distribution: the key of rank `k` has a probability proportional to `1 / k^exponent`.
//!
//! Ranks are drawn by rejection-inversion (W. Hörmann, G. Derflinger: Rejection-inversion to generate
//! variates from monotone discrete distributions, ACM Transactions on Modeling and Computer Simulation 6
//! (1996) 3). The method needs neither tables nor a sum over all ranks, so a billion keys cost nothing at
//! the start, and the number of keys can grow at no cost.

use crate::random::Random;

/// The exponent of the Yahoo! Cloud Serving Benchmark (Cooper et al., SoCC 2010).
pub(super) const YCSB_EXPONENT: f64 = 0.99;

/// Offset basis and prime of the 64-bit hash FNV-1a (Fowler, Noll, Vo).
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// Zipf's distribution over ranks, which begin at 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zipf {
    exponent: f64,
    /// The integral of the density up to 1.5, minus the weight of the first rank.
    first: f64,
    /// Draws that lie at most this far below their rank are accepted without the exact test.
    quick: f64,
}

impl Zipf {
    /// The distribution with this exponent, which must be above 0.
    pub(super) fn new(exponent: f64) -> Self {
        let mut zipf = Self { exponent, first: 0.0, quick: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.quick = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// Draws a rank of `1..=count`; `count` must not be 0.
    #[inline]
    pub(super) fn draw(&self, count: u64, random: &mut Random) -> u64 {
        let last = self.integral(count as f64 + 0.5);
        loop {
            let drawn = last + random.fraction() * (self.first - last);
            let place = self.inverse(drawn);
            let rank = quoit_number::whole(place + 0.5).clamp(1, count);
            let at = rank as f64;
            if at - place <= self.quick || drawn >= self.integral(at + 0.5) - self.weight(at) {
                return rank;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// An antiderivative of the weight.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        exp_m1_over((1.0 - self.exponent) * log) * log
    }

    /// The inverse of the antiderivative.
    fn inverse(&self, x: f64) -> f64 {
        let turned = (x * (1.0 - self.exponent)).max(-1.0);
        (ln_1p_over(turned) * x).exp()
    }
}

/// `(e^x - 1) / x`, accurate near 0 too.
fn exp_m1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// `ln(1 + x) / x`, accurate near 0 too.
fn ln_1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

/// Scatters numbers over all 64 bits by the FNV-1a hash of their bytes, lowest byte first, as YCSB does.
pub(super) fn scrambled(number: u64) -> u64 {
    number
        .to_le_bytes()
        .into_iter()
        .fold(FNV_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goodness_of_fit::{SEEDS, assert_chi_square};
    use crate::random::{RandomKind, Seed};

    fn counts(exponent: f64, count: u64) -> Vec<(String, Vec<u64>)> {
        let zipf = Zipf::new(exponent);
        let mut all = Vec::new();
        for kind in [RandomKind::Xoshiro, RandomKind::As183] {
            for seed in SEEDS {
                let mut random = Random::new(kind, Seed(seed), 1);
                let mut counts = vec![0; count as usize];
                for _ in 0..20_000 {
                    counts[zipf.draw(count, &mut random) as usize - 1] += 1;
                }
                all.push((
                    format!("exponent {exponent}, {count} ranks, {kind:?} {seed:?}"),
                    counts,
                ));
            }
        }
        all
    }

    #[test]
    fn ranks_are_drawn_by_their_weights() {
        for (exponent, count) in [(0.5, 20), (YCSB_EXPONENT, 40), (1.0, 30), (2.0, 8)] {
            let weights: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-exponent)).collect();
            let sum: f64 = weights.iter().sum();
            let probabilities: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
            for (name, counts) in counts(exponent, count) {
                assert_chi_square(&name, &counts, &probabilities);
            }
        }
    }

    #[test]
    fn of_one_rank_each_draw_is_that_one() {
        assert!(counts(YCSB_EXPONENT, 1).iter().all(|(_, counts)| counts == &[20_000]));
    }

    #[test]
    fn a_billion_ranks_need_no_sum_over_all_of_them() {
        let zipf = Zipf::new(YCSB_EXPONENT);
        let mut random = Random::new(RandomKind::Xoshiro, Seed::default(), 1);
        let count = 1_000_000_000;
        let draws = 20_000;
        let first = (0..draws).filter(|_| zipf.draw(count, &mut random) == 1).count() as f64;
        // By the Euler-Maclaurin formula, the weights of all ranks sum to 23.6.
        let expected = f64::from(draws) / 23.6;
        assert!((first - expected).abs() < 5.0 * expected.sqrt(), "{first} of {draws}");
    }

    #[test]
    fn the_scrambling_is_fnv_1a() {
        // The hash of eight zero bytes, computed by hand from the offset basis and the prime.
        assert_eq!(scrambled(0), 0xa8c7_f832_281a_39c5);
        assert_ne!(scrambled(1), scrambled(2));
    }
}
