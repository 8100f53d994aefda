use rand::SeedableRng;
use rand::rngs::StdRng;

use super::source::semi_compressible;
use super::*;
use crate::random::{RandomKind, Seed};
use crate::term::parse_terms;

fn parse(text: &str) -> Result<ValueGenerator, GeneratorError> {
    ValueGenerator::parse(&parse_terms(&format!("{text}.")).unwrap()[0].term)
}

fn random() -> Random {
    Random::new(RandomKind::Xoshiro, Seed::default(), 1)
}

/// A generator over a small source. Each byte is the low byte of its offset.
fn with_source(text: &str) -> ValueGenerator {
    let mut generator = parse(text).unwrap();
    generator.source = Some(Source::from((0..50_000_u32).map(|i| i as u8).collect::<Vec<_>>()));
    generator
}

fn sizes(text: &str, count: usize) -> Vec<usize> {
    let (mut generator, mut random) = (with_source(text), random());
    let mut next = || match generator.generate(&mut random).unwrap() {
        Value::Bytes(bytes) => bytes.len(),
        Value::Integer(_) => panic!("bytes were expected"),
    };
    (0..count).map(|_| next()).collect()
}

fn mean(sizes: &[usize]) -> f64 {
    sizes.iter().sum::<usize>() as f64 / sizes.len() as f64
}

#[test]
fn fixed_bin_gives_slices_of_the_source_at_changing_places() {
    let (mut generator, mut random) = (with_source("{fixed_bin, 1000}"), random());
    let mut firsts = Vec::new();
    for _ in 0..50 {
        let Value::Bytes(bytes) = generator.generate(&mut random).unwrap() else { panic!("bytes") };
        assert_eq!(bytes.len(), 1000);
        assert_eq!(bytes[1], bytes[0].wrapping_add(1));
        firsts.push(bytes[0]);
    }
    firsts.sort_unstable();
    firsts.dedup();
    assert!(firsts.len() > 20);
}

#[test]
fn fixed_bin_with_a_byte_is_that_byte() {
    let mut generator = parse("{fixed_bin, 5, 7}").unwrap();
    assert_eq!(generator.generate(&mut random()).unwrap(), Value::Bytes(&[7; 5]));
    assert!(generator.source_kinds().is_empty());
}

#[test]
fn fixed_char_is_printable() {
    let mut generator = parse("{fixed_char, 5000}").unwrap();
    let Value::Bytes(bytes) = generator.generate(&mut random()).unwrap() else { panic!("bytes") };
    assert_eq!(bytes.len(), 5000);
    assert_eq!((bytes.iter().min(), bytes.iter().max()), (Some(&b' '), Some(&b'~')));
}

#[test]
fn exponential_sizes_start_at_the_minimum_and_have_their_mean_above_it() {
    let sizes = sizes("{exponential_bin, 1000, 2000}", 5000);
    assert!(sizes.iter().all(|size| *size >= 1000));
    assert!((mean(&sizes) - 3000.0).abs() < 120.0, "{}", mean(&sizes));
}

#[test]
fn uniform_sizes_exclude_the_minimum_and_include_the_maximum() {
    let mut sizes = sizes("{uniform_bin, 3, 6}", 200);
    sizes.sort_unstable();
    sizes.dedup();
    assert_eq!(sizes, [4, 5, 6]);
}

#[test]
fn uniform_integers_exclude_the_minimum_and_include_the_maximum() {
    for (text, expected) in [("{uniform_int, 3}", [1, 2, 3]), ("{uniform_int, -2, 1}", [-1, 0, 1])]
    {
        let (mut generator, mut random) = (parse(text).unwrap(), random());
        let mut drawn: Vec<i64> = (0..200)
            .map(|_| match generator.generate(&mut random).unwrap() {
                Value::Integer(integer) => integer,
                Value::Bytes(_) => panic!("integers were expected"),
            })
            .collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn, expected);
    }
}

#[test]
fn semi_compressible_sizes_have_a_share_of_large_ones() {
    let sizes = sizes("{semi_compressible, 800, 200, 10, 0.2}", 5000);
    let large = sizes.iter().filter(|size| **size >= 8000).count();
    assert!((900..1100).contains(&large), "{large}");
    assert!((mean(&sizes) - 2800.0).abs() < 150.0, "{}", mean(&sizes));
    let short = parse("{semi_compressible, 8, 2}").unwrap();
    let ValueSpec::SemiCompressible { large_share, .. } = short.spec() else { panic!("{short:?}") };
    assert_eq!(*large_share, 0.0);
}

#[test]
fn the_semi_compressible_source_is_half_text_of_few_lines() {
    let bytes = semi_compressible(&mut StdRng::seed_from_u64(1), 8);
    assert_eq!(bytes.len(), 8 * 8192);
    let mut lines: Vec<&[u8]> =
        bytes.chunks_exact(8192).flat_map(|unit| unit[4096..].chunks_exact(128)).collect();
    assert!(lines.iter().all(|line| line.iter().all(|byte| (b' '..=b'~').contains(byte))));
    assert!(bytes.chunks_exact(8192).all(|unit| unit[4096..4224] == bytes[4096..4224]));
    lines.sort_unstable();
    lines.dedup();
    assert!(lines.len() <= 16 && lines.len() > 8, "{}", lines.len());
    assert!(bytes[..4096].iter().any(|byte| *byte > 127));
}

#[test]
fn a_value_as_large_as_the_source_is_the_source() {
    assert_eq!(sizes("{fixed_bin, 50000}", 1), [50_000]);
    assert_eq!(sizes("{fixed_bin, 49999}", 1), [49_999]);
}

#[test]
fn sources_are_made_only_when_needed_and_of_the_size_asked() {
    let settings = SourceSettings { size_bytes: Some(1000), file: None };
    let sources = Sources::prepare(&settings, [SourceKind::Random].into_iter()).unwrap();
    assert_eq!(sources.get(&SourceKind::Random).unwrap().bytes().len(), 1000);
    assert!(sources.get(&SourceKind::SemiCompressible).is_none());
    let zero = SourceSettings { size_bytes: Some(0), file: None };
    assert!(Sources::prepare(&zero, [SourceKind::Random].into_iter()).is_err());
}

#[test]
fn a_file_takes_the_place_of_the_source() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"abc").unwrap();
    let settings = SourceSettings { size_bytes: None, file: Some(file.path().to_owned()) };
    let sources = Sources::prepare(&settings, [SourceKind::SemiCompressible].into_iter()).unwrap();
    assert_eq!(sources.get(&SourceKind::SemiCompressible).unwrap().bytes()[..], *b"abc");
    let missing = SourceSettings { size_bytes: None, file: Some("/no/such/file".into()) };
    let error = Sources::prepare(&missing, [SourceKind::Random].into_iter()).unwrap_err();
    assert!(error.to_string().contains("/no/such/file"), "{error}");
}

#[test]
fn poisson_sizes_have_their_mean_and_variance_exactly_and_approximated() {
    for text in ["{poisson_bin, 100}", "{poisson_bin, 100, 50}", "{poisson_bin, 1000}"] {
        let sizes = sizes(text, 4000);
        let mean = mean(&sizes);
        let expected = if text.contains("1000") { 1000.0 } else { 100.0 };
        let variance = sizes.iter().map(|size| (*size as f64 - mean).powi(2)).sum::<f64>() / 4000.0;
        assert!((mean - expected).abs() < 0.1 * f64::sqrt(expected), "{text} {mean}");
        assert!((variance / expected - 1.0).abs() < 0.1, "{text} {variance}");
    }
}

/// The distinct values of a generator with a source of its own, each with its count.
fn distinct(text: &str, count: usize) -> std::collections::BTreeMap<Vec<u8>, u32> {
    let mut generator = parse(text).unwrap();
    let kinds = generator.source_kinds().into_iter();
    let sources = Sources::prepare(&SourceSettings::default(), kinds).unwrap();
    generator.start(WorkerPlace { number: 1, count: 1 }, &sources);
    let (mut random, mut values) = (random(), std::collections::BTreeMap::new());
    for _ in 0..count {
        let Value::Bytes(bytes) = generator.generate(&mut random).unwrap() else { panic!("bytes") };
        *values.entry(bytes.to_vec()).or_insert(0) += 1;
    }
    values
}

#[test]
fn a_set_of_fixed_size_has_its_values_equally_often() {
    let values = distinct("{fixed_bin_set, 20, 5}", 5000);
    assert_eq!(values.len(), 5);
    assert!(values.iter().all(|(value, count)| value.len() == 20 && count.abs_diff(1000) < 150));
}

#[test]
fn sets_of_varying_size_have_as_many_values_of_the_sizes_asked() {
    for (text, least, most) in [
        ("{var_bin_set, 40, 60, 50}", 40, 60),
        ("{var_bin_set, 40, 10, 50, exponential}", 40, 200),
        ("{var_bin_set, 100, 50, poisson}", 50, 150),
        ("{var_bin_set, 100, 90, 50, poisson}", 50, 150),
    ] {
        let values = distinct(text, 2000);
        assert_eq!(values.len(), 50, "{text}");
        let lengths: std::collections::BTreeSet<usize> = values.keys().map(Vec::len).collect();
        assert!(lengths.iter().all(|length| (least..=most).contains(length)), "{text} {lengths:?}");
        assert!(lengths.len() > 5, "{text} {lengths:?}");
    }
}

#[test]
fn a_file_of_values_is_cut_into_those_that_fit() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"aaabbbccc-").unwrap();
    let settings = SourceSettings { size_bytes: None, file: Some(file.path().to_owned()) };
    let mut generator = parse("{fixed_bin_set, 3, 100}").unwrap();
    let sources = Sources::prepare(&settings, generator.source_kinds().into_iter()).unwrap();
    generator.start(WorkerPlace { number: 1, count: 1 }, &sources);
    let mut random = random();
    let values: std::collections::BTreeSet<Vec<u8>> =
        (0..100).map(|_| generator.generate_shared(&mut random).unwrap().to_vec()).collect();
    assert_eq!(values, [b"aaa", b"bbb", b"ccc"].map(|value| value.to_vec()).into());
}

#[test]
fn a_seed_is_always_the_same_value() {
    let values = distinct("{bin_seed, 50}", 20);
    assert_eq!(values.keys().map(Vec::len).collect::<Vec<_>>(), [50]);
}

#[test]
fn constant_values_are_what_is_written() {
    let first = |text: &str| match parse(text).unwrap().generate(&mut random()).unwrap() {
        Value::Bytes(bytes) => bytes.to_vec(),
        Value::Integer(integer) => panic!("{integer}"),
    };
    assert_eq!(first("{constant_bin, <<1, 2, 3>>}"), [1, 2, 3]);
    assert_eq!(first("{constant_bin, \"abc\"}"), b"abc");
    assert_eq!(first("{constant_bin, 4}"), [0; 4]);
}

#[test]
fn highly_compressible_values_repeat_a_line() {
    let values = distinct("{highly_compressible_bin, 1000}", 300);
    assert!(values.len() > 50, "{} places of the line", values.len());
    for value in values.keys() {
        assert_eq!(value.len(), 1000);
        assert_eq!(value[..872], value[128..]);
        assert!(value.iter().all(|byte| (b' '..=b'~').contains(byte)));
    }
}

#[test]
fn key_generators_give_values_too() {
    let first_of = |text: &str, count: usize| -> Vec<String> {
        let (mut generator, mut random) = (parse(text).unwrap(), random());
        let mut next = || match generator.generate(&mut random).unwrap() {
            Value::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            Value::Integer(integer) => format!("integer {integer}"),
        };
        (0..count).map(|_| next()).collect()
    };
    assert_eq!(first_of("{keygen, {uniform_int, 1}}", 2), ["integer 1", "integer 1"]);
    assert_eq!(first_of("{keygen, {int_to_str, {uniform_int, 7, 1}}}", 1), ["7"]);
    assert_eq!(
        first_of("{function, basho_bench_driver_riakc_pb, mapred_ordered_valgen, []}", 3),
        ["0", "1", "2"]
    );
    let drawn = first_of("{function, basho_bench_driver_riakc_pb, mapred_valgen, [3]}", 100);
    assert!(drawn.iter().all(|text| ["1", "2", "3"].contains(&text.as_str())), "{drawn:?}");
    let (mut finite, mut random) = (parse("{keygen, {sequential_int, 2}}").unwrap(), random());
    assert_eq!(finite.generate(&mut random), Ok(Value::Integer(0)));
    assert_eq!(finite.generate(&mut random), Ok(Value::Integer(1)));
    assert_eq!(finite.generate(&mut random), Err(Exhausted));
    // A value generator inside a key generator gets its source.
    let values = distinct("{keygen, {valgen, {fixed_bin, 9}}}", 5);
    assert!(values.keys().all(|value| value.len() == 9));
}

#[test]
fn wrong_terms_say_what_they_should_be() {
    for (text, expected) in [
        ("{fixed_bin, -1}", "{fixed_bin, Size}"),
        ("{fixed_bin}", "{fixed_bin, Size}"),
        ("{fixed_bin, 10, 256}", "Byte up to 255"),
        ("{fixed_char, 99999999999}", "up to 64 MiB"),
        ("{fixed_bin, 99999999999, 0}", "up to 64 MiB"),
        ("{fixed_bin, 10, 20, 30}", "{fixed_bin, Size}"),
        ("{exponential_bin, 10}", "{exponential_bin, MinBytes, MeanExcessBytes}"),
        ("{uniform_bin, 10, 10}", "MinBytes below MaxBytes"),
        ("{uniform_int, 0}", "Max of at least 1"),
        ("{uniform_int, 3, 3}", "{uniform_int, Min, Max}"),
        ("{semi_compressible, 1, 2, 3, 4}", "Share up to 1"),
        ("{semi_compressible, 1, 2, 3}", "Share up to 1"),
        ("{function, m, f, x}", "is Erlang code, which is not run: use a built-in generator"),
        ("{poisson_bin, 0}", "MeanBytes at least 1"),
        ("{fixed_bin_set, 99999999999, 99}", "at most 16 GiB"),
        ("{var_bin_set, 5, 4, 3}", "{var_bin_set, MinBytes, MaxBytes, Count}"),
        ("{var_bin_set, 5, 4, 0, exponential}", "{var_bin_set, MinBytes"),
        ("{bin_seed, x}", "{bin_seed, Size}"),
        ("{keygen}", "{keygen, KeyGenerator}"),
        ("{fixd_bin, 10}", "did you mean `fixed_bin`?"),
        ("fixed_bin", "is not a generator"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
