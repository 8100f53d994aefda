//! Tests of key generators against the distributions that the documentation states.

use proptest::prelude::*;

use super::*;
use crate::goodness_of_fit::{SEEDS, assert_chi_square, assert_distributed, assert_even};
use crate::random::{RandomKind, Seed};
use crate::term::parse_terms;

const DRAWS: usize = 20_000;

fn generator(text: &str) -> KeyGenerator {
    KeyGenerator::parse(&parse_terms(&format!("{text}.")).expect(text)[0].term).expect(text)
}

/// Passes the keys of every seed and random generator to `check`.
fn for_each_stream(text: &str, check: impl Fn(&str, &[Key])) {
    for kind in [RandomKind::Xoshiro, RandomKind::As183] {
        for seed in SEEDS {
            let mut generator = generator(text);
            let mut random = Random::new(kind, Seed(seed), 1);
            let mut key = Key::default();
            let mut next = || generator.generate(&mut random, &mut key).map(|()| key.clone());
            let keys: Vec<Key> = (0..DRAWS).map_while(|_| next().ok()).collect();
            assert_eq!(keys.len(), DRAWS);
            check(&format!("{text} {kind:?} {seed:?}"), &keys);
        }
    }
}

fn numbers(keys: &[Key]) -> Vec<f64> {
    keys.iter().map(|key| key.integer() as f64).collect()
}

#[test]
fn uniform_int_is_uniform() {
    for_each_stream("{uniform_int, 50}", |name, keys| {
        let mut counts = [0_u64; 50];
        keys.iter().for_each(|key| counts[key.integer() as usize - 1] += 1);
        assert_even(name, &counts);
    });
    for_each_stream("{uniform_int, -1000000, 2000000}", |name, keys| {
        assert_distributed(name, numbers(keys), |x| (x + 1_000_001.0) / 2e6);
    });
}

/// The probability that a shifted Pareto distribution of shape 1.5 gives an integer up to `x`.
fn pareto_up_to(x: f64, max: f64) -> f64 {
    let scale = 0.5 * (0.2 * max).trunc();
    1.0 - (1.0 + (x + 1.0) / scale).powf(-1.5)
}

#[test]
fn pareto_int_is_a_shifted_pareto_distribution() {
    for_each_stream("{pareto_int, 1000000}", |name, keys| {
        assert_distributed(name, numbers(keys), |x| pareto_up_to(x, 1e6));
    });
    for_each_stream("{truncated_pareto_int, 1000000}", |name, keys| {
        let up_to = |x: f64| if x < 1e6 { pareto_up_to(x, 1e6) } else { 1.0 };
        assert_distributed(name, numbers(keys), up_to);
    });
}

#[test]
fn eightytwenty_int_is_uniform_in_both_parts() {
    for_each_stream("{eightytwenty_int, 50}", |name, keys| {
        let mut counts = [0_u64; 50];
        keys.iter().for_each(|key| counts[key.integer() as usize - 1] += 1);
        let probabilities: Vec<f64> =
            (0..50).map(|index| if index < 10 { 0.08 } else { 0.005 }).collect();
        assert_chi_square(name, &counts, &probabilities);
    });
}

/// The probabilities of ranks in Zipf's distribution.
fn zipf(count: usize) -> Vec<f64> {
    let weights: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-0.99)).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

#[test]
fn zipfian_int_draws_the_least_integers_most_often() {
    for_each_stream("{zipfian_int, 40}", |name, keys| {
        let mut counts = [0_u64; 40];
        keys.iter().for_each(|key| counts[key.integer() as usize] += 1);
        assert_chi_square(name, &counts, &zipf(40));
    });
}

#[test]
fn scrambled_zipfian_int_has_its_hot_keys_anywhere() {
    for_each_stream("{scrambled_zipfian_int, 40}", |name, keys| {
        let mut counts = [0_u64; 40];
        keys.iter().for_each(|key| counts[key.integer() as usize] += 1);
        // Ranks with the same hash share an integer.
        let mut shares = [0.0; 40];
        for (rank, share) in zipf(40).into_iter().enumerate() {
            shares[(zipf::scrambled(rank as u64) % 40) as usize] += share;
        }
        let drawn = (0..40).filter(|place| shares[*place] > 0.0);
        let (counts, shares): (Vec<u64>, Vec<f64>) =
            drawn.map(|place| (counts[place], shares[place])).unzip();
        assert_eq!(counts.iter().sum::<u64>(), DRAWS as u64, "{name}: no other integer comes");
        assert_chi_square(name, &counts, &shares);
    });
}

#[test]
fn latest_int_follows_insertions() {
    for_each_stream("{latest_int, 40}", |name, keys| {
        let mut counts = [0_u64; 40];
        keys.iter().for_each(|key| counts[39 - key.integer() as usize] += 1);
        assert_chi_square(name, &counts, &zipf(40));
    });
    let mut keys = generator("{to_binstr, \"k~B\", {latest_int, 10}}");
    let mut inserted = keys.inserting().expect("it is known what comes next");
    let mut random = Random::new(RandomKind::Xoshiro, Seed::default(), 1);
    let mut key = Key::default();
    inserted.generate(&mut random, &mut key).expect("there is no end");
    assert_eq!(key.bytes(), b"k10");
    let mut newest = |keys: &mut KeyGenerator| {
        let mut drawn = (0..500).map(|_| {
            keys.generate(&mut random, &mut key).expect("there is no end");
            key.integer()
        });
        drawn.by_ref().max()
    };
    assert_eq!(newest(&mut keys), Some(9), "it is not there before its insertion has ended");
    inserted.end_insertion();
    assert_eq!(newest(&mut keys), Some(10));
}

#[test]
fn insertions_go_on_behind_the_keys_that_are_there() {
    let next = |text: &str| {
        let mut inserted = generator(text).inserting()?;
        let mut random = Random::new(RandomKind::Xoshiro, Seed::default(), 1);
        let mut key = Key::default();
        inserted.generate(&mut random, &mut key).ok()?;
        Some(key.integer())
    };
    assert_eq!(next("{uniform_int, 50}"), Some(51));
    assert_eq!(next("{int_to_str, {uniform_int, 5, 50}}"), Some(55));
    assert_eq!(next("{scrambled_zipfian_int, 50}"), Some(50));
    assert_eq!(next("{pareto_int, 50}"), None);
    assert_eq!(next("uuid_v4"), None);
}

#[test]
fn dynamo_style_keys_are_equally_frequent() {
    for_each_stream("{dynamo_style_string, 40}", |name, keys| {
        let mut counts = std::collections::HashMap::<&[u8], u64>::new();
        keys.iter().for_each(|key| *counts.entry(key.bytes()).or_default() += 1);
        assert_even(name, &counts.into_values().collect::<Vec<_>>());
    });
}

/// For each hexadecimal digit, how often it occurs at a position of the keys.
fn digits_at(keys: &[Key], place: usize) -> [u64; 16] {
    let mut counts = [0; 16];
    for key in keys {
        let digit = char::from(key.bytes()[place]).to_digit(16).expect("a digit");
        counts[digit as usize] += 1;
    }
    counts
}

#[test]
fn random_digits_are_uniform_at_each_place() {
    for_each_stream("{random_dynamo_style_string, 1}", |name, keys| {
        for place in [0, 15, 17, 40, 66] {
            assert_even(&format!("{name} at {place}"), &digits_at(keys, place));
        }
    });
    for_each_stream("{uuid_v4_s, \"\"}", |name, keys| {
        for place in [0, 11, 13, 15, 17, 31] {
            assert_even(&format!("{name} at {place}"), &digits_at(keys, place));
        }
        // Two of the four bits of this digit are fixed.
        assert_even(name, &digits_at(keys, 16)[8..12]);
    });
}

#[test]
fn suffixes_of_inserted_keys_are_uniform() {
    for_each_stream("{function, voxer_gen1, inserter_keygen, [100]}", |name, keys| {
        let suffix = |key: &Key| {
            let text = std::str::from_utf8(key.bytes()).expect("text");
            text.rsplit('_').next().and_then(|suffix| suffix.parse().ok()).expect("a suffix")
        };
        assert_distributed(name, keys.iter().map(suffix).collect(), |x| x / 1e6);
    });
}

proptest! {
    #[test]
    fn binaries_are_the_low_bytes_of_the_integer(
        integer in -(1_i64 << 61)..(1 << 61),
        size in 1_usize..=8,
    ) {
        let mut key = Key::default();
        for (name, is_little_endian) in [("littleendian", true), ("bigendian", false)] {
            let text = format!("{{{{int_to_bin_{name}, {}}}, {{uniform_int, {integer}, 1}}}}", size * 8);
            let mut random = Random::new(RandomKind::Xoshiro, Seed::default(), 1);
            generator(&text).generate(&mut random, &mut key).expect("a key");
            let expected = if is_little_endian {
                integer.to_le_bytes()[..size].to_vec()
            } else {
                integer.to_be_bytes()[8 - size..].to_vec()
            };
            prop_assert_eq!(key.bytes(), expected);
        }
    }

    #[test]
    fn split_pieces_make_the_integer_again(
        integer in 0_i64..(1 << 60),
        moduli in proptest::collection::vec(1_i64..5000, 1..5),
    ) {
        let mut pieces = Vec::new();
        text::split(integer, &moduli, &mut pieces);
        let product: i128 = moduli.iter().map(|modulus| i128::from(*modulus)).product();
        let joined = pieces.iter().zip(&moduli).rev().fold(0_i128, |joined, (piece, modulus)| {
            joined * i128::from(*modulus) + i128::from(piece.integer())
        });
        prop_assert_eq!(joined, i128::from(integer) % product);
    }
}
