//! Erlang's external term format, as far as Riak's data and clocks need it.
//!
//! The reader accepts the terms that any Erlang release writes (integers, atoms of all four forms,
//! tuples, lists, strings, binaries, floats, maps, and compressed terms) within [`Limits`]. The
//! writer writes the form of Erlang's `term_to_binary`. Processes, ports and functions never occur
//! in stored data.

mod inflate;
mod read;
mod write;

pub(crate) use inflate::{deflate_raw, inflate_raw};
pub use write::{
    put_big, put_binary, put_integer, put_list_header, put_nil, put_term, put_text,
    put_tuple_header,
};

use bytes::Bytes;
use thiserror::Error;

/// First byte of every encoded term.
pub const ETF_VERSION: u8 = 131;

pub(crate) mod tag {
    pub(crate) const FLOAT: u8 = 70;
    pub(crate) const COMPRESSED: u8 = 80;
    pub(crate) const SMALL_INTEGER: u8 = 97;
    pub(crate) const INTEGER: u8 = 98;
    pub(crate) const ATOM: u8 = 100;
    pub(crate) const SMALL_TUPLE: u8 = 104;
    pub(crate) const LARGE_TUPLE: u8 = 105;
    pub(crate) const NIL: u8 = 106;
    pub(crate) const STRING: u8 = 107;
    pub(crate) const LIST: u8 = 108;
    pub(crate) const BINARY: u8 = 109;
    pub(crate) const SMALL_BIG: u8 = 110;
    pub(crate) const LARGE_BIG: u8 = 111;
    pub(crate) const SMALL_ATOM: u8 = 115;
    pub(crate) const MAP: u8 = 116;
    pub(crate) const ATOM_UTF8: u8 = 118;
    pub(crate) const SMALL_ATOM_UTF8: u8 = 119;
}

/// An Erlang term.
#[derive(Clone, PartialEq, Debug)]
pub enum Term {
    /// An integer of up to 128 bits.
    Integer(i128),
    /// A larger integer.
    BigInteger {
        /// True if it is below zero.
        negative: bool,
        /// Magnitude, lowest byte first, without zero bytes at the end.
        magnitude: Bytes,
    },
    /// A float.
    Float(f64),
    /// An atom's name.
    Atom(Bytes),
    /// A tuple.
    Tuple(Vec<Term>),
    /// A proper list that was not written as a string, including the empty list.
    List(Vec<Term>),
    /// A list with a tail that is not a list, as `[1 | x]`.
    ImproperList(Vec<Term>, Box<Term>),
    /// A list of one or more integers from 0 to 255, written as a string.
    Text(Bytes),
    /// A binary.
    Binary(Bytes),
    /// Pairs of a map, in the order in which they were written.
    Map(Vec<(Term, Term)>),
}

impl Term {
    /// Decodes one encoded term, which must be the whole input. Binaries and strings share the
    /// input, unless the term was compressed.
    ///
    /// # Errors
    ///
    /// Returns an error if the input is cut off, continues after the term, has an unknown tag, or
    /// exceeds a limit.
    pub fn decode(input: &Bytes, limits: &Limits) -> Result<Self, EtfError> {
        read::decode(input, limits)
    }

    /// Size in bytes that a compressed term states for its inflated form; `None` if the term is not
    /// compressed.
    #[must_use]
    pub fn inflated_size(input: &[u8]) -> Option<usize> {
        match input {
            [ETF_VERSION, tag::COMPRESSED, size @ ..] => {
                size.first_chunk().map(|size| u32::from_be_bytes(*size) as usize)
            }
            _ => None,
        }
    }

    /// Appends the term as `term_to_binary` writes it, version byte included. Strings of more than
    /// 65 535 bytes become lists.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        out.push(ETF_VERSION);
        put_term(out, self);
    }

    /// True if the term is the atom `name`.
    #[must_use]
    pub fn is_atom(&self, name: &[u8]) -> bool {
        matches!(self, Self::Atom(atom) if atom == name)
    }

    /// The elements of a tuple of this size.
    #[must_use]
    pub fn as_tuple<const N: usize>(&self) -> Option<&[Self; N]> {
        match self {
            Self::Tuple(elements) => elements.as_slice().try_into().ok(),
            _ => None,
        }
    }

    /// The bytes of a binary.
    #[must_use]
    pub fn as_binary(&self) -> Option<&Bytes> {
        match self {
            Self::Binary(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// An integer from 0 to 2^64 - 1.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Integer(integer) => u64::try_from(*integer).ok(),
            _ => None,
        }
    }

    /// The elements of a proper list that was not written as a string, including the empty list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(elements) => Some(elements),
            _ => None,
        }
    }

    /// The bytes of an Erlang string: a list of integers from 0 to 255, in either form.
    #[must_use]
    pub fn to_text(&self) -> Option<Bytes> {
        let byte = |element: &Self| element.as_u64().and_then(|integer| u8::try_from(integer).ok());
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::List(elements) => elements.iter().map(byte).collect(),
            _ => None,
        }
    }
}

/// Limits of the reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum depth of nested terms.
    pub depth_max: u32,
    /// Maximum number of terms, including nested ones. It bounds the memory that a term takes.
    pub terms_max: u32,
    /// Maximum inflated size of a compressed term, in bytes.
    pub inflated_bytes_max: usize,
}

impl Limits {
    /// Limits for stored objects, which admit data types of a million elements.
    pub const STORED: Self =
        Self { depth_max: 256, terms_max: 32_000_000, inflated_bytes_max: 1 << 30 };
}

/// Error of decoding a term.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum EtfError {
    /// The bytes end too early.
    #[error("external term is cut off at byte {at}")]
    Truncated {
        /// Offset in bytes of the part that does not fit.
        at: usize,
    },
    /// The first byte is not 131.
    #[error("external term begins with byte {version}, not {ETF_VERSION}")]
    BadVersion {
        /// The first byte.
        version: u8,
    },
    /// The tag does not occur in stored data.
    #[error("external term has tag {tag} at byte {at}, which stored data never has")]
    UnknownTag {
        /// The tag.
        tag: u8,
        /// Offset in bytes of the tag.
        at: usize,
    },
    /// Bytes follow the term.
    #[error("external term ends at byte {at} of {size_bytes}")]
    Surplus {
        /// Offset in bytes of the end of the term.
        at: usize,
        /// Size of the input in bytes.
        size_bytes: usize,
    },
    /// Terms are nested too deeply.
    #[error("external term is nested more than {depth_max} deep")]
    TooDeep {
        /// The limit.
        depth_max: u32,
    },
    /// There are too many terms.
    #[error("external term has more than {terms_max} parts")]
    TooMany {
        /// The limit.
        terms_max: u32,
    },
    /// The compressed data is damaged, or its size is not the stated one.
    #[error("compressed external term is damaged or does not have its {size_bytes} bytes")]
    BadCompression {
        /// Stated size in bytes.
        size_bytes: usize,
    },
    /// The inflated term would exceed the limit.
    #[error("compressed external term has {size_bytes} bytes, more than {size_bytes_max}")]
    TooLarge {
        /// Stated size in bytes.
        size_bytes: usize,
        /// The limit in bytes.
        size_bytes_max: usize,
    },
}

#[cfg(test)]
mod tests;
