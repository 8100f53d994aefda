//! Value generators: from a configuration term to values.
//!
//! Random values are slices of one block of random bytes that all workers of a run share, so a value costs
//! a few draws and no copy.

mod describe;
#[cfg(test)]
mod distribution_tests;
mod parse;
mod poisson;
mod source;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use poisson::Poisson;
pub(crate) use source::SOURCE_BYTES_MAX;
pub use source::{BinSet, Source, SourceError, SourceKind, SourceSettings, Sources};

use crate::keygen::{Exhausted, GeneratorError, Key, KeyGenerator, KeyKind};
use crate::random::Random;
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// A value of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// Bytes to store.
    Bytes(&'a [u8]),
    /// An integer, for counters.
    Integer(i64),
}

/// The configured form of values.
#[derive(Debug, Clone)]
pub enum ValueSpec {
    /// A fixed number of random bytes.
    Fixed {
        /// Size in bytes.
        size: u64,
    },
    /// The same bytes each time.
    Constant(Arc<[u8]>),
    /// A fixed number of random printable characters, drawn anew for each value.
    Printable {
        /// Size in bytes.
        size: u64,
    },
    /// Random bytes. The size is a minimum plus an exponentially distributed excess.
    Exponential {
        /// Minimum size in bytes.
        min: u64,
        /// Mean of the excess in bytes, so that the mean size is `min + mean`.
        mean: f64,
    },
    /// Random bytes whose size is uniform in `min + 1..=max`.
    UniformSize {
        /// One less than the minimum size in bytes.
        min: u64,
        /// Maximum size in bytes.
        max: u64,
    },
    /// A uniform integer of `min + 1..=max`.
    UniformInteger {
        /// One less than the smallest integer.
        min: i64,
        /// The largest integer.
        max: i64,
    },
    /// Sizes as with `Exponential`, half random bytes and half text. A share of the values is larger by a
    /// factor.
    SemiCompressible {
        /// Minimum size in bytes.
        min: u64,
        /// Mean of the excess in bytes.
        mean: f64,
        /// Factor of the larger values, applied to the minimum and to the mean.
        large_factor: f64,
        /// Share of the larger values, from 0 to 1.
        large_share: f64,
    },
    /// A fixed number of bytes of one repeated line of text.
    HighlyCompressible {
        /// Size in bytes.
        size: u64,
    },
    /// Random bytes whose size has a Poisson distribution.
    Poisson(Poisson),
    /// One of a set of values that are created once.
    Set(Arc<BinSet>),
    /// Random bytes that are created once, so every value is the same.
    Seed {
        /// Size in bytes.
        size: u64,
    },
    /// Keys of a key generator, as values.
    Keys(Box<KeyGenerator>),
}

/// The value generator of one worker.
#[derive(Debug, Clone)]
pub struct ValueGenerator {
    spec: ValueSpec,
    source: Option<Source>,
    /// Buffer for values that are not slices of the source, reused.
    scratch: Key,
}

impl ValueGenerator {
    /// Parses a generator from its configuration term.
    ///
    /// # Errors
    ///
    /// When the term is not a generator; the error names the term and the right form.
    pub fn parse(term: &Term) -> Result<Self, GeneratorError> {
        let spec = parse::parse_spec(term)?;
        Ok(Self { spec, source: None, scratch: Key::default() })
    }

    /// The configured form of the values.
    pub fn spec(&self) -> &ValueSpec {
        &self.spec
    }

    /// The kind of values that the generator produces.
    pub fn kind(&self) -> KeyKind {
        match &self.spec {
            ValueSpec::UniformInteger { .. } => KeyKind::Integer,
            ValueSpec::Keys(keys) => keys.kind(),
            _ => KeyKind::Binary,
        }
    }

    /// The sources of bytes that the generator and its inner generators need.
    pub fn source_kinds(&self) -> Vec<SourceKind> {
        let inner = self.keys().map(KeyGenerator::source_kinds).unwrap_or_default();
        self.own_source_kind().into_iter().chain(inner).collect()
    }

    /// The source of bytes that the generator itself needs.
    pub(crate) fn own_source_kind(&self) -> Option<SourceKind> {
        match &self.spec {
            ValueSpec::Fixed { .. }
            | ValueSpec::Exponential { .. }
            | ValueSpec::Poisson(_)
            | ValueSpec::UniformSize { .. } => Some(SourceKind::Random),
            ValueSpec::SemiCompressible { .. } => Some(SourceKind::SemiCompressible),
            ValueSpec::HighlyCompressible { .. } => Some(SourceKind::HighlyCompressible),
            ValueSpec::Set(set) => Some(SourceKind::Set(set.clone())),
            ValueSpec::Seed { size } => Some(SourceKind::Seed(*size)),
            ValueSpec::Constant(_)
            | ValueSpec::Printable { .. }
            | ValueSpec::Keys(_)
            | ValueSpec::UniformInteger { .. } => None,
        }
    }

    /// The key generator that produces the values, if there is one.
    pub(crate) fn keys(&self) -> Option<&KeyGenerator> {
        match &self.spec {
            ValueSpec::Keys(keys) => Some(keys),
            _ => None,
        }
    }

    /// As [`keys`](Self::keys), mutable.
    pub(crate) fn keys_mut(&mut self) -> Option<&mut KeyGenerator> {
        match &mut self.spec {
            ValueSpec::Keys(keys) => Some(keys),
            _ => None,
        }
    }

    /// Prepares the generator for a worker. If `sources` lacks its source of bytes, values are empty.
    pub fn start(&mut self, place: WorkerPlace, sources: &Sources) {
        self.take_source(sources);
        if let Some(keys) = self.keys_mut() {
            keys.start(place, sources);
        }
    }

    /// Takes the generator's source of bytes from the sources of the run.
    pub(crate) fn take_source(&mut self, sources: &Sources) {
        self.source = self.own_source_kind().and_then(|kind| sources.get(&kind));
    }

    /// The next value. Allocates only while the buffer of values that are no slices still grows.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] after the last value of a key generator that ends.
    #[inline]
    pub fn generate(&mut self, random: &mut Random) -> Result<Value<'_>, Exhausted> {
        let source = self.source.as_ref();
        let size = match self.spec {
            ValueSpec::Constant(ref bytes) => return Ok(Value::Bytes(bytes)),
            ValueSpec::Printable { size } => {
                let characters = (0..size).map(|_| random.printable());
                return Ok(Value::Bytes(self.scratch.replace(characters)));
            }
            ValueSpec::UniformInteger { min, max } => {
                let drawn = random.uniform(max.abs_diff(min));
                return Ok(Value::Integer(min.wrapping_add_unsigned(drawn)));
            }
            ValueSpec::Keys(ref mut keys) => {
                let kind = keys.kind();
                keys.generate(random, &mut self.scratch)?;
                return Ok(match kind {
                    KeyKind::Integer => Value::Integer(self.scratch.integer()),
                    _ => Value::Bytes(self.scratch.bytes()),
                });
            }
            ValueSpec::Set(_) => {
                let value = source.map_or(&[][..], |source| source.one_of_set(random));
                return Ok(Value::Bytes(value));
            }
            ValueSpec::Seed { .. } => {
                return Ok(Value::Bytes(source.map_or(&[][..], |source| source.bytes())));
            }
            ValueSpec::Fixed { size } | ValueSpec::HighlyCompressible { size } => size,
            ValueSpec::Exponential { min, mean } => {
                min.saturating_add(quoit_number::whole(random.exponential(mean)))
            }
            ValueSpec::UniformSize { min, max } => min + random.uniform(max - min),
            ValueSpec::Poisson(poisson) => poisson.draw(random),
            ValueSpec::SemiCompressible { min, mean, large_factor, large_share } => {
                let is_large = random.fraction() < large_share;
                let factor = if is_large { large_factor } else { 1.0 };
                let least = quoit_number::whole(min as f64 * factor);
                least.saturating_add(quoit_number::whole(random.exponential(mean * factor)))
            }
        };
        let source = source.map_or(&[][..], |source| source.bytes());
        Ok(Value::Bytes(slice_of(source, size, random)))
    }

    /// A value of the given size, cut from the source. If the source is shorter, it is repeated.
    pub(crate) fn of_size(&mut self, size_bytes: u64, random: &mut Random) -> Value<'_> {
        let source = self.source.as_ref().map_or(&[][..], |source| source.bytes());
        if size_bytes <= source.len() as u64 {
            return Value::Bytes(slice_of(source, size_bytes, random));
        }
        let block = if source.is_empty() { &[0][..] } else { source };
        let bytes = block.iter().copied().cycle().take(quoit_number::index(size_bytes));
        Value::Bytes(self.scratch.replace(bytes))
    }

    /// The next value, owned. A slice of the source is not copied. An integer gives no bytes.
    ///
    /// # Errors
    ///
    /// As [`generate`](Self::generate).
    #[inline]
    pub fn generate_shared(&mut self, random: &mut Random) -> Result<Bytes, Exhausted> {
        let source = match &self.source {
            Some(source) => source.bytes().clone(),
            None => Bytes::new(),
        };
        Ok(match self.generate(random)? {
            Value::Bytes(bytes) if source.is_empty() => Bytes::copy_from_slice(bytes),
            Value::Bytes(bytes) => source.slice_ref(bytes),
            Value::Integer(_) => Bytes::new(),
        })
    }
}

/// `size` bytes from a uniformly drawn offset of `source`, or all of it if it is not larger.
#[inline]
#[expect(clippy::indexing_slicing, reason = "`size` bytes follow each offset that is drawn")]
fn slice_of<'a>(source: &'a [u8], size: u64, random: &mut Random) -> &'a [u8] {
    match usize::try_from(size) {
        Ok(size) if size < source.len() => {
            let offset = quoit_number::index(random.uniform((source.len() - size) as u64));
            &source[offset..offset + size]
        }
        _ => source,
    }
}
