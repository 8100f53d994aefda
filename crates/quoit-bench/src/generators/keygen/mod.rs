//! Key generators: from a configuration term to keys.
//!
//! A generator is parsed and checked once ([`KeyGenerator::parse`]), cloned for each worker, told
//! the worker's place, and then writes key after key into one reused [`Key`]. Parsing reads and
//! writes no files.

mod digest;
#[cfg(test)]
mod distribution_tests;
mod error;
mod format;
mod functions;
mod inserter;
mod insertion;
mod integer;
mod lines;
mod notes;
mod numbers;
mod parse;
mod position_file;
mod sequence;
#[cfg(test)]
mod tests;
mod text;
mod tree;
mod zipf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use digest::DigestKind;
pub use error::GeneratorError;
pub(crate) use error::shape_error;
pub(crate) use format::Format;
pub(crate) use functions::{Role, parse_function, parse_script};
use inserter::Inserter;
use integer::Integers;
use lines::Lines;
pub(crate) use notes::notes;
pub use sequence::SequenceSettings;

use crate::random::Random;
use crate::script::{ScriptedKind, ScriptedValue, ScriptedValues};
use crate::valgen::{Value, ValueGenerator};

/// Kind of values that a generator gives.
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

    /// Takes other bytes in place of those that it has.
    pub(crate) fn replace(&mut self, bytes: impl Iterator<Item = u8>) -> &[u8] {
        self.bytes.clear();
        self.bytes.extend(bytes);
        &self.bytes
    }

    /// Becomes a value.
    pub(crate) fn take(&mut self, value: Value<'_>) {
        self.bytes.clear();
        match value {
            Value::Bytes(bytes) => self.bytes.extend_from_slice(bytes),
            Value::Integer(integer) => self.integer = integer,
        }
    }

    /// Becomes the next value of a script. The run tells the fault of one.
    fn take_scripted(
        &mut self,
        values: &mut ScriptedValues,
        random: &mut Random,
    ) -> Result<(), Exhausted> {
        match values.next(random).unwrap_or_default() {
            None => return Err(Exhausted),
            Some(ScriptedValue::Integer(integer)) => self.take(Value::Integer(integer)),
            Some(ScriptedValue::Bytes(bytes)) => self.bytes = bytes,
        }
        Ok(())
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
        /// Kind of the output: string or binary.
        kind: Kind,
        /// The format string.
        format: Format,
        /// Gives the one argument.
        inner: Box<KeyGenerator>,
        /// Reused for the text.
        scratch: Vec<u8>,
    },
    /// The value in Erlang's external term format, as a binary.
    ExternalTerm(Box<KeyGenerator>),
    /// Base64 with padding, as a binary.
    Base64 {
        /// Gives the bytes.
        inner: Box<KeyGenerator>,
        /// Reused for the encoded text.
        scratch: String,
    },
    /// The integer split by moduli, each piece through a directive of a format string.
    Split {
        /// The format string, with as many directives as there are moduli.
        format: Format,
        /// Each piece is what is left modulo this; the next one goes on with the quotient.
        moduli: Vec<i64>,
        /// Gives the integer.
        inner: Box<KeyGenerator>,
        /// Reused for the pieces.
        pieces: Vec<Key>,
    },
    /// The digest of a string or binary, raw.
    Digest(DigestKind, Box<KeyGenerator>),
    /// Two results joined.
    Joined {
        /// Kind of the output: string or binary.
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
    /// The next line of a file that all workers share.
    Lines(Lines),
    /// Keys that begin with a second.
    Inserter(Inserter),
    /// A value generator used for keys.
    Values(Box<ValueGenerator>),
    /// Values that a function of a script gives.
    Script(Box<ScriptedValues>),
    /// Four groups of 16 random hexadecimal digits: practically never the same key twice.
    RandomDynamo,
    /// The same text derived from a uniform number of `1..=count`: `count` distinct keys.
    Dynamo {
        /// Number of distinct keys.
        count: u64,
    },
}

impl KeyGenerator {
    /// The kind of values that the generator gives.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Integers(_) => Kind::Integer,
            Self::IntegerToBinary { .. }
            | Self::Base64 { .. }
            | Self::ExternalTerm(_)
            | Self::Digest(..)
            | Self::Lines(_)
            | Self::Uuid(None) => Kind::Binary,
            Self::IntegerToString(_)
            | Self::Split { .. }
            | Self::Inserter(_)
            | Self::Uuid(Some(_))
            | Self::RandomDynamo
            | Self::Dynamo { .. } => Kind::String,
            Self::Retyped(kind, _)
            | Self::Formatted { kind, .. }
            | Self::Joined { kind, .. }
            | Self::Literal(kind, _) => *kind,
            Self::Values(values) => values.kind(),
            Self::Script(values) => match values.kind() {
                ScriptedKind::Integer => Kind::Integer,
                ScriptedKind::Bytes => Kind::Binary,
            },
        }
    }

    /// How many distinct keys there are, where that is known, as basho_bench estimates it.
    pub fn dimension(&self) -> Option<u64> {
        match self {
            Self::Integers(integers) => integers.dimension(),
            Self::IntegerToBinary { inner, .. }
            | Self::IntegerToString(inner)
            | Self::Formatted { inner, .. }
            | Self::Digest(_, inner)
            | Self::ExternalTerm(inner)
            | Self::Base64 { inner, .. } => inner.dimension(),
            Self::Joined { parts, .. } => match (parts.0.dimension(), parts.1.dimension()) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
            Self::Dynamo { count } => Some(*count),
            _ => None,
        }
    }

    /// Writes the next key. Allocates only while buffers still grow.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] after the last key of a finite generator, and at a fault of a script.
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
                inner.generate(random, key)?;
                scratch.clear();
                format.write(std::slice::from_ref(key), scratch);
                std::mem::swap(scratch, &mut key.bytes);
            }
            Self::Split { format, moduli, inner, pieces } => {
                inner.generate(random, key)?;
                text::split(key.integer, moduli, pieces);
                key.bytes.clear();
                format.write(pieces, &mut key.bytes);
            }
            Self::Digest(digest, inner) => {
                inner.generate(random, key)?;
                digest.apply(&mut key.bytes);
            }
            Self::ExternalTerm(inner) => {
                inner.generate(random, key)?;
                text::write_external_term(key, inner.kind());
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
            Self::Lines(lines) => lines.next(&mut key.bytes)?,
            Self::Inserter(inserter) => inserter.next(random, &mut key.bytes),
            Self::Values(values) => key.take(values.generate(random)?),
            Self::Script(values) => key.take_scripted(values, random)?,
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
