//! Parsing of value generators.

use std::sync::Arc;

use super::source::{BinSet, SetSizes};
use super::{ValueSpec, poisson};
use crate::keygen::{
    GeneratorError, KeyGenerator, Role, parse_function, parse_script, shape_error,
};
use crate::names::nearest;
use crate::term::Term;

/// Names of generators, for suggestions.
const NAMES: [&str; 16] = [
    "fixed_bin",
    "fixed_char",
    "constant_bin",
    "highly_compressible_bin",
    "exponential_bin",
    "uniform_bin",
    "uniform_int",
    "semi_compressible",
    "poisson_bin",
    "fixed_bin_set",
    "var_bin_set",
    "bin_seed",
    "keygen",
    "function",
    "script",
    "script_int",
];

/// Maximum size in a configuration, in bytes.
const SIZE_BYTES_MAX: u64 = 1 << 40;

/// Maximum size, in bytes, of values that are kept in memory instead of being cut from a source.
const KEPT_SIZE_BYTES_MAX: u64 = 64 << 20;

/// Maximum number of values in a set.
const SET_COUNT_MAX: u64 = 1 << 24;

/// The forms of a variable set, for error messages.
const VAR_BIN_SET_FORMS: &str = "{var_bin_set, MinBytes, MaxBytes, Count}, \
     {var_bin_set, MinBytes, MeanExcessBytes, Count, exponential}, \
     {var_bin_set, MeanBytes, Count, poisson} or {var_bin_set, MeanBytes, Limit, Count, poisson}";

/// Parses a generator from its configuration term.
pub(super) fn parse_spec(term: &Term) -> Result<ValueSpec, GeneratorError> {
    let (name, arguments) = match term.as_tuple() {
        Some([Term::Atom(name), arguments @ ..]) => (name.as_str(), arguments),
        _ => ("", &[][..]),
    };
    let (spec, expected) = match name {
        "fixed_bin" if arguments.len() == 2 => {
            (constant(arguments), "{fixed_bin, Size, Byte}, Size up to 64 MiB, Byte up to 255")
        }
        "fixed_bin" => (fixed(arguments), "{fixed_bin, Size}"),
        "constant_bin" => (
            constant_bytes(arguments),
            "{constant_bin, <<\"bytes\">>}, or {constant_bin, Size} of zeros, Size up to 64 MiB",
        ),
        "highly_compressible_bin" => {
            (highly_compressible(arguments), "{highly_compressible_bin, Size}")
        }
        "fixed_char" => (printable(arguments), "{fixed_char, Size}, Size up to 64 MiB"),
        "exponential_bin" => {
            (exponential(arguments), "{exponential_bin, MinBytes, MeanExcessBytes}")
        }
        "uniform_bin" => (
            uniform_size(arguments),
            "{uniform_bin, MinBytes, MaxBytes} with MinBytes below MaxBytes",
        ),
        "uniform_int" => (
            uniform_integer(arguments),
            "{uniform_int, Max} with Max of at least 1, or {uniform_int, Min, Max}",
        ),
        "semi_compressible" => (
            semi_compressible(arguments),
            "{semi_compressible, MinBytes, MeanExcessBytes, Factor, Share}, Share up to 1",
        ),
        "poisson_bin" => (
            poisson_size(arguments),
            "{poisson_bin, MeanBytes} or {poisson_bin, MeanBytes, Limit}, MeanBytes at least 1",
        ),
        "fixed_bin_set" => {
            (fixed_set(arguments), "{fixed_bin_set, Size, Count} of at most 16 GiB in all")
        }
        "var_bin_set" => (variable_set(arguments), VAR_BIN_SET_FORMS),
        "bin_seed" => (seed(arguments), "{bin_seed, Size}, Size up to 64 MiB"),
        "keygen" => return keys(term, arguments),
        "function" => return Ok(ValueSpec::Keys(Box::new(parse_function(term, Role::Values)?))),
        "script" | "script_int" => return Ok(ValueSpec::Keys(Box::new(parse_script(term, name)?))),
        _ => {
            let nearest = nearest(name, &NAMES);
            return Err(GeneratorError::Unknown { term: Box::new(term.clone()), nearest });
        }
    };
    spec.ok_or_else(|| shape_error(term, expected))
}

fn size_of(term: &Term) -> Option<u64> {
    u64::try_from(term.as_integer()?).ok().filter(|size| *size <= SIZE_BYTES_MAX)
}

fn number_of(term: &Term) -> Option<f64> {
    term.as_number().filter(|number| (0.0..=1e12).contains(number))
}

fn integer_of(term: &Term) -> Option<i64> {
    i64::try_from(term.as_integer()?).ok().filter(|integer| integer.unsigned_abs() < 1 << 62)
}

fn fixed(arguments: &[Term]) -> Option<ValueSpec> {
    let [size] = arguments else { return None };
    Some(ValueSpec::Fixed { size: size_of(size)? })
}

fn kept_size_of(term: &Term) -> Option<u64> {
    size_of(term).filter(|size| *size <= KEPT_SIZE_BYTES_MAX)
}

fn printable(arguments: &[Term]) -> Option<ValueSpec> {
    let [size] = arguments else { return None };
    Some(ValueSpec::Printable { size: kept_size_of(size)? })
}

fn exponential(arguments: &[Term]) -> Option<ValueSpec> {
    let [min, mean] = arguments else { return None };
    Some(ValueSpec::Exponential { min: size_of(min)?, mean: number_of(mean)? })
}

fn uniform_size(arguments: &[Term]) -> Option<ValueSpec> {
    let [min, max] = arguments else { return None };
    let (min, max) = (size_of(min)?, size_of(max)?);
    (min < max).then_some(ValueSpec::UniformSize { min, max })
}

fn uniform_integer(arguments: &[Term]) -> Option<ValueSpec> {
    let (min, max) = match arguments {
        [max] => (0, integer_of(max)?),
        [min, max] => (integer_of(min)?, integer_of(max)?),
        _ => return None,
    };
    (min < max).then_some(ValueSpec::UniformInteger { min, max })
}

fn semi_compressible(arguments: &[Term]) -> Option<ValueSpec> {
    let (min, mean, large_factor, large_share) = match arguments {
        [min, mean] => (min, mean, 1.0, 0.0),
        [min, mean, factor, share] => (min, mean, number_of(factor)?, number_of(share)?),
        _ => return None,
    };
    let (min, mean) = (size_of(min)?, number_of(mean)?);
    let is_share = large_share <= 1.0;
    is_share.then_some(ValueSpec::SemiCompressible { min, mean, large_factor, large_share })
}

/// `Size` copies of one byte.
fn constant(arguments: &[Term]) -> Option<ValueSpec> {
    let size = usize::try_from(kept_size_of(arguments.first()?)?).ok()?;
    let byte = u8::try_from(arguments.get(1)?.as_integer()?).ok()?;
    Some(ValueSpec::Constant(vec![byte; size].into()))
}

/// Literal bytes, or `Size` zeros.
fn constant_bytes(arguments: &[Term]) -> Option<ValueSpec> {
    let [argument] = arguments else { return None };
    let bytes = match argument {
        Term::Binary(bytes) => bytes.clone(),
        Term::Integer(_) => vec![0; usize::try_from(kept_size_of(argument)?).ok()?],
        other => other.as_text()?.into_bytes(),
    };
    Some(ValueSpec::Constant(bytes.into()))
}

fn highly_compressible(arguments: &[Term]) -> Option<ValueSpec> {
    let [size] = arguments else { return None };
    Some(ValueSpec::HighlyCompressible { size: size_of(size)? })
}

/// A Poisson distribution. The mean is at least 1; a mean above the limit is approximated.
fn poisson_of(mean: &Term, limit: Option<&Term>) -> Option<poisson::Poisson> {
    let mean = number_of(mean).filter(|mean| *mean >= 1.0)?;
    let limit = limit.map_or(Some(poisson::LIMIT), number_of)?;
    Some(poisson::Poisson { mean, limit })
}

fn poisson_size(arguments: &[Term]) -> Option<ValueSpec> {
    match arguments {
        [mean] => Some(ValueSpec::Poisson(poisson_of(mean, None)?)),
        [mean, limit] => Some(ValueSpec::Poisson(poisson_of(mean, Some(limit))?)),
        _ => None,
    }
}

fn fixed_set(arguments: &[Term]) -> Option<ValueSpec> {
    let [size, count] = arguments else { return None };
    set(SetSizes::Fixed(size_of(size)?), count)
}

fn variable_set(arguments: &[Term]) -> Option<ValueSpec> {
    let is = |term: &Term, name: &str| term.as_atom() == Some(name);
    match arguments {
        [min, max, count] if max.as_integer().is_some() && count.as_integer().is_some() => {
            let (min, max) = (size_of(min)?, size_of(max)?);
            if min > max {
                return None;
            }
            set(SetSizes::Uniform { min, max }, count)
        }
        [mean, count, kind] if is(kind, "poisson") => {
            set(SetSizes::Poisson(poisson_of(mean, None)?), count)
        }
        [mean, limit, count, kind] if is(kind, "poisson") => {
            set(SetSizes::Poisson(poisson_of(mean, Some(limit))?), count)
        }
        [min, mean, count, kind] if is(kind, "exponential") => {
            let (min, mean) = (size_of(min)?, number_of(mean)?);
            set(SetSizes::Exponential { min, mean }, count)
        }
        _ => None,
    }
}

fn set(sizes: SetSizes, count: &Term) -> Option<ValueSpec> {
    let count = u64::try_from(count.as_integer()?).ok();
    let count = count.filter(|count| (1..=SET_COUNT_MAX).contains(count))?;
    let set = BinSet { sizes, count };
    set.is_affordable().then(|| ValueSpec::Set(Arc::new(set)))
}

fn seed(arguments: &[Term]) -> Option<ValueSpec> {
    let [size] = arguments else { return None };
    Some(ValueSpec::Seed { size: kept_size_of(size)? })
}

fn keys(term: &Term, arguments: &[Term]) -> Result<ValueSpec, GeneratorError> {
    let [inner] = arguments else {
        return Err(shape_error(term, "{keygen, KeyGenerator}"));
    };
    Ok(ValueSpec::Keys(Box::new(KeyGenerator::parse(inner)?)))
}
