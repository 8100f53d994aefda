use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::keys::{Order, WorkerIdentity, name_hash, number_hash, pick};
use crate::driver::indexes::{
    DateForm, TermRange, all_entries, birth_path, birth_range, postcode_path, postcode_range,
};
use crate::random::{Random, RandomKind, Seed};

#[test]
fn hashes_and_keys_are_fixed_for_ever() {
    assert_eq!([0, 1, 2, 1_000_000].map(number_hash), [0, 82_951_117, 31_684_506, 131_910_976]);
    assert_eq!([&b""[..], b"testnode1", b"testnode2"].map(name_hash), [0, 82_666_324, 44_847_413]);
    let identity = WorkerIdentity::new(3, b"testnode1");
    assert_eq!(identity.key(7, Order::Key), "000000007000581952");
    assert_eq!(identity.key(7, Order::Skew), "043786907000581952");
}

#[test]
fn workers_of_one_load_generator_never_share_keys() {
    let identities: HashSet<WorkerIdentity> =
        (1..=100_000).map(|worker| WorkerIdentity::new(worker, b"load")).collect();
    assert_eq!(identities.len(), 100_000);
}

proptest! {
    #[test]
    fn keys_have_eighteen_digits_and_differ(
        worker in 1_u32..100_000,
        name in prop::collection::vec(any::<u8>(), 0..30),
        numbers in prop::collection::hash_set(1_u64..(1 << 27), 2..50),
    ) {
        let identity = WorkerIdentity::new(worker, &name);
        for order in [Order::Key, Order::Skew] {
            let keys: HashSet<String> =
                numbers.iter().map(|number| identity.key(*number, order)).collect();
            prop_assert_eq!(keys.len(), numbers.len());
            prop_assert!(keys.iter().all(|key| key.len() == 18));
            prop_assert!(keys.iter().all(|key| key.bytes().all(|byte| byte.is_ascii_digit())));
        }
    }

    #[test]
    fn keys_in_key_order_ascend(number in 1_u64..999_999_998) {
        let identity = WorkerIdentity::new(1, b"load");
        prop_assert!(identity.key(number, Order::Key) < identity.key(number + 1, Order::Key));
    }

    #[test]
    fn pick_has_its_distribution(count in 1_u64..60, seed in any::<i32>()) {
        let mut random = Random::new(RandomKind::Xoshiro, Seed([seed.into(), 2, 3]), 1);
        let mut drawn: HashMap<u64, f64> = HashMap::new();
        for _ in 0..DRAW_COUNT {
            *drawn.entry(pick(&mut random, count)).or_default() += 1.0;
        }
        let mut distance = 0.0;
        let mut expected_total = 0.0;
        for (number, share) in (1..).zip(pick_shares(count)) {
            let expected = share * f64::from(DRAW_COUNT);
            if expected == 0.0 {
                continue;
            }
            let counted = drawn.remove(&number).unwrap_or_default();
            distance += (counted - expected).powi(2) / expected;
            expected_total += expected;
        }
        prop_assert!(drawn.is_empty(), "never to be drawn of {count}: {drawn:?}");
        prop_assert!((expected_total - f64::from(DRAW_COUNT)).abs() < 1e-6);
        // The mean of chi-square is its degrees of freedom. A distance of ten deviations above it never
        // happens by chance.
        let freedom = count as f64;
        prop_assert!(distance < freedom + 10.0 * (2.0 * freedom).sqrt() + 20.0, "{distance}");
    }
}

const DRAW_COUNT: u32 = 20_000;

/// The probability of each number of `1..=count`, from the definition of `pick`: a threshold T is uniform
/// over the lowest fifth; with probability (T - 1) / count the draw is uniform above T, otherwise uniform
/// up to T.
fn pick_shares(count: u64) -> Vec<f64> {
    let threshold_count = (count / 5).max(1);
    let mut shares = vec![0.0; count as usize];
    for threshold in 1..=threshold_count {
        let weight = 1.0 / threshold_count as f64;
        let above = (threshold - 1) as f64 / count as f64;
        for number in 1..=count {
            shares[number as usize - 1] += if number > threshold {
                weight * above / (count - threshold) as f64
            } else {
                weight * (1.0 - above) / threshold as f64
            };
        }
    }
    shares
}

#[test]
fn nine_picks_in_ten_fall_on_the_lowest_fifth() {
    let shares = pick_shares(1000);
    let lowest: f64 = shares[..200].iter().sum();
    assert!((0.88..0.94).contains(&lowest), "{lowest}");
    assert!(shares[0] > 20.0 * shares[199]);
}

#[test]
fn index_entries_have_the_form_of_postcodes_dates_and_times() {
    let mut random = Random::new(RandomKind::Xoshiro, Seed::default(), 1);
    let mut postcode_counts = HashSet::new();
    for _ in 0..200 {
        let entries = all_entries(&mut random, 3, DateForm::Digits);
        let terms_of = |field: &str| -> Vec<String> {
            let of_field = entries.iter().filter(|entry| entry.key == field.as_bytes());
            let text = |term: &[u8]| String::from_utf8(term.to_vec()).unwrap();
            of_field.map(|entry| text(entry.value.as_ref().unwrap())).collect()
        };
        let postcodes = terms_of("postcode_bin");
        postcode_counts.insert(postcodes.len());
        for postcode in &postcodes {
            let (district, rest) = postcode.split_once('|').unwrap();
            let number = district.trim_start_matches(|c: char| c.is_ascii_uppercase());
            assert!((1..=26).contains(&number.parse::<u32>().unwrap()), "{postcode}");
            assert!((1..=2).contains(&(district.len() - number.len())), "{postcode}");
            assert_eq!((rest.len(), &rest[6..]), (8, "=="), "{postcode}");
        }
        let births = terms_of("dateofbirth_bin");
        assert_eq!(births.len(), 1);
        let (date, _) = births[0].split_once('|').unwrap();
        assert!(("19330101".."20130101").contains(&date), "{date}");
        let changes = terms_of("lastmodified_bin");
        assert_eq!((changes.len(), changes[0].len()), (1, "2026-11-21T11:30:00".len()));
        assert_eq!(entries.len(), postcodes.len() + 2);
    }
    assert_eq!(postcode_counts, HashSet::from([1, 2, 3]));
}

#[test]
fn queries_ask_for_ranges_of_what_is_written() {
    let mut random = Random::new(RandomKind::Xoshiro, Seed::default(), 1);
    for _ in 0..200 {
        let TermRange { field, first, last } = postcode_range(&mut random);
        assert_eq!(field, "postcode_bin");
        assert!(first < last && first.ends_with("|a") && last.ends_with("|b"), "{first} {last}");
        let TermRange { field, first, last } = birth_range(&mut random);
        assert_eq!((field, first.len(), last.len()), ("dateofbirth_bin", 10, 10));
        assert!(
            first <= last && *"1933-01-01" <= *first && *last < *"2013-01-10",
            "{first} {last}"
        );
        let path = postcode_path(&mut random);
        assert!(path.starts_with("postcode_bin/") && path.ends_with("%7Cgd"), "{path}");
        let path = birth_path(&mut random);
        let (range, pattern) = path.split_once("?term_regex=").unwrap();
        assert_eq!(range.len(), "dateofbirth_bin/19510104/19510105".len(), "{path}");
        assert!(range.ends_with("05") && pattern.contains("%5Ba-d%5D"), "{path}");
    }
}
