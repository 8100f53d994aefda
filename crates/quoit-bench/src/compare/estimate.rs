//! A figure of one run, with its uncertainty.

use crate::random::mix;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng};

/// Minimum number of seconds of a run.
const SECONDS_MIN: usize = 5;
/// Number of resamples of a run's seconds.
const RESAMPLE_COUNT: usize = 100;
/// A second counts as stalled if its rate is below this share of the typical one.
const STALLED_PART: f64 = 0.1;

/// The typical second of a run, as a logarithm, so that differences are ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    /// Logarithm of the median of the seconds. The median is used because a stall would shift a mean;
    /// stalls are reported separately.
    pub(super) log: f64,
    /// Variance of `log`, as far as it can be estimated from this run alone.
    pub(super) variance: f64,
    /// Maximum error of `log` because the seconds were rounded. It is the same in all runs of a server.
    pub(super) rounding: f64,
}

impl Estimate {
    /// The estimate from a run's seconds. `None` if too few seconds have a positive figure.
    ///
    /// The variance is that of the moving block bootstrap (Künsch, "The jackknife and the bootstrap for
    /// general stationary observations", Annals of Statistics 17, 1989): blocks of neighbouring seconds
    /// preserve the dependence between them. Equal seconds give equal estimates.
    pub(super) fn of(seconds: &[f64]) -> Option<Self> {
        let logs: Vec<f64> =
            seconds.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect();
        if logs.len() < SECONDS_MIN {
            return None;
        }
        let block_length =
            quoit_number::index(quoit_number::whole((logs.len() as f64).sqrt().ceil()));
        let seed = logs.iter().fold(0, |hash, value| mix(hash ^ value.to_bits()));
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut drawn = Vec::with_capacity(logs.len() + block_length);
        let mut medians = Vec::with_capacity(RESAMPLE_COUNT);
        for _ in 0..RESAMPLE_COUNT {
            drawn.clear();
            while drawn.len() < logs.len() {
                let from = random.random_range(0..=logs.len() - block_length);
                drawn.extend_from_slice(logs.get(from..from + block_length).unwrap_or_default());
            }
            drawn.truncate(logs.len());
            medians.push(median(&mut drawn));
        }
        let mean = medians.iter().sum::<f64>() / RESAMPLE_COUNT as f64;
        let squares = medians.iter().map(|one| (one - mean).powi(2)).sum::<f64>();
        let variance = squares / (RESAMPLE_COUNT - 1) as f64;
        let mut logs = logs;
        Some(Self { log: median(&mut logs), variance, rounding: 0.0 })
    }

    /// The estimate if the seconds were rounded to a multiple of `step`.
    pub(super) fn rounded_to(self, step: f64) -> Self {
        Self { rounding: step / 2.0 / self.log.exp(), ..self }
    }
}

/// The median of values, of which there must be at least one. Reorders them.
fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    let is_odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if is_odd {
        return *upper;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    f64::midpoint(lower, *upper)
}

/// Number of seconds in which hardly anything was done.
pub(super) fn stalled_count(rates: &[f64]) -> usize {
    if rates.is_empty() {
        return 0;
    }
    let typical = median(&mut rates.to_vec());
    rates.iter().filter(|rate| **rate < typical * STALLED_PART).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_moves_the_typical_second_hardly() {
        let mut seconds: Vec<f64> = (0..60).map(|at| 1000.0 + f64::from(at % 7)).collect();
        let before = Estimate::of(&seconds).expect("an estimate");
        (seconds[20], seconds[21]) = (3.0, 0.0);
        let after = Estimate::of(&seconds).expect("an estimate");
        assert!((before.log - after.log).abs() < 0.002);
        assert_eq!(stalled_count(&seconds), 2);
    }

    #[test]
    fn dependent_seconds_tell_less_than_independent_ones() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut noise = || random.random_range(-0.1..0.1_f64);
        let apart: Vec<f64> = (0..400).map(|_| noise().exp()).collect();
        let mut last = 0.0;
        let together: Vec<f64> = (0..400)
            .map(|_| {
                last = 0.9 * last + (1.0_f64 - 0.81).sqrt() * noise();
                f64::exp(last)
            })
            .collect();
        let [apart, together] =
            [apart, together].map(|seconds| Estimate::of(&seconds).expect("an estimate").variance);
        assert!(together > 3.0 * apart, "{together} {apart}");
    }

    #[test]
    fn few_seconds_give_no_estimate() {
        assert_eq!(Estimate::of(&[1.0; SECONDS_MIN - 1]), None);
        assert_eq!(Estimate::of(&[0.0; 60]), None);
        let same = Estimate::of(&[2.0; SECONDS_MIN]).expect("an estimate");
        assert_eq!(same.log, 2.0_f64.ln());
        assert!(same.variance < 1e-20, "{same:?}");
    }
}
