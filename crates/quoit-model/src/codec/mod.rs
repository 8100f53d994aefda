//! Stored form of objects, format 1, as `docs/design/object-format.md` specifies it byte by byte.
//!
//! The form is a format byte, the clock, and the siblings. A 16-bit word of flags says which fields
//! a sibling has; the value comes last. Decoding copies no value: byte strings of the decoded
//! object are slices of the input. There is no checksum, because the log's records and the
//! internode frames have their own.

use crate::clock::{Actor, Dot, VersionVector};
use crate::cursor::{Cursor, Truncated, put_counted, put_varint};
use crate::object::{Object, Sibling};
use bytes::Bytes;
use smallvec::SmallVec;
use thiserror::Error;

mod rare_metadata;

use rare_metadata::{decode_rare, encode_rare};

/// First byte of the stored form. Riak's forms begin with 53 or 131, so the first byte distinguishes the
/// forms.
pub const OBJECT_FORMAT_1: u8 = 0x51;

pub(crate) const DELETED: u16 = 1 << 0;
pub(crate) const DOT_IN_CLOCK: u16 = 1 << 1;
pub(crate) const DOT_EXPLICIT: u16 = 1 << 2;
pub(crate) const LAST_MODIFIED: u16 = 1 << 3;
pub(crate) const VTAG: u16 = 1 << 4;
pub(crate) const CONTENT_TYPE: u16 = 1 << 5;
pub(crate) const CHARSET: u16 = 1 << 6;
pub(crate) const CONTENT_ENCODING: u16 = 1 << 7;
pub(crate) const LINKS: u16 = 1 << 8;
pub(crate) const USER_META: u16 = 1 << 9;
pub(crate) const INDEXES: u16 = 1 << 10;
pub(crate) const EXPIRES_AT: u16 = 1 << 11;
pub(crate) const OTHER: u16 = 1 << 12;
pub(crate) const REPLACES: u16 = 1 << 13;
pub(crate) const KNOWN_FLAGS: u16 = (1 << 14) - 1;
/// Flags of the fields that most objects lack. One test skips them all.
const RARE: u16 = CHARSET | CONTENT_ENCODING | LINKS | USER_META | INDEXES | EXPIRES_AT | OTHER;

/// Content types that are stored by their position in this table. This saves their bytes and, on
/// each read, a reference to the input. The table is part of the format and must not change.
pub(crate) const COMMON_CONTENT_TYPES: [&[u8]; 12] = [
    b"application/json",
    b"application/octet-stream",
    b"text/plain",
    b"application/x-erlang-binary",
    b"text/html",
    b"application/xml",
    b"text/plain; charset=utf-8",
    b"application/json; charset=utf-8",
    b"application/x-www-form-urlencoded",
    b"application/riak_counter",
    b"image/jpeg",
    b"image/png",
];

/// Error of decoding a stored object.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ObjectError {
    /// The bytes end too early, or a length in them exceeds the bytes that follow.
    #[error("stored object is cut off at byte {at}; restore the record from another replica")]
    Truncated {
        /// Offset in bytes of the field that does not fit.
        at: usize,
    },
    /// A format that this version does not know.
    #[error(
        "stored object has format {format:#04x}, this version reads {OBJECT_FORMAT_1:#04x}; \
         upgrade the node, or import Riak data with `quoit import`"
    )]
    UnknownFormat {
        /// The first byte.
        format: u8,
    },
    /// A field has a value that no encoder writes.
    #[error("stored object has {what} {value} at byte {at}; restore it from another replica")]
    BadField {
        /// Name of the field.
        what: &'static str,
        /// Value of the field.
        value: u64,
        /// Offset in bytes of the end of the field.
        at: usize,
    },
}

impl From<Truncated> for ObjectError {
    fn from(truncated: Truncated) -> Self {
        Self::Truncated { at: truncated.at }
    }
}

impl Object {
    /// Appends the stored form, with one reservation of memory. The bytes depend on the order of
    /// clock entries and siblings, so equal objects need not have equal bytes.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let values: usize = self.siblings.iter().map(|sibling| sibling.value.len() + 128).sum();
        out.reserve(32 + values);
        out.push(OBJECT_FORMAT_1);
        encode_clock(&self.clock, out);
        put_varint(out, self.siblings.len() as u64);
        for sibling in &self.siblings {
            encode_sibling(sibling, &self.clock, out);
        }
    }

    /// As [`Object::encode_into`], but leaves out the bytes of the last value if it has at least
    /// `bytes_min`, and returns them: they are the end of the stored form. Otherwise the result is empty.
    pub fn encode_front_into(&self, bytes_min: usize, out: &mut Vec<u8>) -> Bytes {
        let Some((last, others)) = self.siblings.split_last() else {
            self.encode_into(out);
            return Bytes::new();
        };
        if last.value.is_empty() || last.value.len() < bytes_min {
            self.encode_into(out);
            return Bytes::new();
        }
        let values: usize = others.iter().map(|sibling| sibling.value.len() + 128).sum();
        out.reserve(32 + values + 128);
        out.push(OBJECT_FORMAT_1);
        encode_clock(&self.clock, out);
        put_varint(out, self.siblings.len() as u64);
        for sibling in others {
            encode_sibling(sibling, &self.clock, out);
        }
        encode_sibling_front(last, &self.clock, out);
        last.value.clone()
    }

    /// Decodes the stored form. Values and metadata share `input`. Decoding allocates nothing for
    /// an object of one sibling and at most two clock entries, if its actors have at most 16 bytes
    /// and it has neither links, user metadata, index entries nor other metadata.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are cut off, have another format, or hold a value that no
    /// encoder writes.
    pub fn decode(input: &Bytes) -> Result<Self, ObjectError> {
        let mut cursor = Cursor::new(input);
        // Fields are filled in place, since an object has some 400 bytes and moving it costs as
        // much as decoding it.
        let mut object = Self { clock: decode_clock(&mut cursor)?, siblings: SmallVec::new() };
        let sibling_count = cursor.count()?;
        if sibling_count > 0 {
            object.siblings = SmallVec::from_buf([Sibling::default()]);
        }
        for index in 0..sibling_count {
            if index > 0 {
                object.siblings.push(Sibling::default());
            }
            let sibling = object.siblings.last_mut().expect("one was added");
            decode_sibling(&mut cursor, &object.clock, sibling)?;
        }
        if cursor.remaining() > 0 {
            let value = cursor.remaining() as u64;
            return Err(ObjectError::BadField { what: "surplus bytes:", value, at: cursor.at() });
        }
        Ok(object)
    }

    /// Decodes the clock alone. `input` may be any prefix of the stored form that holds the whole
    /// clock.
    ///
    /// # Errors
    ///
    /// As [`Object::decode`], for the clock.
    pub fn decode_clock(input: &Bytes) -> Result<VersionVector, ObjectError> {
        decode_clock(&mut Cursor::new(input))
    }
}

pub(crate) fn encode_clock(clock: &VersionVector, out: &mut Vec<u8>) {
    put_varint(out, clock.entries().len() as u64);
    for entry in clock.entries() {
        encode_dot(entry, out);
    }
}

pub(crate) fn encode_dot(dot: &Dot, out: &mut Vec<u8>) {
    put_counted(out, &dot.actor.0);
    put_varint(out, dot.counter);
    put_varint(out, dot.time_secs);
}

pub(crate) fn decode_clock(cursor: &mut Cursor<'_>) -> Result<VersionVector, ObjectError> {
    let format = cursor.u8()?;
    if format != OBJECT_FORMAT_1 {
        return Err(ObjectError::UnknownFormat { format });
    }
    let entry_count = cursor.count()?;
    let mut entries = SmallVec::new();
    for _ in 0..entry_count {
        entries.push(decode_dot(cursor)?);
    }
    VersionVector::from_distinct(entries).ok_or(ObjectError::BadField {
        what: "an actor twice in its clock, entries:",
        value: entry_count as u64,
        at: cursor.at(),
    })
}

#[inline]
pub(crate) fn decode_dot(cursor: &mut Cursor<'_>) -> Result<Dot, ObjectError> {
    let actor = Actor(SmallVec::from_slice(cursor.counted_slice()?));
    let counter = cursor.varint()?;
    if counter == 0 {
        return Err(ObjectError::BadField { what: "counter", value: 0, at: cursor.at() });
    }
    Ok(Dot { actor, counter, time_secs: cursor.varint()? })
}

fn flags_of(sibling: &Sibling, dot_in_clock: Option<usize>) -> u16 {
    let meta = &sibling.meta;
    let present = [
        (DELETED, sibling.deleted),
        (DOT_IN_CLOCK, dot_in_clock.is_some()),
        (DOT_EXPLICIT, sibling.dot.is_some() && dot_in_clock.is_none()),
        (LAST_MODIFIED, sibling.last_modified_us != 0),
        (VTAG, !sibling.vtag.is_empty()),
        (CONTENT_TYPE, meta.content_type.is_some()),
        (CHARSET, meta.charset.is_some()),
        (CONTENT_ENCODING, meta.content_encoding.is_some()),
        (LINKS, !meta.links.is_empty()),
        (USER_META, !meta.user_meta.is_empty()),
        (INDEXES, !meta.indexes.is_empty()),
        (EXPIRES_AT, meta.expires_at_secs.is_some()),
        (OTHER, !meta.other.is_empty()),
        (REPLACES, meta.replaces),
    ];
    present.iter().filter(|(_, present)| *present).fold(0, |flags, (flag, _)| flags | flag)
}

pub(crate) fn encode_sibling(sibling: &Sibling, clock: &VersionVector, out: &mut Vec<u8>) {
    encode_sibling_front(sibling, clock, out);
    out.extend_from_slice(&sibling.value);
}

/// Appends all of a sibling except the bytes of its value.
#[inline]
fn encode_sibling_front(sibling: &Sibling, clock: &VersionVector, out: &mut Vec<u8>) {
    let dot_in_clock = sibling.dot.as_ref().and_then(|dot| {
        let same = |entry: &Dot| entry == dot && entry.time_secs == dot.time_secs;
        clock.entries().iter().position(same)
    });
    let flags = flags_of(sibling, dot_in_clock);
    out.extend_from_slice(&flags.to_le_bytes());
    match (&sibling.dot, dot_in_clock) {
        (_, Some(index)) => put_varint(out, index as u64),
        (Some(dot), None) => encode_dot(dot, out),
        (None, None) => {}
    }
    if flags & LAST_MODIFIED != 0 {
        out.extend_from_slice(&sibling.last_modified_us.to_le_bytes());
    }
    if flags & VTAG != 0 {
        put_counted(out, &sibling.vtag);
    }
    if let Some(content_type) = &sibling.meta.content_type {
        encode_content_type(content_type, out);
    }
    if flags & RARE != 0 {
        encode_rare(&sibling.meta, out);
    }
    put_varint(out, sibling.value.len() as u64);
}

/// Appends a content type: a varint that is odd for a position in the table (twice the position
/// plus one), or even for a type that follows in full (twice its length).
pub(crate) fn encode_content_type(content_type: &[u8], out: &mut Vec<u8>) {
    match COMMON_CONTENT_TYPES.iter().position(|common| *common == content_type) {
        Some(place) => put_varint(out, place as u64 * 2 + 1),
        None => {
            put_varint(out, content_type.len() as u64 * 2);
            out.extend_from_slice(content_type);
        }
    }
}

#[inline]
fn decode_content_type(cursor: &mut Cursor<'_>) -> Result<Bytes, ObjectError> {
    let number = cursor.varint()?;
    let half = usize::try_from(number / 2).unwrap_or(usize::MAX);
    if number % 2 == 0 {
        return Ok(cursor.bytes(half)?);
    }
    let common = COMMON_CONTENT_TYPES.get(half).copied();
    let bad = ObjectError::BadField { what: "content type", value: number, at: cursor.at() };
    common.map(Bytes::from_static).ok_or(bad)
}

#[inline]
fn decode_sibling(
    cursor: &mut Cursor<'_>,
    clock: &VersionVector,
    sibling: &mut Sibling,
) -> Result<(), ObjectError> {
    decode_description(cursor, clock, sibling)?;
    sibling.value = cursor.counted_bytes()?;
    Ok(())
}

/// Decodes all fields of a sibling except its value.
#[inline]
pub(crate) fn decode_description(
    cursor: &mut Cursor<'_>,
    clock: &VersionVector,
    sibling: &mut Sibling,
) -> Result<(), ObjectError> {
    let flags = u16::from_le_bytes(cursor.array()?);
    let two_dots = DOT_IN_CLOCK | DOT_EXPLICIT;
    if flags & !KNOWN_FLAGS != 0 || flags & two_dots == two_dots {
        let value = u64::from(flags);
        return Err(ObjectError::BadField { what: "sibling flags", value, at: cursor.at() });
    }
    sibling.deleted = flags & DELETED != 0;
    sibling.meta.replaces = flags & REPLACES != 0;
    if flags & DOT_IN_CLOCK != 0 {
        let index = cursor.varint()?;
        let entry = usize::try_from(index).ok().and_then(|index| clock.entries().get(index));
        let bad = ObjectError::BadField { what: "dot index", value: index, at: cursor.at() };
        sibling.dot = Some(entry.ok_or(bad)?.clone());
    } else if flags & DOT_EXPLICIT != 0 {
        sibling.dot = Some(decode_dot(cursor)?);
    }
    if flags & LAST_MODIFIED != 0 {
        sibling.last_modified_us = u64::from_le_bytes(cursor.array()?);
    }
    if flags & VTAG != 0 {
        sibling.vtag = cursor.counted_bytes()?;
    }
    if flags & CONTENT_TYPE != 0 {
        sibling.meta.content_type = Some(decode_content_type(cursor)?);
    }
    if flags & RARE != 0 {
        decode_rare(cursor, flags, &mut sibling.meta)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
