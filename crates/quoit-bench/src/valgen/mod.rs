//! Value generators: from a configuration term to values.
//!
//! Random values are slices of one block of random bytes that all workers of a run share, so that
//! a value costs two draws and no copy.

mod describe;
mod source;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
pub use source::{Source, SourceError, SourceKind, SourceSettings, Sources};

use crate::keygen::{GeneratorError, Kind, shape_error};
use crate::names::nearest;
use crate::random::Random;
use crate::term::Term;

/// A value of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// Bytes to store.
    Bytes(&'a [u8]),
    /// An integer, for counters.
    Integer(i64),
}

/// How values are made, as the configuration says.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueSpec {
    /// A fixed number of random bytes.
    Fixed {
        /// Size in bytes.
        size: u64,
    },
    /// The same bytes each time.
    Constant(Arc<[u8]>),
    /// A fixed number of printable characters, drawn afresh for each value.
    Printable {
        /// Size in bytes.
        size: u64,
    },
    /// A least size and an exponentially distributed excess, of random bytes.
    Exponential {
        /// Least size in bytes.
        min: u64,
        /// Mean of the excess, so that the mean size is `min + mean`.
        mean: f64,
    },
    /// Random bytes of uniform size in `min + 1..=max`.
    UniformSize {
        /// One less than the least size in bytes.
        min: u64,
        /// Largest size in bytes.
        max: u64,
    },
    /// A uniform integer of `min + 1..=max`.
    UniformInteger {
        /// One less than the least integer.
        min: i64,
        /// Largest integer.
        max: i64,
    },
    /// As `Exponential`, half random bytes and half text, with some values larger by a factor.
    SemiCompressible {
        /// Least size in bytes.
        min: u64,
        /// Mean of the excess.
        mean: f64,
        /// Factor of the larger values, on both of the above.
        large_factor: f64,
        /// Share of the larger values.
        large_share: f64,
    },
}

/// A value generator of one worker.
#[derive(Debug, Clone)]
pub struct ValueGenerator {
    spec: ValueSpec,
    source: Option<Source>,
    scratch: Vec<u8>,
}

/// Names of generators, for suggestions.
const NAMES: [&str; 7] = [
    "fixed_bin",
    "fixed_char",
    "exponential_bin",
    "uniform_bin",
    "uniform_int",
    "semi_compressible",
    "function",
];

/// Largest size that a configuration may name, in bytes.
const SIZE_BYTES_MAX: u64 = 1 << 40;

/// Largest size of values that are not slices of a source, in bytes: they are kept in memory.
const KEPT_SIZE_BYTES_MAX: u64 = 64 << 20;

impl ValueGenerator {
    /// Reads a generator from its configuration term.
    ///
    /// # Errors
    ///
    /// Names the term and what it should be.
    pub fn parse(term: &Term) -> Result<Self, GeneratorError> {
        let spec = parse_spec(term)?;
        Ok(Self { spec, source: None, scratch: Vec::new() })
    }

    /// How values are made.
    pub fn spec(&self) -> &ValueSpec {
        &self.spec
    }

    /// What the generator gives.
    pub fn kind(&self) -> Kind {
        match self.spec {
            ValueSpec::UniformInteger { .. } => Kind::Integer,
            _ => Kind::Binary,
        }
    }

    /// The source of bytes that the generator needs, if any.
    pub fn source_kind(&self) -> Option<SourceKind> {
        match self.spec {
            ValueSpec::Fixed { .. }
            | ValueSpec::Exponential { .. }
            | ValueSpec::UniformSize { .. } => Some(SourceKind::Random),
            ValueSpec::SemiCompressible { .. } => Some(SourceKind::SemiCompressible),
            ValueSpec::Constant(_)
            | ValueSpec::Printable { .. }
            | ValueSpec::UniformInteger { .. } => None,
        }
    }

    /// Takes the source of bytes from those of the run. Without it values are empty.
    pub fn start(&mut self, sources: &Sources) {
        self.source = self.source_kind().and_then(|kind| sources.get(kind));
    }

    /// The next value. Allocates only while the buffer of printable values still grows.
    #[inline]
    pub fn generate(&mut self, random: &mut Random) -> Value<'_> {
        let size = match self.spec {
            ValueSpec::Constant(ref bytes) => return Value::Bytes(bytes),
            ValueSpec::Printable { size } => {
                self.scratch.clear();
                self.scratch.extend((0..size).map(|_| b' ' + (random.uniform(95) - 1) as u8));
                return Value::Bytes(&self.scratch);
            }
            ValueSpec::UniformInteger { min, max } => {
                let drawn = random.uniform(max.abs_diff(min));
                return Value::Integer(min.wrapping_add_unsigned(drawn));
            }
            ValueSpec::Fixed { size } => size,
            ValueSpec::Exponential { min, mean } => {
                min.saturating_add(random.exponential(mean) as u64)
            }
            ValueSpec::UniformSize { min, max } => min + random.uniform(max - min),
            ValueSpec::SemiCompressible { min, mean, large_factor, large_share } => {
                let is_large = random.fraction() < large_share;
                let factor = if is_large { large_factor } else { 1.0 };
                let least = (min as f64 * factor) as u64;
                least.saturating_add(random.exponential(mean * factor) as u64)
            }
        };
        let source = self.source.as_ref().map_or(&[][..], |source| source.bytes());
        Value::Bytes(slice_of(source, size, random))
    }

    /// The next value, to be kept: without a copy when it is a slice of the source. An integer
    /// gives no bytes.
    #[inline]
    pub fn generate_shared(&mut self, random: &mut Random) -> Bytes {
        let source = match &self.source {
            Some(source) => source.bytes().clone(),
            None => Bytes::new(),
        };
        match self.generate(random) {
            Value::Bytes(bytes) if source.is_empty() => Bytes::copy_from_slice(bytes),
            Value::Bytes(bytes) => source.slice_ref(bytes),
            Value::Integer(_) => Bytes::new(),
        }
    }
}

/// `size` bytes from a uniform place of `source`; the whole of it when it is not larger.
#[inline]
fn slice_of<'a>(source: &'a [u8], size: u64, random: &mut Random) -> &'a [u8] {
    match usize::try_from(size) {
        Ok(size) if size < source.len() => {
            let offset = random.uniform((source.len() - size) as u64) as usize;
            &source[offset..offset + size]
        }
        _ => source,
    }
}

fn parse_spec(term: &Term) -> Result<ValueSpec, GeneratorError> {
    let (name, arguments) = match term.as_tuple() {
        Some([Term::Atom(name), arguments @ ..]) => (name.as_str(), arguments),
        _ => ("", &[][..]),
    };
    let (spec, expected) = match name {
        "fixed_bin" if arguments.len() == 2 => {
            (constant(arguments), "{fixed_bin, Size, Byte}, Size up to 64 MiB, Byte up to 255")
        }
        "fixed_bin" => (fixed(arguments), "{fixed_bin, Size}"),
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
        "function" => {
            return Err(GeneratorError::NotOffered {
                term: Box::new(term.clone()),
                remedy: "Erlang code is not run; use fixed_bin or exponential_bin",
            });
        }
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
    let integer = i64::try_from(term.as_integer()?).ok()?;
    Some(integer).filter(|integer| integer.unsigned_abs() < 1 << 62)
}

fn fixed(arguments: &[Term]) -> Option<ValueSpec> {
    let [size] = arguments else { return None };
    Some(ValueSpec::Fixed { size: size_of(size)? })
}

fn printable(arguments: &[Term]) -> Option<ValueSpec> {
    let [size] = arguments else { return None };
    let size = size_of(size).filter(|size| *size <= KEPT_SIZE_BYTES_MAX)?;
    Some(ValueSpec::Printable { size })
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
    let size = size_of(arguments.first()?).filter(|size| *size <= KEPT_SIZE_BYTES_MAX)?;
    let size = usize::try_from(size).ok()?;
    let byte = u8::try_from(arguments.get(1)?.as_integer()?).ok()?;
    Some(ValueSpec::Constant(vec![byte; size].into()))
}
