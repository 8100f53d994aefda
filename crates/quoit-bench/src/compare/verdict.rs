//! The ratio of a figure between two sides, its confidence interval, and the test for a difference.
//!
//! Two runs of one server differ by more than the variance of their seconds explains, for instance because
//! memory is laid out differently or another process wakes up. With several runs on each side, that spread
//! is measured. Few runs measure it badly, so it is combined with an assumed spread that weighs as much as
//! [`USUAL_RUNS`] runs. With one run on each side, only the assumed spread is known. The interval is
//! Student's for the difference of two means.

use super::estimate::Estimate;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// Number of runs that the assumed spread weighs as much as.
const USUAL_RUNS: f64 = 20.0;
/// Level of the interval that is shown.
const SHOWN_LEVEL: f64 = 0.95;
/// Levels beyond which a difference is certain, between single runs and between several.
const CERTAIN_LEVEL_SINGLE: f64 = 0.97;
const CERTAIN_LEVEL: f64 = 0.95;
/// Level beyond which a difference is probable, if each side has at least [`PROBABLE_RUNS`] runs.
const PROBABLE_LEVEL: f64 = 0.85;
const PROBABLE_RUNS: usize = 3;

/// The verdict on one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The figure of the second side is lower.
    Lower,
    /// The figure of the second side is probably lower.
    ProbablyLower,
    /// No difference was found.
    Same,
    /// The figure of the second side is probably higher.
    ProbablyHigher,
    /// The figure of the second side is higher.
    Higher,
}

/// The comparison of one figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// The first side's figure: the geometric mean of the typical seconds of its runs.
    pub base: f64,
    /// The second side's figure.
    pub other: f64,
    /// The second side's figure divided by the first side's.
    pub ratio: f64,
    /// Lower end of the 95 % interval of the ratio.
    pub ratio_low: f64,
    /// Upper end of the 95 % interval of the ratio.
    pub ratio_high: f64,
    /// The difference as a multiple of the spread from run to run (Cohen's d).
    pub effect: f64,
    /// The smallest ratio above 1 that would have been detected.
    pub detectable: f64,
    /// The verdict.
    pub verdict: Verdict,
}

/// Estimates of a figure from the runs of two sides, each of which has at least one.
#[derive(Debug, Clone, Copy)]
pub(super) struct SideEstimates<'a> {
    pub(super) base: &'a [Estimate],
    pub(super) other: &'a [Estimate],
}

impl SideEstimates<'_> {
    /// Compares the sides. `usual_spread` is the assumed standard deviation of the figure's logarithm from
    /// run to run. `figure_count` figures are tested together, so each needs a higher level (Bonferroni's
    /// correction).
    pub(super) fn compare(self, usual_spread: f64, figure_count: usize) -> Comparison {
        let Self { base, other } = self;
        let [of_base, of_other] = [base, other].map(Side::of);
        let measured_runs = of_base.count + of_other.count - 2.0;
        let freedom = measured_runs + USUAL_RUNS;
        let squares = of_base.squares + of_other.squares + USUAL_RUNS * usual_spread.powi(2);
        // Measured differences between runs include the uncertainty within them; the assumed spread does not.
        let within = USUAL_RUNS / freedom;
        let variance = |side: &Side| (squares / freedom + within * side.within) / side.count;
        let error = (variance(&of_base) + variance(&of_other)).sqrt();
        let student =
            StudentsT::new(0.0, 1.0, freedom).expect("the degrees of freedom are above 0");
        let rounding = of_base.rounding + of_other.rounding;
        let reach = |level: f64| {
            let level = 1.0 - (1.0 - level) / figure_count.max(1) as f64;
            error * student.inverse_cdf(f64::midpoint(1.0, level)) + rounding
        };
        let is_single = base.len() < 2 || other.len() < 2;
        let certain = reach(if is_single { CERTAIN_LEVEL_SINGLE } else { CERTAIN_LEVEL });
        let has_probable = base.len() >= PROBABLE_RUNS && other.len() >= PROBABLE_RUNS;
        let probable = if has_probable { reach(PROBABLE_LEVEL) } else { certain };
        let difference = of_other.mean - of_base.mean;
        let verdict = match difference {
            difference if difference < -certain => Verdict::Lower,
            difference if difference < -probable => Verdict::ProbablyLower,
            difference if difference > certain => Verdict::Higher,
            difference if difference > probable => Verdict::ProbablyHigher,
            _ => Verdict::Same,
        };
        let shown = error * student.inverse_cdf(f64::midpoint(1.0, SHOWN_LEVEL)) + rounding;
        Comparison {
            base: of_base.mean.exp(),
            other: of_other.mean.exp(),
            ratio: difference.exp(),
            ratio_low: (difference - shown).exp(),
            ratio_high: (difference + shown).exp(),
            effect: difference / (squares / freedom).sqrt(),
            detectable: probable.exp(),
            verdict,
        }
    }
}

/// A summary of the runs of a side.
struct Side {
    count: f64,
    mean: f64,
    /// Sum of squared deviations from the mean.
    squares: f64,
    /// Mean variance within a run.
    within: f64,
    /// Greatest rounding error of a run.
    rounding: f64,
}

impl Side {
    fn of(runs: &[Estimate]) -> Self {
        let count = runs.len() as f64;
        let mean = runs.iter().map(|run| run.log).sum::<f64>() / count;
        let squares = runs.iter().map(|run| (run.log - mean).powi(2)).sum();
        let within = runs.iter().map(|run| run.variance).sum::<f64>() / count;
        let rounding = runs.iter().map(|run| run.rounding).fold(0.0, f64::max);
        Self { count, mean, squares, within, rounding }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::Xoshiro256PlusPlus;
    use rand::{RngExt as _, SeedableRng};

    /// Spread of the simulated server from run to run.
    const SPREAD: f64 = 0.03;
    const PAIRS: usize = 200;

    /// A simulated server. Its seconds are correlated, it is a little faster or slower in each run, and in
    /// one run of five it stalls for two seconds.
    struct SimulatedEstimates {
        random: Xoshiro256PlusPlus,
        slower: f64,
    }

    impl SimulatedEstimates {
        /// A draw from the standard normal distribution (Box and Muller).
        fn normal(&mut self) -> f64 {
            let radius = (-2.0 * self.random.random_range(f64::MIN_POSITIVE..1.0_f64).ln()).sqrt();
            radius * (std::f64::consts::TAU * self.random.random::<f64>()).cos()
        }

        fn run(&mut self) -> Estimate {
            let of_run = SPREAD * self.normal();
            let mut near = 0.0;
            let mut rates: Vec<f64> = (0..60)
                .map(|_| {
                    near = 0.7 * near + 0.01 * self.normal();
                    10_000.0 * (of_run + near).exp() / self.slower
                })
                .collect();
            if self.random.random_range(0..5) == 0 {
                let at = self.random.random_range(0..58);
                (rates[at], rates[at + 1]) = (0.0, 0.0);
            }
            Estimate::of(&rates).expect("a minute")
        }

        fn runs(&mut self, count: usize) -> Vec<Estimate> {
            (0..count).map(|_| self.run()).collect()
        }
    }

    fn verdicts(runs: usize, slower: f64, seed: u64) -> Vec<Verdict> {
        let simulated = |slower, seed| {
            let random = Xoshiro256PlusPlus::seed_from_u64(seed);
            SimulatedEstimates { random, slower }
        };
        let (mut base, mut other) = (simulated(1.0, seed), simulated(slower, seed + 1));
        (0..PAIRS)
            .map(|_| {
                SideEstimates { base: &base.runs(runs), other: &other.runs(runs) }
                    .compare(SPREAD, 1)
                    .verdict
            })
            .collect()
    }

    fn share(verdicts: &[Verdict], wanted: &[Verdict]) -> f64 {
        verdicts.iter().filter(|one| wanted.contains(one)).count() as f64 / PAIRS as f64
    }

    #[test]
    fn two_runs_of_one_server_do_not_differ() {
        for seed in [11, 12] {
            let same = share(&verdicts(1, 1.0, seed), &[Verdict::Same]);
            assert!(same >= 0.95, "{same}");
        }
    }

    #[test]
    fn a_server_that_is_slower_by_a_twentieth_is_found_with_five_runs_each() {
        for seed in [21, 22] {
            let found = verdicts(5, 1.05, seed);
            let slower = share(&found, &[Verdict::Lower, Verdict::ProbablyLower]);
            assert!(slower >= 0.8, "{slower}");
            assert_eq!(share(&found, &[Verdict::Higher]), 0.0);
        }
        // The same server is rarely called certainly slower or certainly faster.
        let found = verdicts(5, 1.0, 24);
        let differs = share(&found, &[Verdict::Lower, Verdict::Higher]);
        assert!(differs <= 0.06, "{differs}");
    }

    #[test]
    fn the_interval_is_students() {
        let run = |log| Estimate { log, variance: 0.0, rounding: 0.0 };
        // With equal runs on each side only the assumed spread counts, with 22 degrees of freedom, 20 of
        // which are its own.
        let compared = SideEstimates { base: &[run(0.0), run(0.0)], other: &[run(0.1), run(0.1)] }
            .compare(0.03, 1);
        let error = 0.03 * (20.0_f64 / 22.0).sqrt();
        // Student's 97.5 % quantile with 22 degrees of freedom.
        let reach = 2.073_873 * error;
        assert!((compared.ratio - 0.1_f64.exp()).abs() < 1e-12);
        assert!((compared.ratio_low.ln() - (0.1 - reach)).abs() < 1e-6, "{compared:?}");
        assert!((compared.ratio_high.ln() - (0.1 + reach)).abs() < 1e-6);
        assert!((compared.effect - 0.1 / error).abs() < 1e-9);
        assert_eq!(compared.verdict, Verdict::Higher);
    }

    #[test]
    fn a_usual_spread_gives_way_to_a_measured_one() {
        let runs = |middle: f64, spread: f64| -> Vec<Estimate> {
            (0..100)
                .map(|at| Estimate {
                    log: middle + if at % 2 == 0 { spread } else { -spread },
                    variance: 0.0,
                    rounding: 0.0,
                })
                .collect()
        };
        let narrow =
            SideEstimates { base: &runs(0.0, 0.001), other: &runs(0.01, 0.001) }.compare(0.03, 1);
        assert_eq!(narrow.verdict, Verdict::Higher);
        let wide =
            SideEstimates { base: &runs(0.0, 0.3), other: &runs(0.01, 0.3) }.compare(0.03, 1);
        assert_eq!(wide.verdict, Verdict::Same);
        assert!(wide.detectable > 1.04, "{wide:?}");
    }
}
