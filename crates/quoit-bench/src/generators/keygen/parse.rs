//! Parsing of key generators.

use std::path::PathBuf;

use super::digest::DigestKind;
use super::format::Format;
use super::lines::LineReader;
use super::numbers::{parse_integers, range};
use super::{
    GeneratorError, KeyGenerator, KeyKind, Role, parse_function, parse_script, shape_error,
};
use crate::names::nearest;
use crate::term::Term;
use crate::valgen::ValueGenerator;

/// Maximum size of the binary that an integer is converted to, in bits.
const INTEGER_BITS_MAX: usize = 8192;

/// Names of generators, for suggestions.
const NAMES: [&str; 40] = [
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
    "script",
    "script_int",
    "file_line_bin",
    "crypto_hash",
    "named_sequential_int",
    "named_partitioned_sequential_int",
    "modulo_format",
    "random_int",
    "term_to_bin",
    "zipfian_int",
    "scrambled_zipfian_int",
    "latest_int",
];

impl KeyGenerator {
    /// Parses a generator from its configuration term.
    ///
    /// # Errors
    ///
    /// When the term is not a generator; the error names the innermost faulty term and the right form.
    pub fn parse(term: &Term) -> Result<Self, GeneratorError> {
        match term {
            Term::Binary(bytes) => return Ok(Self::Literal(KeyKind::Binary, bytes.clone())),
            Term::String(text) => {
                let bytes = latin1(text).ok_or_else(|| {
                    shape_error(term, "text of characters up to 255; for others write a <<binary>>")
                })?;
                return Ok(Self::Literal(KeyKind::String, bytes));
            }
            Term::Atom(name) => return parse_named(term, name, &[]),
            _ => {}
        }
        // In TOML an array of two arrays is read as a list.
        let (Term::Tuple(elements) | Term::List(elements)) = term else {
            return Err(unknown(term, ""));
        };
        match elements.as_slice() {
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
        ("str_to_bin", [inner]) => retyped(term, KeyKind::String, KeyKind::Binary, inner),
        ("bin_to_str", [inner]) => retyped(term, KeyKind::Binary, KeyKind::String, inner),
        ("to_binstr", [format, inner]) => formatted(term, KeyKind::Binary, format, inner),
        ("to_str", [format, inner]) => formatted(term, KeyKind::String, format, inner),
        ("base64", [inner]) => {
            let inner = bytes_in(term, inner)?;
            Ok(KeyGenerator::Base64 { inner: Box::new(inner), scratch: String::new() })
        }
        ("term_to_bin", [inner]) => {
            Ok(KeyGenerator::ExternalTerm(Box::new(KeyGenerator::parse(inner)?)))
        }
        ("concat_binary", [first, second]) => joined(term, KeyKind::Binary, first, second),
        ("concat_string", [first, second]) => joined(term, KeyKind::String, first, second),
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
        ("function", _) => parse_function(term, Role::Keys),
        ("script" | "script_int", [_, ..]) => parse_script(term, name),
        ("file_line_bin", [path]) => lines(term, path, true),
        ("file_line_bin", [path, then]) => lines(term, path, then.as_atom() == Some("repeat")),
        ("modulo_format", [inner, format, moduli]) => split(term, inner, format, moduli),
        _ => match form_of(name) {
            Some(form) => Err(shape_error(term, form)),
            None => Err(unknown(term, name)),
        },
    }
}

/// The form of the generator with this name, for error messages.
fn form_of(name: &str) -> Option<String> {
    Some(match name {
        "int_to_bin_bigendian"
        | "int_to_bin_littleendian"
        | "int_to_bin"
        | "int_to_str"
        | "str_to_bin"
        | "bin_to_str"
        | "term_to_bin"
        | "base64" => format!("{{{name}, Generator}}"),
        "to_binstr" | "to_str" => format!("{{{name}, \"Format\", Generator}}"),
        "concat_binary" | "concat_string" => format!("{{{name}, Generator, Generator}}"),
        "valgen" => "{valgen, ValueGenerator}".to_owned(),
        "uuid_v4" => "uuid_v4".to_owned(),
        "uuid_v4_s" => "{uuid_v4_s, \"-\"}".to_owned(),
        "random_dynamo_style_string" | "dynamo_style_string" => format!("{{{name}, N}}"),
        "file_line_bin" => {
            "{file_line_bin, \"Path\"} or {file_line_bin, \"Path\", once}".to_owned()
        }
        "modulo_format" => MODULO_FORM.to_owned(),
        "crypto_hash" => {
            format!("{{{{crypto_hash, T}}, Generator}}, T one of {}", DigestKind::NAMES)
        }
        _ => return None,
    })
}

/// Parses `{{int_to_bin_bigendian, Bits}, G}`, `{{int_to_bin_littleendian, Bits}, G}` and `{{crypto_hash,
/// T}, G}`.
fn parse_sized(
    term: &Term,
    name: &str,
    argument: &Term,
    inner: &Term,
) -> Result<KeyGenerator, GeneratorError> {
    let is_little_endian = match name {
        "int_to_bin_bigendian" => false,
        "int_to_bin_littleendian" => true,
        "crypto_hash" => return digest(term, argument, inner),
        _ => return Err(unknown(term, name)),
    };
    match argument.as_integer().and_then(|bits| usize::try_from(bits).ok()) {
        Some(bits) if (8..=INTEGER_BITS_MAX).contains(&bits) && bits % 8 == 0 => {
            integer_to_binary(term, bits, is_little_endian, inner)
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
        KeyKind::Integer => Ok(Box::new(inner)),
        _ => Err(inner_error(term, "integers")),
    }
}

fn bytes_in(term: &Term, inner: &Term) -> Result<KeyGenerator, GeneratorError> {
    let inner = KeyGenerator::parse(inner)?;
    match inner.kind() {
        KeyKind::Integer => Err(inner_error(term, "strings or binaries")),
        _ => Ok(inner),
    }
}

fn integer_to_binary(
    term: &Term,
    size_bits: usize,
    is_little_endian: bool,
    inner: &Term,
) -> Result<KeyGenerator, GeneratorError> {
    let inner = integers_in(term, inner)?;
    Ok(KeyGenerator::IntegerToBinary { size_bytes: size_bits / 8, is_little_endian, inner })
}

fn retyped(
    term: &Term,
    from: KeyKind,
    to: KeyKind,
    inner: &Term,
) -> Result<KeyGenerator, GeneratorError> {
    let inner = KeyGenerator::parse(inner)?;
    if inner.kind() != from {
        let wanted = if from == KeyKind::String { "strings" } else { "binaries" };
        return Err(inner_error(term, wanted));
    }
    Ok(KeyGenerator::Retyped(to, Box::new(inner)))
}

fn formatted(
    term: &Term,
    kind: KeyKind,
    format: &Term,
    inner: &Term,
) -> Result<KeyGenerator, GeneratorError> {
    let inner = Box::new(KeyGenerator::parse(inner)?);
    let text = format.as_text().ok_or_else(|| {
        shape_error(term, "a tuple with a format string in quotes and a generator")
    })?;
    let format = Format::parse(&text, &[inner.kind()])
        .map_err(|error| shape_error(term, format!("a valid format: {error}")))?;
    Ok(KeyGenerator::Formatted { kind, format, inner, scratch: Vec::new() })
}

/// The form of `modulo_format`, for error messages.
const MODULO_FORM: &str = "{modulo_format, Generator, \"Format\", [Modulus, ...]} with a directive \
                           for each modulus of at least 1";

fn split(
    term: &Term,
    inner: &Term,
    format: &Term,
    moduli: &Term,
) -> Result<KeyGenerator, GeneratorError> {
    let inner = integers_in(term, inner)?;
    let modulus_of = |term: &Term| i64::try_from(term.as_integer()?).ok().filter(|m| *m >= 1);
    let moduli: Option<Vec<i64>> =
        moduli.as_list().and_then(|moduli| moduli.iter().map(modulus_of).collect());
    let (Some(text), Some(moduli)) = (format.as_text(), moduli) else {
        return Err(shape_error(term, MODULO_FORM));
    };
    let format = Format::parse(&text, &vec![KeyKind::Integer; moduli.len()])
        .map_err(|error| shape_error(term, format!("a valid format: {error}")))?;
    Ok(KeyGenerator::Split { format, moduli, inner, pieces: Vec::new() })
}

fn digest(term: &Term, name: &Term, inner: &Term) -> Result<KeyGenerator, GeneratorError> {
    let kind = name
        .as_atom()
        .and_then(DigestKind::named)
        .ok_or_else(|| shape_error(term, form_of("crypto_hash").unwrap_or_default()))?;
    Ok(KeyGenerator::Digest(kind, Box::new(bytes_in(term, inner)?)))
}

fn lines(term: &Term, path: &Term, is_repeated: bool) -> Result<KeyGenerator, GeneratorError> {
    let path = path
        .as_text()
        .filter(|path| !path.is_empty())
        .ok_or_else(|| shape_error(term, form_of("file_line_bin").unwrap_or_default()))?;
    Ok(KeyGenerator::Lines(LineReader::new(PathBuf::from(path), is_repeated)))
}

fn joined(
    term: &Term,
    kind: KeyKind,
    first: &Term,
    second: &Term,
) -> Result<KeyGenerator, GeneratorError> {
    let parts = Box::new((bytes_in(term, first)?, bytes_in(term, second)?));
    Ok(KeyGenerator::Joined { kind, parts, scratch: Vec::new() })
}
