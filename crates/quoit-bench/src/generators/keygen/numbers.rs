//! Parsing of generators of integers.

use super::insertion::Insertions;
use super::integer::Integers;
use super::sequence::Sequence;
use super::zipf::{YCSB_EXPONENT, Zipf};
use super::{GeneratorError, KeyGenerator, shape_error};
use crate::term::Term;

/// Parses the generators of integers, and their old compound names. `None` if the name is another one.
pub(super) fn parse_integers(
    term: &Term,
    name: &str,
    arguments: &[Term],
) -> Option<Result<KeyGenerator, GeneratorError>> {
    if let "named_sequential_int" | "named_partitioned_sequential_int" = name {
        return Some(named_sequence(term, name, arguments));
    }
    let (base, suffix) = match name {
        "sequential_int_bin" | "uniform_int_bin" | "pareto_int_bin" => {
            (name.trim_end_matches("_bin"), "bin")
        }
        "sequential_int_str" | "uniform_int_str" => (name.trim_end_matches("_str"), "str"),
        _ => (name, ""),
    };
    let integers = plain_integers(term, base, arguments)?;
    Some(integers.map(|integers| {
        let inner = KeyGenerator::Integers(integers);
        match suffix {
            "bin" => KeyGenerator::IntegerToBinary {
                size_bytes: 4,
                is_little_endian: cfg!(target_endian = "little"),
                inner: Box::new(inner),
            },
            "str" => KeyGenerator::IntegerToString(Box::new(inner)),
            _ => inner,
        }
    }))
}

/// Parses a named sequence. The name distinguishes its saved positions from those of other sequences.
fn named_sequence(
    term: &Term,
    name: &str,
    arguments: &[Term],
) -> Result<KeyGenerator, GeneratorError> {
    let base = name.trim_start_matches("named_");
    let form = || {
        let start = if base == "sequential_int" { "" } else { "Start, " };
        shape_error(
            term,
            format!("{{{name}, Name, {start}Count}}, Name of letters, digits, - and _"),
        )
    };
    let [name, arguments @ ..] = arguments else { return Err(form()) };
    let name = name.as_atom().map(str::to_owned).or_else(|| name.as_text());
    // The name becomes part of a file name.
    let is_plain = |name: &String| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    let name = name.filter(is_plain).ok_or_else(form)?;
    match plain_integers(term, base, arguments) {
        Some(Ok(Integers::Sequence(sequence))) => {
            Ok(KeyGenerator::Integers(Integers::Sequence(sequence.named(name))))
        }
        _ => Err(form()),
    }
}

fn plain_integers(
    term: &Term,
    name: &str,
    arguments: &[Term],
) -> Option<Result<Integers, GeneratorError>> {
    let one_form = || format!("{{{name}, Max}} with Max of at least 1");
    let two_forms = || format!("{{{name}, Max}} or {{{name}, Start, Count}} of integers");
    let sequence = |start: i64, count: u64, is_partitioned| {
        Integers::Sequence(Sequence::new(start, count, is_partitioned))
    };
    let max = |least: i64| -> Result<i64, GeneratorError> {
        let [max] = arguments else { return Err(shape_error(term, one_form())) };
        let max = max.as_integer().and_then(|max| i64::try_from(max).ok());
        max.filter(|max| (least..=i64::MAX / 8).contains(max))
            .ok_or_else(|| shape_error(term, one_form()))
    };
    let start_and_count = || -> Result<Option<(i64, u64)>, GeneratorError> {
        let [start, count] = arguments else { return Ok(None) };
        let start = start.as_integer().and_then(|start| i64::try_from(start).ok());
        let start = start.filter(|start| start.unsigned_abs() < 1 << 62);
        let start = start.ok_or_else(|| shape_error(term, two_forms()))?;
        Ok(Some((start, range(term, count, &two_forms())?)))
    };
    Some(match name {
        "sequential_int" => match arguments {
            [start, max] => {
                start_to_max(term, start, max).map(|(start, count)| sequence(start, count, false))
            }
            _ => max(1).map(|max| sequence(0, max.unsigned_abs(), false)),
        },
        // A name that forks of basho_bench use for `uniform_int`.
        "random_int" => max(1).map(|max| Integers::Uniform { start: 1, count: max.unsigned_abs() }),
        "partitioned_sequential_int" => start_and_count().and_then(|given| match given {
            Some((start, count)) => Ok(sequence(start, count, true)),
            None => max(1).map(|max| sequence(0, max.unsigned_abs(), true)),
        }),
        "uniform_int" => start_and_count().and_then(|given| match given {
            Some((start, count)) => Ok(Integers::Uniform { start, count }),
            None => max(1).map(|max| Integers::Uniform { start: 1, count: max.unsigned_abs() }),
        }),
        "pareto_int" => max(1).map(|max| Integers::pareto(max, false)),
        "truncated_pareto_int" => max(1).map(|max| Integers::pareto(max, true)),
        "eightytwenty_int" => max(5)
            .map_err(|_| shape_error(term, "{eightytwenty_int, Max} with Max of at least 5"))
            .map(|max| Integers::EightyTwenty { fifth: max.unsigned_abs() / 5 }),
        "zipfian_int" | "scrambled_zipfian_int" => {
            count_and_exponent(term, name, arguments).map(|(count, exponent)| {
                let is_scrambled = name == "scrambled_zipfian_int";
                Integers::Zipfian { zipf: Zipf::new(exponent), count, is_scrambled }
            })
        }
        "latest_int" => count_and_exponent(term, name, arguments).map(|(count, exponent)| {
            Integers::Latest { zipf: Zipf::new(exponent), insertions: Insertions::behind(count) }
        }),
        _ => return None,
    })
}

/// Parses the number of integers and the exponent of their distribution.
fn count_and_exponent(
    term: &Term,
    name: &str,
    arguments: &[Term],
) -> Result<(u64, f64), GeneratorError> {
    let form =
        format!("{{{name}, Count}} or {{{name}, Count, Exponent}}, Exponent above 0 up to 10");
    let (count, exponent) = match arguments {
        [count] => (count, Some(YCSB_EXPONENT)),
        [count, exponent] => (count, exponent.as_number()),
        _ => return Err(shape_error(term, form)),
    };
    let exponent = exponent.filter(|exponent| *exponent > 0.0 && *exponent <= 10.0);
    let exponent = exponent.ok_or_else(|| shape_error(term, form.clone()))?;
    // Ranks are drawn as floating-point numbers, which are exact up to 2^53.
    let count = range(term, count, &form)?;
    match count < 1 << 53 {
        true => Ok((count, exponent)),
        false => Err(shape_error(term, form)),
    }
}

/// Start and number of the integers from `start` up to, but not including, `max`.
fn start_to_max(term: &Term, start: &Term, max: &Term) -> Result<(i64, u64), GeneratorError> {
    let bound = |term: &Term| {
        let integer = i64::try_from(term.as_integer()?).ok()?;
        (integer.unsigned_abs() < 1 << 62).then_some(integer)
    };
    match (bound(start), bound(max)) {
        (Some(start), Some(max)) if start < max => Ok((start, max.abs_diff(start))),
        _ => Err(shape_error(
            term,
            "{sequential_int, Max} or {sequential_int, Start, Max} of integers, Start below Max",
        )),
    }
}

/// Parses a count of at least 1.
pub(super) fn range(term: &Term, count: &Term, expected: &str) -> Result<u64, GeneratorError> {
    let count = count.as_integer().and_then(|count| u64::try_from(count).ok());
    count.filter(|count| (1..1 << 62).contains(count)).ok_or_else(|| shape_error(term, expected))
}
