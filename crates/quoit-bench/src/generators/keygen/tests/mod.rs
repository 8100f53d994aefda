mod wrappers;

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::notices::Notices;
use crate::random::{RandomKind, Seed};
use crate::term::{Term, parse_terms};
use crate::valgen::Sources;
use crate::worker_place::WorkerPlace;

fn term_of(text: &str) -> Term {
    parse_terms(&format!("{text}.")).expect(text)[0].term.clone()
}

fn generator(text: &str) -> KeyGenerator {
    KeyGenerator::parse(&term_of(text)).expect(text)
}

/// The first `count` keys of a worker, or fewer if the generator ends.
fn keys_of(text: &str, place: WorkerPlace, count: usize) -> Vec<Key> {
    let mut generator = generator(text);
    generator.start(place, &Sources::default());
    let mut random = Random::new(RandomKind::Xoshiro, Seed::default(), place.number);
    let mut key = Key::default();
    let mut keys = Vec::new();
    while keys.len() < count && generator.generate(&mut random, &mut key).is_ok() {
        keys.push(key.clone());
    }
    keys
}

const ALONE: WorkerPlace = WorkerPlace { number: 1, count: 1 };

fn integers(text: &str, count: usize) -> Vec<i64> {
    keys_of(text, ALONE, count).iter().map(Key::integer).collect()
}

/// The bytes of the first key.
fn first(text: &str) -> Vec<u8> {
    keys_of(text, ALONE, 1)[0].bytes().to_vec()
}

/// The key that a wrapper makes of `integer`, which a uniform range of one number provides.
fn wrapped(format: &str, integer: i64) -> Vec<u8> {
    first(&format.replace('#', &format!("{{uniform_int, {integer}, 1}}")))
}

#[test]
fn sequences_end() {
    assert_eq!(integers("{sequential_int, 3}", 10), [0, 1, 2]);
    assert_eq!(integers("{sequential_int, 5, 8}", 10), [5, 6, 7]);
    assert_eq!(integers("{partitioned_sequential_int, 5, 3}", 10), [5, 6, 7]);
    let error =
        KeyGenerator::parse(&term_of("{sequential_int, 8, 5}")).expect_err("an empty range");
    assert!(error.to_string().contains("Start below Max"), "{error}");
}

#[test]
fn random_int_is_another_name_of_uniform_int() {
    assert_eq!(integers("{random_int, 50}", 20), integers("{uniform_int, 50}", 20));
}

/// The expected bytes are the output of Erlang/OTP's `term_to_binary/1`.
#[test]
fn partitions_are_disjoint_and_cover_the_range() {
    let part = |number, count| -> Vec<i64> {
        let place = WorkerPlace { number, count };
        let keys = keys_of("{partitioned_sequential_int, 10, 11}", place, 100);
        keys.iter().map(Key::integer).collect()
    };
    assert_eq!(part(1, 3), [10, 11, 12]);
    assert_eq!(part(2, 3), [13, 14, 15]);
    assert_eq!(part(3, 3), [16, 17, 18, 19, 20]);
    assert!(part(1, 12).is_empty());
    assert_eq!(part(12, 12).len(), 11);
    let whole = WorkerPlace { number: 2, count: 3 };
    assert_eq!(keys_of("{sequential_int, 4}", whole, 9).len(), 4);
}

#[test]
fn uniform_integers_are_uniform_over_their_range() {
    for (text, least) in [("{uniform_int, 10}", 1), ("{uniform_int, 5, 10}", 5)] {
        let mut counts = BTreeMap::new();
        for integer in integers(text, 10_000) {
            *counts.entry(integer).or_insert(0) += 1;
        }
        assert_eq!(
            counts.keys().copied().collect::<Vec<_>>(),
            (least..least + 10).collect::<Vec<_>>()
        );
        let chi_square: f64 =
            counts.values().map(|count| (f64::from(*count) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi_square < 27.9, "{counts:?}");
    }
}

#[test]
fn pareto_integers_have_the_stated_shares() {
    let drawn = integers("{pareto_int, 100000}", 50_000);
    let share = |holds: &dyn Fn(i64) -> bool| {
        drawn.iter().filter(|integer| holds(**integer)).count() as f64 / drawn.len() as f64
    };
    let below = share(&|integer| integer < 20_000);
    assert!((below - 0.808).abs() < 0.01, "{below}");
    let above = share(&|integer| integer > 100_000);
    assert!((above - 0.0274).abs() < 0.004, "{above}");
    assert!(drawn.iter().all(|integer| *integer >= 0));
}

#[test]
fn truncated_pareto_piles_up_on_the_maximum() {
    let drawn = integers("{truncated_pareto_int, 1000}", 20_000);
    assert_eq!(drawn.iter().max(), Some(&1000));
    let share = drawn.iter().filter(|integer| **integer == 1000).count() as f64 / 20_000.0;
    assert!((share - 0.0274).abs() < 0.006, "{share}");
}

#[test]
fn eightytwenty_gives_four_fifths_to_the_first_fifth() {
    let drawn = integers("{eightytwenty_int, 1003}", 20_000);
    let share = drawn.iter().filter(|integer| **integer <= 200).count() as f64 / 20_000.0;
    assert!((share - 0.8).abs() < 0.01, "{share}");
    assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&1), Some(&1000)));
}

#[test]
fn uuids_carry_version_and_variant() {
    let raw = first("uuid_v4");
    assert_eq!((raw.len(), raw[6] >> 4, raw[8] >> 6), (16, 4, 0b10));
    let text = String::from_utf8(first("uuid_v4_s")).unwrap();
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12]);
    assert_eq!(&text[14..15], "4");
    assert!(String::from_utf8(first("{uuid_v4_s, \"\"}")).unwrap().len() == 32);
}

#[test]
fn random_dynamo_keys_are_always_new() {
    let keys = keys_of("{random_dynamo_style_string, 35000}", ALONE, 1000);
    let distinct: HashSet<&[u8]> = keys.iter().map(Key::bytes).collect();
    assert_eq!(distinct.len(), 1000);
    for key in keys {
        let text = String::from_utf8(key.bytes().to_vec()).unwrap();
        assert_eq!(text.len(), 67);
        assert!(text.split('-').all(|group| group.len() == 16));
        assert!(text.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f' | '-')));
    }
}

#[test]
fn dynamo_keys_are_as_many_as_asked_and_fixed() {
    let keys = keys_of("{dynamo_style_string, 50}", ALONE, 2000);
    let distinct: HashSet<&[u8]> = keys.iter().map(Key::bytes).collect();
    assert_eq!(distinct.len(), 50);
    let only = String::from_utf8(first("{dynamo_style_string, 1}")).unwrap();
    assert_eq!(only, "5e41ab087439611e-e9fd6049d65af21e-bcd9dbb49673066b-86d6fd953217ae03");
}

#[test]
fn literals_repeat() {
    assert_eq!(first("<<\"k\">>"), b"k");
    assert_eq!(first("\"k\u{e4}\""), b"k\xe4");
    assert_eq!(generator("\"k\"").kind(), KeyKind::String);
    assert_eq!(generator("<<\"k\">>").kind(), KeyKind::Binary);
    assert_eq!(first("{valgen, {fixed_bin, 3, 65}}"), b"AAA");
}

#[test]
fn the_lines_of_a_file_are_shared_by_all_workers() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("keys");
    std::fs::write(&path, "one\n\nthree").expect("a file");
    let lines = |suffix: &str, count: usize| -> Vec<String> {
        let shared = generator(&format!("{{file_line_bin, \"{}\"{suffix}}}", path.display()));
        shared.open_files().expect("the file");
        let (mut workers, mut key) = ([shared.clone(), shared], Key::default());
        let mut random = Random::new(RandomKind::Xoshiro, Seed::default(), 1);
        let mut keys = Vec::new();
        for turn in 0..count {
            if workers[turn % 2].generate(&mut random, &mut key).is_err() {
                break;
            }
            keys.push(String::from_utf8(key.bytes().to_vec()).expect("text"));
        }
        keys
    };
    assert_eq!(lines("", 5), ["one", "", "three", "one", ""]);
    assert_eq!(lines(", repeat", 4), ["one", "", "three", "one"]);
    assert_eq!(lines(", once", 5), ["one", "", "three"]);
    std::fs::write(&path, "").expect("a file");
    for name in ["keys", "missing"] {
        let path = dir.path().join(name);
        let generator =
            generator(&format!("{{base64, {{file_line_bin, \"{}\"}}}}", path.display()));
        let (named, _) = generator.open_files().expect_err(name);
        assert_eq!(named, path);
    }
}

#[test]
fn sequences_go_on_where_the_last_run_saved_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::<String>::new()));
    let run = |text: &str, number: u32, is_quiet: bool, count: usize| -> Vec<i64> {
        let told = told.clone();
        let settings = SequenceSettings {
            state_dir: Some(dir.path().join("state")),
            is_quiet,
            notices: Notices::to(move |_, text| told.lock().expect("a list").push(text.to_owned())),
        };
        let mut generator = generator(text);
        generator.configure_sequences(&settings);
        generator.start(WorkerPlace { number, count: 2 }, &Sources::default());
        let mut random = Random::new(RandomKind::Xoshiro, Seed::default(), 1);
        let mut key = Key::default();
        let mut next = || generator.generate(&mut random, &mut key).map(|()| key.integer());
        let keys: Vec<i64> = (0..count).map_while(|_| next().ok()).collect();
        keys
    };
    let long = "{partitioned_sequential_int, 1000, 20000}";
    // Positions 400 and 900 are saved. The second worker has a file of its own.
    assert_eq!(run(long, 2, true, 1000).first(), Some(&11_000));
    assert_eq!(run(long, 2, true, 1).first(), Some(&11_900));
    assert_eq!(run(long, 1, true, 400), (1000..1400).collect::<Vec<_>>());
    assert_eq!(run(long, 1, true, 1), [1000]);
    let saved = std::fs::read(dir.path().join("state/2")).expect("a saved position");
    assert_eq!(saved, [131, 98, 0, 0, 3, 132]);
    // A name distinguishes sequences.
    assert_eq!(run("{named_sequential_int, other, 20000}", 2, true, 401).last(), Some(&400));
    assert!(dir.path().join("state/other-2").exists());
    assert!(told.lock().expect("a list").is_empty());
    // A saved position beyond the end is discarded with a warning.
    assert_eq!(run("{sequential_int, 800}", 2, true, 1), [0]);
    assert!(told.lock().expect("a list")[0].contains("saved position 900 is beyond the end 800"));
    // Progress is reported every 5000 positions.
    told.lock().expect("a list").clear();
    run("{named_sequential_int, new, 20000}", 1, false, 10_001);
    let told = told.lock().expect("a list");
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(told[1], "worker 1: 5000 of 20000 keys of the sequence (25.0 %)");
}

#[test]
fn the_old_generator_gives_basho_benchs_keys() {
    // Worker 1 of the default seed. The fractions are derived in the tests of `random`: 0.468940...,
    // 0.252275..., 0.199783..., 0.271529...
    let keys = |text: &str| -> Vec<i64> {
        let mut generator = generator(text);
        let mut random = Random::new(RandomKind::As183, Seed::default(), 1);
        let mut key = Key::default();
        let mut next = || generator.generate(&mut random, &mut key).map(|()| key.integer());
        (0..4).map_while(|_| next().ok()).collect()
    };
    assert_eq!(keys("{uniform_int, 100000}"), [46_895, 25_228, 19_979, 27_153]);
    assert_eq!(keys("{uniform_int, 1000, 100}"), [1046, 1025, 1019, 1027]);
    // Each key is trunc((U^(-1/1.5) - 1) * 0.5 * 2000000), where U is one minus the fraction.
    assert_eq!(keys("{pareto_int, 10000000}"), [524_888, 213_870, 160_187, 235_166]);
}

#[test]
fn known_functions_of_erlang_code_are_generators() {
    let keys = keys_of("{function, voxer_gen1, inserter_keygen, [3]}", ALONE, 9);
    let parts: Vec<(u64, u64)> = keys
        .iter()
        .map(|key| {
            let text = std::str::from_utf8(key.bytes()).expect("text");
            let (second, suffix) = text.split_once('_').expect("two parts");
            (second.parse().expect("a second"), suffix.parse().expect("a suffix"))
        })
        .collect();
    let seconds: Vec<u64> = parts.iter().map(|(second, _)| second - parts[0].0).collect();
    assert_eq!(seconds, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
    assert!(parts.iter().all(|(_, suffix)| (1..=30_000).contains(suffix)));
    // `inserter_keygen2` splits its rate among the workers.
    let count_of_first_second = |number| {
        let text = "{function, voxer_gen1, inserter_keygen2, [5]}";
        let keys = keys_of(text, WorkerPlace { number, count: 2 }, 4);
        keys.iter().filter(|key| key.bytes()[..10] == keys[0].bytes()[..10]).count()
    };
    assert_eq!((count_of_first_second(1), count_of_first_second(2)), (3, 2));
    assert_eq!(first("{function, basho_bench_keygen, new, [<<\"a\">>]}"), b"a");
    assert_eq!(first("{function, basho_bench_valgen, new, [{fixed_bin, 2, 65}]}"), b"AA");
}

#[test]
fn generators_that_are_often_not_meant_are_noted() {
    let noted = |text: &str, worker_count| notes(&term_of(text), worker_count).join("\n");
    let text = "{int_to_bin, {sequential_int, 5}}";
    assert!(noted(text, 2).contains("int_to_bin_littleendian"));
    assert!(noted(text, 2).contains("each of the 2 workers walks the whole range"));
    assert!(!noted(text, 1).contains("walks"));
    assert_eq!(noted("{int_to_bin_bigendian, {uniform_int, 5}}", 9), "");
}

#[test]
fn dimensions_are_those_that_basho_bench_estimates() {
    for (text, dimension) in [
        ("{int_to_bin_bigendian, {uniform_int, 1000}}", Some(1000)),
        ("{to_binstr, \"~w\", {sequential_int, 10}}", Some(10)),
        ("{partitioned_sequential_int, 10}", Some(10)),
        ("{truncated_pareto_int, 10}", Some(10)),
        ("{pareto_int, 10}", None),
        ("{random_dynamo_style_string, 35000}", None),
        (
            "{concat_binary, {int_to_str, {uniform_int, 5}}, {int_to_str, {uniform_int, 9}}}",
            Some(5),
        ),
    ] {
        assert_eq!(generator(text).dimension(), dimension, "{text}");
    }
}

#[test]
fn wrong_terms_say_what_they_should_be() {
    for (text, expected) in [
        ("{uniform_int, 0}", "{uniform_int, Max} with Max of at least 1"),
        ("{uniform_int, a}", "{uniform_int, Max} with"),
        ("{pareto_int, 1, 2}", "{pareto_int, Max} with Max of at least 1"),
        ("{eightytwenty_int, 4}", "at least 5"),
        ("{uniform_in, 5}", "did you mean `uniform_int`?"),
        ("{int_to_bin_bigendian, \"a\"}", "wants a generator of integers"),
        ("{{int_to_bin_bigendian, 12}, {uniform_int, 5}}", "multiple of 8"),
        ("{str_to_bin, {uniform_int, 5}}", "wants a generator of strings"),
        ("{base64, {uniform_int, 5}}", "strings or binaries"),
        ("{int_to_bin_bigendian, {uniform_int}}", "`{uniform_int}` should be"),
        ("{to_binstr, \"~s\", {uniform_int, 5}}", "write ~w"),
        ("{to_binstr, \"~f\", {uniform_int, 5}}", "prints floats"),
        ("{to_binstr, \"~y\", {uniform_int, 5}}", "known ones are"),
        ("{to_binstr, \"~B\", \"x\"}", "write ~s"),
        ("{to_binstr, \"plain\", {uniform_int, 5}}", "takes 0 values and is given 1"),
        ("{to_binstr, \"~w~w\", {uniform_int, 5}}", "takes 2 values and is given 1"),
        ("{to_binstr, \"~99999999w\", {uniform_int, 5}}", "too wide"),
        ("{to_binstr, \"~.40B\", {uniform_int, 5}}", "a base from 2 to 36"),
        ("{to_binstr, x, {uniform_int, 5}}", "a format string in quotes"),
        ("{function, m, f, x}", "is Erlang code, which is not run: use a built-in generator"),
        (
            "{function, voxer_gen1, inserter_keygn, [5]}",
            "did you mean `voxer_gen1:inserter_keygen`? Else use",
        ),
        ("{function, voxer_gen1, inserter_keygen, []}", "[KeysPerSecond]"),
        ("{function, f}", "{function, Module, Function, [Argument, ...]}"),
        ("{file_line_bin, 5}", "{file_line_bin, \"Path\"}"),
        ("{{crypto_hash, sha}, {uniform_int, 5}}", "strings or binaries"),
        ("{{crypto_hash, sha3}, \"a\"}", "T one of md4, md5, ripemd160, sha,"),
        ("{modulo_format, {uniform_int, 5}, \"~w\", [10, 10]}", "takes 1 values and is given 2"),
        ("{modulo_format, {uniform_int, 5}, \"~w\", [0]}", "Modulus"),
        ("{named_sequential_int, \"a/b\", 5}", "Name of letters"),
        ("{named_sequential_int, 5}", "{named_sequential_int, Name, Count}"),
        ("\"\u{263a}\"", "characters up to 255"),
        ("[a]", "is not a generator"),
        ("{}", "is not a generator"),
    ] {
        let error = KeyGenerator::parse(&term_of(text)).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn partitions_always_cover_the_range_once(
        start in -1000_i64..1000,
        num in 1_u32..500,
        workers in 1_u32..40,
    ) {
        let text = format!("{{partitioned_sequential_int, {start}, {num}}}");
        let mut all = Vec::new();
        for number in 1..=workers {
            let place = WorkerPlace { number, count: workers };
            all.extend(keys_of(&text, place, 1000).iter().map(Key::integer));
        }
        prop_assert_eq!(all, (start..start + i64::from(num)).collect::<Vec<_>>());
    }

    #[test]
    fn padded_numbers_read_back(integer in any::<u32>(), base in 2_u32..=36) {
        let text = wrapped(&format!("{{to_binstr, \"~40.{base}.0b\", #}}"), i64::from(integer));
        let text = String::from_utf8(text).unwrap();
        prop_assert_eq!(text.len(), 40);
        prop_assert_eq!(u64::from_str_radix(&text, base).unwrap(), u64::from(integer));
    }

    #[test]
    fn format_strings_never_panic(text in "[~a-z0-9.*+#B-]{0,12}") {
        for kind in [KeyKind::Integer, KeyKind::String, KeyKind::Binary] {
            for count in 0..3 {
                if let Ok(format) = Format::parse(&text, &vec![kind; count]) {
                    format.write(&vec![Key::default(); count], &mut Vec::new());
                }
            }
        }
    }
}
