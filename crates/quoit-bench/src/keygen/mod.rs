//! Key generators: from a configuration term to keys.
//!
//! A generator is parsed and checked once ([`KeyGenerator::parse`]), cloned for each worker, told
//! the worker's place, and then writes key after key into one reused [`Key`].

mod error;
mod format;
mod integer;
mod parse;
#[cfg(test)]
mod tests;
mod text;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub use error::GeneratorError;
pub(crate) use error::shape_error;
use format::Format;
use integer::Integers;

use crate::random::Random;
use crate::valgen::{SourceKind, Sources, Value, ValueGenerator};
use crate::worker_place::WorkerPlace;

/// What a generator gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Integers.
    Integer,
    /// Erlang strings.
    String,
    /// Binaries.
    Binary,
}

/// A key, in a buffer that is reused from one key to the next.
#[derive(Debug, Clone, Default)]
pub struct Key {
    integer: i64,
    bytes: Vec<u8>,
}

impl Key {
    /// The bytes of a string or binary key; empty for an integer key.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of an integer key; meaningless for others.
    pub fn integer(&self) -> i64 {
        self.integer
    }
}

/// A finite generator has given its last key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted;

/// A key generator with its state.
#[derive(Debug, Clone)]
pub enum KeyGenerator {
    /// Integers of some distribution.
    Integers(Integers),
    /// The integer as a binary of whole bytes, cut to its low bits.
    IntegerToBinary {
        /// Size of the binary in bytes.
        size_bytes: usize,
        /// Lowest byte first.
        is_little: bool,
        /// Gives the integer.
        inner: Box<KeyGenerator>,
    },
    /// The integer in decimal digits, as a string.
    IntegerToString(Box<KeyGenerator>),
    /// The same bytes as the other kind (`str_to_bin`, `bin_to_str`).
    Retyped(Kind, Box<KeyGenerator>),
    /// The value through an Erlang format string.
    Formatted {
        /// What comes out: string or binary.
        kind: Kind,
        /// The format string.
        format: Format,
        /// Gives the one argument.
        inner: Box<KeyGenerator>,
        /// Reused for the text.
        scratch: Vec<u8>,
    },
    /// Base64 with padding, as a binary.
    Base64 {
        /// Gives the bytes.
        inner: Box<KeyGenerator>,
        /// Reused for the encoded text.
        scratch: String,
    },
    /// Two results joined.
    Joined {
        /// What comes out: string or binary.
        kind: Kind,
        /// The first and the second part.
        parts: Box<(KeyGenerator, KeyGenerator)>,
        /// Reused for the first part.
        scratch: Vec<u8>,
    },
    /// A random UUID (version 4): 16 raw bytes, or text with a separator.
    Uuid(Option<Vec<u8>>),
    /// Always the same value.
    Literal(Kind, Vec<u8>),
    /// A value generator used for keys.
    Values(Box<ValueGenerator>),
    /// Four groups of 16 random hexadecimal digits: practically never the same key twice.
    RandomDynamo,
    /// The same text derived from a uniform number of `1..=count`: `count` distinct keys.
    Dynamo {
        /// Number of distinct keys.
        count: u64,
    },
}

impl KeyGenerator {
    /// What the generator gives.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Integers(_) => Kind::Integer,
            Self::IntegerToBinary { .. } | Self::Base64 { .. } => Kind::Binary,
            Self::IntegerToString(_) | Self::RandomDynamo | Self::Dynamo { .. } => Kind::String,
            Self::Retyped(kind, _)
            | Self::Formatted { kind, .. }
            | Self::Joined { kind, .. }
            | Self::Literal(kind, _) => *kind,
            Self::Uuid(None) => Kind::Binary,
            Self::Uuid(Some(_)) => Kind::String,
            Self::Values(values) => values.kind(),
        }
    }

    /// How many distinct keys there are, where that is known, as basho_bench estimates it.
    pub fn dimension(&self) -> Option<u64> {
        match self {
            Self::Integers(integers) => integers.dimension(),
            Self::IntegerToBinary { inner, .. }
            | Self::IntegerToString(inner)
            | Self::Formatted { inner, .. }
            | Self::Base64 { inner, .. } => inner.dimension(),
            Self::Joined { parts, .. } => match (parts.0.dimension(), parts.1.dimension()) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
            Self::Dynamo { count } => Some(*count),
            _ => None,
        }
    }

    /// Prepares the generator for a worker: its part of a partitioned sequence, and the source
    /// of bytes of a value generator in it.
    pub fn start(&mut self, place: WorkerPlace, sources: &Sources) {
        match self {
            Self::Integers(integers) => integers.start(place),
            Self::IntegerToBinary { inner, .. }
            | Self::IntegerToString(inner)
            | Self::Retyped(_, inner)
            | Self::Formatted { inner, .. }
            | Self::Base64 { inner, .. } => inner.start(place, sources),
            Self::Joined { parts, .. } => {
                parts.0.start(place, sources);
                parts.1.start(place, sources);
            }
            Self::Values(values) => values.start(sources),
            Self::Uuid(_) | Self::Literal(..) | Self::RandomDynamo | Self::Dynamo { .. } => {}
        }
    }

    /// The sources of bytes that value generators inside need.
    pub(crate) fn source_kinds(&self) -> Vec<SourceKind> {
        match self {
            Self::Values(values) => values.source_kind().into_iter().collect(),
            Self::IntegerToBinary { inner, .. }
            | Self::IntegerToString(inner)
            | Self::Retyped(_, inner)
            | Self::Formatted { inner, .. }
            | Self::Base64 { inner, .. } => inner.source_kinds(),
            Self::Joined { parts, .. } => {
                let (first, second) = (parts.0.source_kinds(), parts.1.source_kinds());
                [first, second].concat()
            }
            _ => Vec::new(),
        }
    }

    /// Writes the next key. Allocates only while buffers still grow.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] after the last key of a finite generator.
    pub fn generate(&mut self, random: &mut Random, key: &mut Key) -> Result<(), Exhausted> {
        match self {
            Self::Integers(integers) => {
                key.integer = integers.draw(random)?;
                key.bytes.clear();
            }
            Self::IntegerToBinary { size_bytes, is_little, inner } => {
                inner.generate(random, key)?;
                write_integer(&mut key.bytes, key.integer, *size_bytes, *is_little);
            }
            Self::IntegerToString(inner) => {
                inner.generate(random, key)?;
                text::write_decimal(&mut key.bytes, key.integer);
            }
            Self::Retyped(_, inner) => inner.generate(random, key)?,
            Self::Formatted { format, inner, scratch, .. } => {
                let argument_kind = inner.kind();
                inner.generate(random, key)?;
                scratch.clear();
                format.write(argument_kind, key, scratch);
                std::mem::swap(scratch, &mut key.bytes);
            }
            Self::Base64 { inner, scratch } => {
                inner.generate(random, key)?;
                scratch.clear();
                STANDARD.encode_string(&key.bytes, scratch);
                key.bytes.clear();
                key.bytes.extend_from_slice(scratch.as_bytes());
            }
            Self::Joined { parts, scratch, .. } => {
                parts.0.generate(random, key)?;
                std::mem::swap(scratch, &mut key.bytes);
                parts.1.generate(random, key)?;
                scratch.extend_from_slice(&key.bytes);
                std::mem::swap(scratch, &mut key.bytes);
            }
            Self::Uuid(separator) => text::write_uuid(&mut key.bytes, random, separator.as_deref()),
            Self::Literal(_, bytes) => {
                key.bytes.clear();
                key.bytes.extend_from_slice(bytes);
            }
            Self::Values(values) => {
                key.bytes.clear();
                match values.generate(random) {
                    Value::Bytes(bytes) => key.bytes.extend_from_slice(bytes),
                    Value::Integer(integer) => key.integer = integer,
                }
            }
            Self::RandomDynamo => {
                text::write_groups(&mut key.bytes, |_| random.hex_digits());
            }
            Self::Dynamo { count } => {
                let number = random.uniform(*count);
                text::write_dynamo(&mut key.bytes, number);
            }
        }
        Ok(())
    }
}

/// The low bytes of the two's complement of `integer`.
fn write_integer(bytes: &mut Vec<u8>, integer: i64, size_bytes: usize, is_little: bool) {
    let sign_byte = if integer < 0 { 0xff } else { 0 };
    let low_bytes = integer.to_le_bytes();
    bytes.clear();
    bytes.extend((0..size_bytes).map(|index| low_bytes.get(index).copied().unwrap_or(sign_byte)));
    if !is_little {
        bytes.reverse();
    }
}
