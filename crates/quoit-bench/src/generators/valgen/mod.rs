//! Value generators: from a configuration term to values.
//!
//! Random values are slices of one block of random bytes that all workers of a run share, so that
//! a value costs two draws and no copy.

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

use crate::keygen::{Exhausted, GeneratorError, Key, KeyGenerator, Kind};
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

/// How values are made, as the configuration says.
#[derive(Debug, Clone)]
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
    /// A fixed number of bytes of one line of text that repeats.
    HighlyCompressible {
        /// Size in bytes.
        size: u64,
    },
    /// Random bytes of Poisson-distributed size.
    Poisson(Poisson),
    /// One of a set of values that are made once.
    Set(Arc<BinSet>),
    /// Random bytes that are made once: always the same value.
    Seed {
        /// Size in bytes.
        size: u64,
    },
    /// Values of a key generator.
    Keys(Box<KeyGenerator>),
}

/// A value generator of one worker.
#[derive(Debug, Clone)]
pub struct ValueGenerator {
    spec: ValueSpec,
    source: Option<Source>,
    /// Reused for values that are not slices of the source.
    scratch: Key,
}

impl ValueGenerator {
    /// Reads a generator from its configuration term.
    ///
    /// # Errors
    ///
    /// Names the term and what it should be.
    pub fn parse(term: &Term) -> Result<Self, GeneratorError> {
        let spec = parse::parse_spec(term)?;
        Ok(Self { spec, source: None, scratch: Key::default() })
    }

    /// How values are made.
    pub fn spec(&self) -> &ValueSpec {
        &self.spec
    }

    /// The kind of values that the generator gives.
    pub fn kind(&self) -> Kind {
        match &self.spec {
            ValueSpec::UniformInteger { .. } => Kind::Integer,
            ValueSpec::Keys(keys) => keys.kind(),
            _ => Kind::Binary,
        }
    }

    /// The sources of bytes that the generator needs.
    pub fn source_kinds(&self) -> Vec<SourceKind> {
        let inner = self.keys().map(KeyGenerator::source_kinds).unwrap_or_default();
        self.own_source_kind().into_iter().chain(inner).collect()
    }

    /// The source of bytes that the generator needs itself.
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

    /// The key generator that values come from.
    pub(crate) fn keys(&self) -> Option<&KeyGenerator> {
        match &self.spec {
            ValueSpec::Keys(keys) => Some(keys),
            _ => None,
        }
    }

    /// As [`keys`](Self::keys), to be changed.
    pub(crate) fn keys_mut(&mut self) -> Option<&mut KeyGenerator> {
        match &mut self.spec {
            ValueSpec::Keys(keys) => Some(keys),
            _ => None,
        }
    }

    /// Prepares the generator for a worker. Without a source of bytes values are empty.
    pub fn start(&mut self, place: WorkerPlace, sources: &Sources) {
        self.take_source(sources);
        if let Some(keys) = self.keys_mut() {
            keys.start(place, sources);
        }
    }

    /// Takes the source of bytes from those of the run.
    pub(crate) fn take_source(&mut self, sources: &Sources) {
        self.source = self.own_source_kind().and_then(|kind| sources.get(&kind));
    }

    /// The next value. Allocates only while the buffer of printable values still grows.
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
                let characters = (0..size).map(|_| b' ' + (random.uniform(95) - 1) as u8);
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
                    Kind::Integer => Value::Integer(self.scratch.integer()),
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
                min.saturating_add(random.exponential(mean) as u64)
            }
            ValueSpec::UniformSize { min, max } => min + random.uniform(max - min),
            ValueSpec::Poisson(poisson) => poisson.draw(random),
            ValueSpec::SemiCompressible { min, mean, large_factor, large_share } => {
                let is_large = random.fraction() < large_share;
                let factor = if is_large { large_factor } else { 1.0 };
                let least = (min as f64 * factor) as u64;
                least.saturating_add(random.exponential(mean * factor) as u64)
            }
        };
        let source = source.map_or(&[][..], |source| source.bytes());
        Ok(Value::Bytes(slice_of(source, size, random)))
    }

    /// A value of so many bytes of the source; the source over and over where that is shorter.
    pub(crate) fn of_size(&mut self, size_bytes: u64, random: &mut Random) -> Value<'_> {
        let source = self.source.as_ref().map_or(&[][..], |source| source.bytes());
        if size_bytes <= source.len() as u64 {
            return Value::Bytes(slice_of(source, size_bytes, random));
        }
        let block = if source.is_empty() { &[0][..] } else { source };
        let bytes = block.iter().copied().cycle().take(size_bytes as usize);
        Value::Bytes(self.scratch.replace(bytes))
    }

    /// The next value, to be kept: without a copy when it is a slice of the source. An integer
    /// gives no bytes.
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
