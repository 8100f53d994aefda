//! From a configuration term to a key generator.

use super::format::Format;
use super::integer::Integers;
use super::{GeneratorError, KeyGenerator, Kind, shape_error};
use crate::names::nearest;
use crate::term::Term;
use crate::valgen::ValueGenerator;

/// Longest binary that an integer is turned into, in bits.
const INTEGER_BITS_MAX: i128 = 8192;

/// Names of generators, for suggestions.
const NAMES: [&str; 33] = [
    "sequential_int",
    "partitioned_sequential_int",
    "uniform_int",
    "pareto_int",
    "truncated_pareto_int",
    "eightytwenty_int",
    "int_to_bin_bigendian",
    "int_to_bin_littleendian",
    "int_to_bin",
    "int_to_str",
    "str_to_bin",
    "bin_to_str",
    "to_binstr",
    "to_str",
    "base64",
    "concat_binary",
    "concat_string",
    "uuid_v4",
    "uuid_v4_s",
    "valgen",
    "sequential_int_bin",
    "uniform_int_bin",
    "pareto_int_bin",
    "sequential_int_str",
    "uniform_int_str",
    "random_dynamo_style_string",
    "dynamo_style_string",
    "function",
    "file_line_bin",
    "crypto_hash",
    "named_sequential_int",
    "named_partitioned_sequential_int",
    "modulo_format",
];

impl KeyGenerator {
    /// Reads a generator from its configuration term.
    ///
    /// # Errors
    ///
    /// Names the term and what it should be, for the innermost generator that is wrong.
    pub fn parse(term: &Term) -> Result<Self, GeneratorError> {
        match term {
            Term::Binary(bytes) => return Ok(Self::Literal(Kind::Binary, bytes.clone())),
            Term::String(text) => {
                let bytes = latin1(text).ok_or_else(|| {
                    shape_error(term, "text of characters up to 255; for others write a <<binary>>")
                })?;
                return Ok(Self::Literal(Kind::String, bytes));
            }
            Term::Atom(name) => return parse_named(term, name, &[]),
            _ => {}
        }
        let elements = term.as_tuple().unwrap_or_default();
        match elements {
            [Term::Atom(name), arguments @ ..] => parse_named(term, name, arguments),
            [Term::Tuple(head), inner] => match head.as_slice() {
                [Term::Atom(name), argument] => parse_sized(term, name, argument, inner),
                _ => Err(unknown(term, "")),
            },
            _ => Err(unknown(term, "")),
        }
    }
}

fn unknown(term: &Term, name: &str) -> GeneratorError {
    GeneratorError::Unknown { term: Box::new(term.clone()), nearest: nearest(name, &NAMES) }
}

fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect()
}

fn parse_named(
    term: &Term,
    name: &str,
    arguments: &[Term],
) -> Result<KeyGenerator, GeneratorError> {
    if let Some(parsed) = parse_integers(term, name, arguments) {
        return parsed;
    }
    match (name, arguments) {
        ("int_to_bin_bigendian", [inner]) => integer_to_binary(term, 32, false, inner),
        ("int_to_bin_littleendian" | "int_to_bin", [inner]) => {
            integer_to_binary(term, 32, true, inner)
        }
        ("int_to_str", [inner]) => Ok(KeyGenerator::IntegerToString(integers_in(term, inner)?)),
        ("str_to_bin", [inner]) => retyped(term, Kind::String, Kind::Binary, inner),
        ("bin_to_str", [inner]) => retyped(term, Kind::Binary, Kind::String, inner),
        ("to_binstr", [format, inner]) => formatted(term, Kind::Binary, format, inner),
        ("to_str", [format, inner]) => formatted(term, Kind::String, format, inner),
        ("base64", [inner]) => {
            let inner = bytes_in(term, inner)?;
            Ok(KeyGenerator::Base64 { inner: Box::new(inner), scratch: String::new() })
        }
        ("concat_binary", [first, second]) => joined(term, Kind::Binary, first, second),
        ("concat_string", [first, second]) => joined(term, Kind::String, first, second),
        ("uuid_v4", []) => Ok(KeyGenerator::Uuid(None)),
        ("uuid_v4_s", []) => Ok(KeyGenerator::Uuid(Some(b"-".to_vec()))),
        ("uuid_v4_s", [separator]) => {
            let separator = separator.as_text().and_then(|text| latin1(&text));
            let separator = separator.ok_or_else(|| shape_error(term, "{uuid_v4_s, \"-\"}"))?;
            Ok(KeyGenerator::Uuid(Some(separator)))
        }
        ("valgen", [values]) => Ok(KeyGenerator::Values(Box::new(ValueGenerator::parse(values)?))),
        ("random_dynamo_style_string", [_]) => Ok(KeyGenerator::RandomDynamo),
        ("dynamo_style_string", [count]) => {
            let count = range(term, count, "{dynamo_style_string, N} with N of at least 1")?;
            Ok(KeyGenerator::Dynamo { count })
        }
        ("function", _) => Err(not_offered(
            term,
            "Erlang code is not run; use a generator such as uniform_int or concat_binary",
        )),
        ("file_line_bin", _) => {
            Err(not_offered(term, "keys are not read from files; use a generator of keys"))
        }
        ("named_sequential_int" | "named_partitioned_sequential_int", _) => Err(not_offered(
            term,
            "sequences have no names; use sequential_int or partitioned_sequential_int",
        )),
        ("modulo_format", _) => {
            Err(not_offered(term, "use to_binstr, or concat_binary of several"))
        }
        _ => match form_of(name) {
            Some(form) => Err(shape_error(term, form)),
            None => Err(unknown(term, name)),
        },
    }
}

/// How a generator of this name is written.
fn form_of(name: &str) -> Option<String> {
    Some(match name {
        "int_to_bin_bigendian"
        | "int_to_bin_littleendian"
        | "int_to_bin"
        | "int_to_str"
        | "str_to_bin"
        | "bin_to_str"
        | "base64" => format!("{{{name}, Generator}}"),
        "to_binstr" | "to_str" => format!("{{{name}, \"Format\", Generator}}"),
        "concat_binary" | "concat_string" => format!("{{{name}, Generator, Generator}}"),
        "valgen" => "{valgen, ValueGenerator}".to_owned(),
        "uuid_v4" => "uuid_v4".to_owned(),
        "uuid_v4_s" => "{uuid_v4_s, \"-\"}".to_owned(),
        "random_dynamo_style_string" | "dynamo_style_string" => format!("{{{name}, N}}"),
        _ => return None,
    })
}

/// The generators of integers and their old compound names, or nothing for other names.
fn parse_integers(
    term: &Term,
    name: &str,
    arguments: &[Term],
) -> Option<Result<KeyGenerator, GeneratorError>> {
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
                is_little: cfg!(target_endian = "little"),
                inner: Box::new(inner),
            },
            "str" => KeyGenerator::IntegerToString(Box::new(inner)),
            _ => inner,
        }
    }))
}

fn plain_integers(
    term: &Term,
    name: &str,
    arguments: &[Term],
) -> Option<Result<Integers, GeneratorError>> {
    let one_form = || format!("{{{name}, Max}} with Max of at least 1");
    let two_forms = || format!("{{{name}, Max}} or {{{name}, Start, Count}} of integers");
    let sequence = |start: i64, count: u64, is_partitioned| Integers::Sequence {
        next: start,
        end: start.saturating_add_unsigned(count),
        is_partitioned,
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
        "sequential_int" => max(1).map(|max| sequence(0, max.unsigned_abs(), false)),
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
        _ => return None,
    })
}

/// A count of at least 1.
fn range(term: &Term, count: &Term, expected: &str) -> Result<u64, GeneratorError> {
    let count = count.as_integer().and_then(|count| u64::try_from(count).ok());
    count.filter(|count| (1..1 << 62).contains(count)).ok_or_else(|| shape_error(term, expected))
}

fn not_offered(term: &Term, remedy: &'static str) -> GeneratorError {
    GeneratorError::NotOffered { term: Box::new(term.clone()), remedy }
}

/// `{{int_to_bin_bigendian, Bits}, G}`, `{{int_to_bin_littleendian, Bits}, G}`.
fn parse_sized(
    term: &Term,
    name: &str,
    argument: &Term,
    inner: &Term,
) -> Result<KeyGenerator, GeneratorError> {
    let is_little = match name {
        "int_to_bin_bigendian" => false,
        "int_to_bin_littleendian" => true,
        "crypto_hash" => return Err(not_offered(term, "use dynamo_style_string or base64")),
        _ => return Err(unknown(term, name)),
    };
    match argument.as_integer() {
        Some(bits) if (8..=INTEGER_BITS_MAX).contains(&bits) && bits % 8 == 0 => {
            integer_to_binary(term, bits as usize, is_little, inner)
        }
        _ => {
            let expected = format!("{{{{{name}, Bits}}, Generator}}, Bits a multiple of 8 to 8192");
            Err(shape_error(term, expected))
        }
    }
}

fn inner_error(term: &Term, wanted: &'static str) -> GeneratorError {
    GeneratorError::Inner { term: Box::new(term.clone()), wanted }
}

fn integers_in(term: &Term, inner: &Term) -> Result<Box<KeyGenerator>, GeneratorError> {
    let inner = KeyGenerator::parse(inner)?;
    match inner.kind() {
        Kind::Integer => Ok(Box::new(inner)),
        _ => Err(inner_error(term, "integers")),
    }
}

fn bytes_in(term: &Term, inner: &Term) -> Result<KeyGenerator, GeneratorError> {
    let inner = KeyGenerator::parse(inner)?;
    match inner.kind() {
        Kind::Integer => Err(inner_error(term, "strings or binaries")),
        _ => Ok(inner),
    }
}

fn integer_to_binary(
    term: &Term,
    size_bits: usize,
    is_little: bool,
    inner: &Term,
) -> Result<KeyGenerator, GeneratorError> {
    let inner = integers_in(term, inner)?;
    Ok(KeyGenerator::IntegerToBinary { size_bytes: size_bits / 8, is_little, inner })
}

fn retyped(
    term: &Term,
    from: Kind,
    to: Kind,
    inner: &Term,
) -> Result<KeyGenerator, GeneratorError> {
    let inner = KeyGenerator::parse(inner)?;
    if inner.kind() != from {
        let wanted = if from == Kind::String { "strings" } else { "binaries" };
        return Err(inner_error(term, wanted));
    }
    Ok(KeyGenerator::Retyped(to, Box::new(inner)))
}

fn formatted(
    term: &Term,
    kind: Kind,
    format: &Term,
    inner: &Term,
) -> Result<KeyGenerator, GeneratorError> {
    let inner = Box::new(KeyGenerator::parse(inner)?);
    let text = format.as_text().ok_or_else(|| {
        shape_error(term, "a tuple with a format string in quotes and a generator")
    })?;
    let format = Format::parse(&text, inner.kind())
        .map_err(|error| shape_error(term, format!("a valid format: {error}")))?;
    Ok(KeyGenerator::Formatted { kind, format, inner, scratch: Vec::new() })
}

fn joined(
    term: &Term,
    kind: Kind,
    first: &Term,
    second: &Term,
) -> Result<KeyGenerator, GeneratorError> {
    let parts = Box::new((bytes_in(term, first)?, bytes_in(term, second)?));
    Ok(KeyGenerator::Joined { kind, parts, scratch: Vec::new() })
}
