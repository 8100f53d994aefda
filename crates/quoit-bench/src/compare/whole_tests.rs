//! Comparisons of a simulated server's runs, with all figures together as the command uses them.

use super::sides::OperationSeconds;
use super::*;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng};
use std::collections::BTreeMap;

const PAIR_COUNT: usize = 100;
const SECOND_COUNT: usize = 60;

/// A simulated server in a closed loop. Its seconds are correlated. In each run it is a little faster or
/// slower (by 3 %; the 99th percentile by 9 %), and in one run of five it stalls for two seconds.
struct SimulatedSide {
    random: Xoshiro256PlusPlus,
    slower: f64,
}

impl SimulatedSide {
    fn new(slower: f64, seed: u64) -> Self {
        Self { random: Xoshiro256PlusPlus::seed_from_u64(seed), slower }
    }

    /// A draw from the standard normal distribution (Box and Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.random.random_range(f64::MIN_POSITIVE..1.0_f64).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.random.random::<f64>()).cos()
    }

    fn run(&mut self) -> RunFigures {
        let (of_run, of_tail) = (USUAL_SPREAD * self.normal(), self.normal());
        let mut near = 0.0;
        let stall = (self.random.random_range(0..5) == 0)
            .then(|| self.random.random_range(0..SECOND_COUNT - 2));
        let mut rates = Vec::new();
        let mut operations: BTreeMap<String, OperationSeconds> = BTreeMap::new();
        for second in 0..SECOND_COUNT {
            near = 0.7 * near + 0.01 * self.normal();
            if stall.is_some_and(|from| (from..from + 2).contains(&second)) {
                rates.push(0.0);
                continue;
            }
            let service = (of_run + near).exp() * self.slower;
            rates.push(10_000.0 / service);
            for (name, usual_us) in [("get", 800.0), ("put", 1900.0)] {
                let of_second = (0.01 * self.normal()).exp();
                let tail = (2.0 * USUAL_SPREAD * of_tail + 0.05 * self.normal()).exp();
                let figures = operations.entry(name.to_owned()).or_default();
                figures.median_us.push(usual_us * service * of_second);
                figures.p99_us.push(usual_us * 4.0 * service * tail);
            }
        }
        RunFigures {
            directory: PathBuf::from("simulated"),
            rates,
            span_s: 1.0,
            success_count: 600_000.0,
            operations,
            error_count: 0,
            is_paced: false,
            noise_floor: crate::measure::Latencies::default(),
            is_client_bound: false,
        }
    }

    fn runs(&mut self, count: usize) -> Vec<RunFigures> {
        (0..count).map(|_| self.run()).collect()
    }
}

/// The verdicts on pairs of sides with `run_count` runs each. Operations of the second server take `slower`
/// times as long.
fn verdicts(run_count: usize, slower: f64, seed: u64) -> Vec<SideVerdict> {
    let (mut base, mut other) =
        (SimulatedSide::new(1.0, seed), SimulatedSide::new(slower, seed + 1));
    let verdict = |_| {
        let sides = Sides { base: base.runs(run_count), other: other.runs(run_count) };
        sides.compare(USUAL_SPREAD).expect("figures").verdict
    };
    (0..PAIR_COUNT).map(verdict).collect()
}

fn count(verdicts: &[SideVerdict], wanted: &[SideVerdict]) -> usize {
    verdicts.iter().filter(|one| wanted.contains(one)).count()
}

#[test]
fn two_runs_of_one_server_have_no_difference_in_any_figure() {
    for seed in [101, 202] {
        let same = count(&verdicts(1, 1.0, seed), &[SideVerdict::Same]);
        assert!(same >= 95, "{same} of {PAIR_COUNT} with seed {seed}");
    }
}

#[test]
fn five_runs_each_tell_a_server_that_is_slower_by_a_twentieth() {
    let seed = 505;
    let found = verdicts(5, 1.05, seed);
    let slower = count(&found, &[SideVerdict::Slower, SideVerdict::ProbablySlower]);
    assert!(slower >= 80, "{slower} of {PAIR_COUNT} with seed {seed}");
    let wrong = [SideVerdict::Faster, SideVerdict::ProbablyFaster];
    assert_eq!(count(&found, &wrong), 0, "{found:?}");
}
