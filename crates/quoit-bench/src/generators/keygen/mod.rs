//! Key generators: from a configuration term to keys.
//!
//! A generator is parsed and checked once ([`KeyGenerator::parse`]), then cloned and prepared for each worker
//! by its number. It writes one key after another into a reused [`Key`]. Parsing does no I/O.

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
use lines::LineReader;
pub(crate) use notes::notes;
pub use sequence::SequenceSettings;

use crate::random::Random;
use crate::script::{ScriptedKind, ScriptedValue, ScriptedValues};
use crate::valgen::{Value, ValueGenerator};

/// The kind of values that a generator produces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
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

    /// Replaces the bytes of the key.
    pub(crate) fn replace(&mut self, bytes: impl Iterator<Item = u8>) -> &[u8] {
        self.bytes.clear();
        self.bytes.extend(bytes);
        &self.bytes
    }

    /// Takes a value as the key.
    pub(crate) fn take(&mut self, value: Value<'_>) {
        self.bytes.clear();
        match value {
            Value::Bytes(bytes) => self.bytes.extend_from_slice(bytes),
            Value::Integer(integer) => self.integer = integer,
        }
    }

    /// Takes the next value of a script as the key. A fault of the script ends the keys; the run reports
    /// it.
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

    /// The number of an integer key; meaningless for other keys.
    pub fn integer(&self) -> i64 {
        self.integer
    }
}

/// A finite generator has produced its last key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted;

/// A key generator with its state.
#[derive(Debug, Clone)]
pub enum KeyGenerator {
    /// Integers of a distribution or sequence.
    Integers(Integers),
    /// An integer as a binary: the low bytes of its two's complement.
    IntegerToBinary {
        /// Size of the binary in bytes.
        size_bytes: usize,
        /// True if the lowest byte comes first.
        is_little_endian: bool,
        /// Generator of the integers.
        inner: Box<KeyGenerator>,
    },
    /// An integer in decimal digits, as a string.
    IntegerToString(Box<KeyGenerator>),
    /// The same bytes as the other kind (`str_to_bin`, `bin_to_str`).
    Retyped(KeyKind, Box<KeyGenerator>),
    /// A value formatted by an Erlang format string.
    Formatted {
        /// Kind of the output: string or binary.
        kind: KeyKind,
        /// The format string.
        format: Format,
        /// Generator of the one argument.
        inner: Box<KeyGenerator>,
        /// Buffer for the text, reused.
        scratch: Vec<u8>,
    },
    /// A value in Erlang's external term format, as a binary.
    ExternalTerm(Box<KeyGenerator>),
    /// Bytes in Base64 with padding, as a binary.
    Base64 {
        /// Generator of the bytes.
        inner: Box<KeyGenerator>,
        /// Buffer for the encoded text, reused.
        scratch: String,
    },
    /// An integer that is split by moduli, each piece formatted by a directive of a format string.
    Split {
        /// The format string, with one directive for each modulus.
        format: Format,
        /// Each piece is the remainder by its modulus. The quotient is then divided by the next modulus.
        moduli: Vec<i64>,
        /// Generator of the integers.
        inner: Box<KeyGenerator>,
        /// Buffer for the pieces, reused.
        pieces: Vec<Key>,
    },
    /// The raw digest of a string or binary.
    Digest(DigestKind, Box<KeyGenerator>),
    /// The concatenation of two outputs.
    Joined {
        /// Kind of the output: string or binary.
        kind: KeyKind,
        /// Generators of the first and the second part.
        parts: Box<(KeyGenerator, KeyGenerator)>,
        /// Buffer for the first part, reused.
        scratch: Vec<u8>,
    },
    /// A random UUID (version 4): 16 raw bytes, or text with a separator between its groups.
    Uuid(Option<Vec<u8>>),
    /// The same value each time.
    Literal(KeyKind, Vec<u8>),
    /// The next line of a file that all workers share.
    Lines(LineReader),
    /// Keys that begin with a time in seconds.
    Inserter(Inserter),
    /// Values of a value generator, as keys.
    Values(Box<ValueGenerator>),
    /// Values that a function of a script returns.
    Script(Box<ScriptedValues>),
    /// Four groups of 16 random hexadecimal digits, practically never the same key twice.
    RandomDynamo,
    /// A text in the same form, derived from a uniform number of `1..=count`, so that there are `count`
    /// distinct keys.
    Dynamo {
        /// Number of distinct keys.
        count: u64,
    },
}

impl KeyGenerator {
    /// The kind of keys that the generator produces.
    pub fn kind(&self) -> KeyKind {
        match self {
            Self::Integers(_) => KeyKind::Integer,
            Self::IntegerToBinary { .. }
            | Self::Base64 { .. }
            | Self::ExternalTerm(_)
            | Self::Digest(..)
            | Self::Lines(_)
            | Self::Uuid(None) => KeyKind::Binary,
            Self::IntegerToString(_)
            | Self::Split { .. }
            | Self::Inserter(_)
            | Self::Uuid(Some(_))
            | Self::RandomDynamo
            | Self::Dynamo { .. } => KeyKind::String,
            Self::Retyped(kind, _)
            | Self::Formatted { kind, .. }
            | Self::Joined { kind, .. }
            | Self::Literal(kind, _) => *kind,
            Self::Values(values) => values.kind(),
            Self::Script(values) => match values.kind() {
                ScriptedKind::Integer => KeyKind::Integer,
                ScriptedKind::Bytes => KeyKind::Binary,
            },
        }
    }

    /// Number of distinct keys, if it is known. Estimated as in basho_bench.
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
    /// [`Exhausted`] after the last key of a finite generator, and after a fault of a script.
    pub fn generate(&mut self, random: &mut Random, key: &mut Key) -> Result<(), Exhausted> {
        match self {
            Self::Integers(integers) => {
                key.integer = integers.draw(random)?;
                key.bytes.clear();
            }
            Self::IntegerToBinary { size_bytes, is_little_endian, inner } => {
                inner.generate(random, key)?;
                write_integer(&mut key.bytes, key.integer, *size_bytes, *is_little_endian);
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

/// Writes the low `size_bytes` bytes of the two's complement of `integer`.
fn write_integer(bytes: &mut Vec<u8>, integer: i64, size_bytes: usize, is_little_endian: bool) {
    let sign_byte = if integer < 0 { 0xff } else { 0 };
    let low_bytes = integer.to_le_bytes();
    bytes.clear();
    bytes.extend((0..size_bytes).map(|index| low_bytes.get(index).copied().unwrap_or(sign_byte)));
    if !is_little_endian {
        bytes.reverse();
    }
}
