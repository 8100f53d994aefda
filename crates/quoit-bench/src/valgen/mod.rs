//! Value generators: from a configuration term to values.
//!
//! Random values are slices of one block of random bytes that all workers of a run share, so that
//! a value costs two draws and no copy.

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
    let name = match term.as_tuple() {
        Some([Term::Atom(name), ..]) => name.as_str(),
        _ => "",
    };
    let arguments = term.as_tuple().unwrap_or_default().get(1..).unwrap_or_default();
    let size = |index: usize| -> Option<u64> {
        let size = arguments.get(index)?.as_integer()?;
        u64::try_from(size).ok().filter(|size| *size <= SIZE_BYTES_MAX)
    };
    let number = |index: usize| -> Option<f64> {
        arguments.get(index)?.as_number().filter(|number| (0.0..=1e12).contains(number))
    };
    let integer = |index: usize| -> Option<i64> {
        let integer = i64::try_from(arguments.get(index)?.as_integer()?).ok()?;
        Some(integer).filter(|integer| integer.unsigned_abs() < 1 << 62)
    };
    let (spec, expected) = match (name, arguments.len()) {
        ("fixed_bin", 2) => (constant(arguments), "{fixed_bin, SizeBytes, Byte}, Byte up to 255"),
        ("fixed_bin", _) => (size(0).map(|size| ValueSpec::Fixed { size }), "{fixed_bin, Size}"),
        ("fixed_char", _) => {
            let size = size(0).filter(|size| *size <= 1 << 30);
            (size.map(|size| ValueSpec::Printable { size }), "{fixed_char, Size}")
        }
        ("exponential_bin", _) => (
            size(0).zip(number(1)).map(|(min, mean)| ValueSpec::Exponential { min, mean }),
            "{exponential_bin, MinBytes, MeanExcessBytes}",
        ),
        ("uniform_bin", _) => (
            size(0)
                .zip(size(1))
                .filter(|(min, max)| min < max)
                .map(|(min, max)| ValueSpec::UniformSize { min, max }),
            "{uniform_bin, MinBytes, MaxBytes} with MinBytes below MaxBytes",
        ),
        ("uniform_int", 1) => (
            integer(0).filter(|max| *max > 0).map(|max| ValueSpec::UniformInteger { min: 0, max }),
            "{uniform_int, Max} with Max of at least 1",
        ),
        ("uniform_int", _) => (
            integer(0)
                .zip(integer(1))
                .filter(|(min, max)| min < max)
                .map(|(min, max)| ValueSpec::UniformInteger { min, max }),
            "{uniform_int, Min, Max} with Min below Max",
        ),
        ("semi_compressible", count) => {
            let (large_factor, large_share) =
                if count == 2 { (Some(1.0), Some(0.0)) } else { (number(2), number(3)) };
            let large = large_factor.zip(large_share.filter(|share| *share <= 1.0));
            let spec = size(0).zip(number(1)).zip(large);
            (
                spec.map(|((min, mean), (large_factor, large_share))| {
                    ValueSpec::SemiCompressible { min, mean, large_factor, large_share }
                }),
                "{semi_compressible, MinBytes, MeanExcessBytes, Factor, Share}, Share up to 1",
            )
        }
        ("function", _) => {
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
    let arity = expected.split('}').next().map_or(0, |form| form.matches(',').count());
    let is_short_form = name == "semi_compressible" && arguments.len() == 2;
    match spec {
        Some(spec) if arguments.len() == arity || is_short_form => Ok(spec),
        _ => Err(shape_error(term, expected)),
    }
}

/// `Size` copies of one byte.
fn constant(arguments: &[Term]) -> Option<ValueSpec> {
    let size = usize::try_from(arguments.first()?.as_integer()?).ok().filter(|n| *n <= 1 << 30)?;
    let byte = u8::try_from(arguments.get(1)?.as_integer()?).ok()?;
    Some(ValueSpec::Constant(vec![byte; size].into()))
}
