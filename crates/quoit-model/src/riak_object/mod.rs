//! Riak's own form of objects, which its backends store and its replication sends.
//!
//! The reader accepts version 1 and the older version 0. The writer writes version 1, and
//! reproduces what was read byte for byte. To that end, everything that has no field of
//! [`Metadata`](crate::object::Metadata) is kept in `other`:
//!
//! - entries without a field, as encoded name and encoded value (both begin with an encoding byte,
//!   1 for raw bytes and 0 for an external term);
//! - notes of this module, with names of one letter, if the stored form is not the one that the
//!   writer would write: `o` is the order of entries, `r` the whole metadata, `v` the encoding of
//!   the value.

mod meta;
mod v0;

use crate::cursor::{Cursor, Truncated};
use crate::etf::{ETF_VERSION, EtfError, Limits};
use crate::object::{Object, Sibling};
use crate::riak_clock::{RiakClockError, decode_riak_clock, encode_riak_clock};
use bytes::Bytes;
use smallvec::SmallVec;
use thiserror::Error;

/// First byte of version 1.
const RIAK_OBJECT: u8 = 53;
const VERSION_1: u8 = 1;

/// Encoding byte of raw bytes.
const RAW: u8 = 1;
/// Encoding byte of external terms.
const TERM: u8 = 0;

/// Note of a value's encoding byte if it is not [`RAW`]. Empty if there is no encoding byte, as in
/// objects that were read without their values.
const NOTE_VALUE: &[u8] = b"v";

/// Error of decoding an object of Riak.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RiakObjectError {
    /// The bytes end too early, or a length in them exceeds the bytes that follow.
    #[error("Riak object is cut off at byte {at}; take the record from another replica")]
    Truncated {
        /// Offset in bytes of the field that does not fit.
        at: usize,
    },
    /// The object is of neither version 1 nor version 0.
    #[error("Riak object begins with {start:?}: neither version 1 (53, 1) nor version 0 (131)")]
    UnknownVersion {
        /// The first two bytes, or fewer.
        start: Vec<u8>,
    },
    /// Bytes follow the last sibling.
    #[error("Riak object ends at byte {at} of {size_bytes}; take it from another replica")]
    Surplus {
        /// Offset in bytes of the end of the object.
        at: usize,
        /// Size of the input in bytes.
        size_bytes: usize,
    },
    /// The clock can't be read.
    #[error("Riak object: {0}")]
    Clock(#[from] RiakClockError),
    /// The term of a version 0 object can't be read.
    #[error("Riak object of version 0: {0}")]
    Term(#[from] EtfError),
    /// The term of a version 0 object is not an object.
    #[error("Riak object of version 0 lacks its {what}")]
    BadRecord {
        /// Missing part.
        what: &'static str,
    },
}

impl From<Truncated> for RiakObjectError {
    fn from(truncated: Truncated) -> Self {
        Self::Truncated { at: truncated.at }
    }
}

/// Decodes an object of either version. Values of version 1 share the input.
///
/// # Errors
///
/// Returns an error if the bytes are damaged or not an object. Metadata that this release does not
/// understand is not an error; it is kept as it is.
pub fn decode_riak_object(bytes: &Bytes) -> Result<Object, RiakObjectError> {
    match bytes.as_ref() {
        [RIAK_OBJECT, VERSION_1, ..] => decode_v1(bytes),
        [ETF_VERSION, ..] => v0::decode(bytes),
        other => {
            Err(RiakObjectError::UnknownVersion { start: other.get(..2).unwrap_or(other).into() })
        }
    }
}

/// Appends version 1. An object that [`decode_riak_object`] decoded from version 1 is encoded to
/// the same bytes, if its clock was encoded as Riak does.
///
/// # Panics
///
/// Panics if a part has 4 GiB or more. Objects are far smaller.
pub fn encode_riak_object(object: &Object, out: &mut Vec<u8>) {
    out.extend_from_slice(&[RIAK_OBJECT, VERSION_1]);
    put_sized(out, |out| encode_riak_clock(&object.clock, out));
    put_u32(out, object.siblings.len());
    for sibling in &object.siblings {
        put_sized(out, |out| put_value(out, sibling));
        put_sized(out, |out| meta::encode(sibling, out));
    }
}

fn decode_v1(bytes: &Bytes) -> Result<Object, RiakObjectError> {
    let mut cursor = Cursor::new(bytes);
    cursor.slice(2)?;
    let clock = decode_riak_clock(&sized(&mut cursor)?, &Limits::STORED)?;
    let sibling_count = u32::from_be_bytes(cursor.array()?);
    let mut siblings = SmallVec::new();
    for _ in 0..sibling_count {
        siblings.push(decode_sibling(&mut cursor)?);
    }
    if cursor.remaining() > 0 {
        return Err(RiakObjectError::Surplus { at: cursor.at(), size_bytes: bytes.len() });
    }
    Ok(Object { clock, siblings })
}

fn decode_sibling(cursor: &mut Cursor<'_>) -> Result<Sibling, RiakObjectError> {
    let value = sized(cursor)?;
    let mut sibling = meta::decode(&sized(cursor)?)?;
    set_value(&mut sibling, &value);
    Ok(sibling)
}

/// Splits a stored value into its encoding byte and its bytes.
fn set_value(sibling: &mut Sibling, stored: &Bytes) {
    let encoding = stored.slice(..stored.len().min(1));
    sibling.value = stored.slice(encoding.len()..);
    if encoding.as_ref() != [RAW] {
        sibling.meta.other.push((Bytes::from_static(NOTE_VALUE), encoding));
    }
}

fn put_value(out: &mut Vec<u8>, sibling: &Sibling) {
    let note = sibling.meta.other.iter().find(|(name, _)| name == NOTE_VALUE);
    out.extend_from_slice(note.map_or(&[RAW], |(_, encoding)| encoding.as_ref()));
    out.extend_from_slice(&sibling.value);
}

/// Reads a 32-bit length and that many bytes.
fn sized(cursor: &mut Cursor<'_>) -> Result<Bytes, Truncated> {
    let len = u32::from_be_bytes(cursor.array()?);
    cursor.bytes(len as usize)
}

/// Appends a 32-bit length and the bytes that `put` appends.
#[expect(clippy::indexing_slicing, reason = "the length was appended at `start`")]
fn put_sized(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    put(out);
    let len = u32_len(out.len() - start - 4);
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
}

fn put_u32(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&u32_len(number).to_be_bytes());
}

fn u32_len(len: usize) -> u32 {
    u32::try_from(len).expect("parts of objects are smaller than 4 GiB")
}

#[cfg(test)]
mod tests;
