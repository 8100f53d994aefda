//! Tests of value generators against the distributions that the documentation states.

use super::*;
use crate::goodness_of_fit::{SEEDS, assert_chi_square, assert_distributed, assert_even};
use crate::random::{RandomKind, Seed};
use crate::term::parse_terms;

const DRAWS: usize = 10_000;

/// Passes the values of every seed and random generator to `check`. The source consists of 32-bit numbers,
/// each of which is its own index.
fn for_each_stream(text: &str, mut check: impl FnMut(&str, &mut dyn FnMut() -> Vec<u8>)) {
    let source = Source::from((0..25_000_u32).flat_map(u32::to_be_bytes).collect::<Vec<_>>());
    for kind in [RandomKind::Xoshiro, RandomKind::As183] {
        for seed in SEEDS {
            let mut generator =
                ValueGenerator::parse(&parse_terms(&format!("{text}.")).expect(text)[0].term)
                    .expect(text);
            generator.source = Some(source.clone());
            let mut random = Random::new(kind, Seed(seed), 1);
            let mut next = || match generator.generate(&mut random).unwrap() {
                Value::Bytes(bytes) => bytes.to_vec(),
                Value::Integer(integer) => integer.to_be_bytes().to_vec(),
            };
            check(&format!("{text} {kind:?} {seed:?}"), &mut next);
        }
    }
}

fn sizes(next: &mut dyn FnMut() -> Vec<u8>) -> Vec<f64> {
    (0..DRAWS).map(|_| next().len() as f64).collect()
}

/// The probability that an exponentially distributed number, truncated to an integer, is at most `x`.
fn exponential_up_to(x: f64, mean: f64) -> f64 {
    if x < 0.0 { 0.0 } else { 1.0 - (-(x + 1.0) / mean).exp() }
}

#[test]
fn values_begin_anywhere_in_the_source() {
    for_each_stream("{fixed_bin, 8}", |name, next| {
        // The first complete number of a value tells the offset of the value, in units of four bytes.
        let places = (0..DRAWS).map(|_| {
            let bytes = next();
            let number = (0..4).map(|shift| {
                let word: [u8; 4] = bytes[shift..shift + 4].try_into().expect("four bytes");
                u32::from_be_bytes(word)
            });
            f64::from(number.filter(|number| *number < 25_000).min().unwrap_or(0))
        });
        assert_distributed(name, places.collect(), |x| (x + 1.0) / 25_000.0);
    });
}

#[test]
fn printable_characters_are_uniform() {
    for_each_stream("{fixed_char, 100}", |name, next| {
        let mut counts = [0_u64; 95];
        for _ in 0..500 {
            next().into_iter().for_each(|byte| counts[usize::from(byte - b' ')] += 1);
        }
        assert_even(name, &counts);
    });
}

#[test]
fn sizes_are_exponential_uniform_and_poisson_as_said() {
    for_each_stream("{exponential_bin, 100, 2000}", |name, next| {
        assert_distributed(name, sizes(next), |x| exponential_up_to(x - 100.0, 2000.0));
    });
    for_each_stream("{uniform_bin, 100, 5000}", |name, next| {
        assert_distributed(name, sizes(next), |x| (x - 100.0) / 4900.0);
    });
    for_each_stream("{semi_compressible, 800, 200, 10, 0.2}", |name, next| {
        let up_to = |x: f64| {
            0.8 * exponential_up_to(x - 800.0, 200.0) + 0.2 * exponential_up_to(x - 8000.0, 2000.0)
        };
        assert_distributed(name, sizes(next), up_to);
    });
}

/// Natural logarithm of the probability of `number` in a Poisson distribution.
fn poisson_log(mean: f64, number: u32) -> f64 {
    let factorial: f64 = (1..=number).map(|n| f64::from(n).ln()).sum();
    f64::from(number) * mean.ln() - mean - factorial
}

#[test]
fn poisson_sizes_have_the_probabilities_of_the_distribution() {
    // Bins of `width` numbers around the mean, and one bin for each tail.
    for (text, mean, width) in [("{poisson_bin, 20}", 20.0, 1), ("{poisson_bin, 900}", 900.0, 10)] {
        let first = (mean - 2.2 * f64::sqrt(mean)) as u32;
        let count = (4.4 * f64::sqrt(mean)) as u32 / width;
        let mut probabilities = vec![(0..first).map(|n| poisson_log(mean, n).exp()).sum::<f64>()];
        for bin in 0..count {
            let numbers = first + bin * width..first + (bin + 1) * width;
            probabilities.push(numbers.map(|n| poisson_log(mean, n).exp()).sum());
        }
        probabilities.push(1.0 - probabilities.iter().sum::<f64>());
        for_each_stream(text, |name, next| {
            let mut counts = vec![0_u64; probabilities.len()];
            for size in sizes(next) {
                let bin = if size < f64::from(first) {
                    0
                } else {
                    (((size as u32 - first) / width) as usize + 1).min(counts.len() - 1)
                };
                counts[bin] += 1;
            }
            assert_chi_square(name, &counts, &probabilities);
        });
    }
}

#[test]
fn integers_are_uniform() {
    for_each_stream("{uniform_int, -10, 30}", |name, next| {
        let mut counts = [0_u64; 40];
        for _ in 0..DRAWS {
            let integer = i64::from_be_bytes(next().try_into().expect("an integer"));
            counts[(integer + 9) as usize] += 1;
        }
        assert_even(name, &counts);
    });
}
