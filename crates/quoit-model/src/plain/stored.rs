//! Stored form of plain objects, decoded and encoded without an [`Object`](crate::object::Object).

use super::{DotRef, PlainObject};
use crate::codec::{
    CHARSET, COMMON_CONTENT_TYPES, CONTENT_ENCODING, CONTENT_TYPE, DELETED, DOT_EXPLICIT,
    DOT_IN_CLOCK, EXPIRES_AT, INDEXES, KNOWN_FLAGS, LAST_MODIFIED, LINKS, OBJECT_FORMAT_1, OTHER,
    REPLACES, USER_META, VTAG, decode_clock, decode_dot, encode_clock, encode_content_type,
    encode_dot,
};
use crate::cursor::{Cursor, put_counted, put_varint};

/// Flags of parts that a plain object does not have.
const NOT_PLAIN: u16 = DELETED | LINKS | USER_META | INDEXES | OTHER;

/// Decodes a plain object, without its value if `with_value` is false. Returns `None` if the object
/// is not plain, or damaged.
pub(super) fn decode_plain<'a>(
    cursor: &mut Cursor<'a>,
    with_value: bool,
) -> Option<PlainObject<'a>> {
    let clock = decode_clock(cursor).ok()?;
    if cursor.count().ok()? != 1 {
        return None;
    }
    let flags = u16::from_le_bytes(cursor.array().ok()?);
    if flags & (NOT_PLAIN | !KNOWN_FLAGS) != 0 {
        return None;
    }
    let dot = match (flags & DOT_IN_CLOCK != 0, flags & DOT_EXPLICIT != 0) {
        (true, false) => {
            let place = usize::try_from(cursor.varint().ok()?).ok()?;
            clock.entries().get(place)?;
            DotRef::InClock(place)
        }
        (false, true) => DotRef::Explicit(decode_dot(cursor).ok()?),
        _ => return None,
    };
    let mut optional = |flag: u16, read: fn(&mut Cursor<'a>) -> Option<&'a [u8]>| {
        if flags & flag == 0 { Some(None) } else { read(cursor).map(Some) }
    };
    let last_modified_us = optional(LAST_MODIFIED, |cursor| cursor.slice(8).ok())?;
    let vtag = optional(VTAG, |cursor| cursor.counted_slice().ok())?;
    let content_type = optional(CONTENT_TYPE, plain_content_type)?;
    let charset = optional(CHARSET, |cursor| cursor.counted_slice().ok())?;
    let content_encoding = optional(CONTENT_ENCODING, |cursor| cursor.counted_slice().ok())?;
    let expires_at_secs = optional(EXPIRES_AT, |cursor| cursor.slice(4).ok())?;
    let value = if with_value { cursor.counted_slice().ok()? } else { &[] };
    (!with_value || cursor.remaining() == 0).then(|| PlainObject {
        clock,
        dot,
        last_modified_us: last_modified_us
            .and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)))
            .unwrap_or(0),
        vtag: vtag.unwrap_or_default(),
        content_type,
        charset,
        content_encoding,
        expires_at_secs: expires_at_secs
            .and_then(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?))),
        replaces: flags & REPLACES != 0,
        value,
    })
}

fn plain_content_type<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let number = cursor.varint().ok()?;
    let half = usize::try_from(number / 2).ok()?;
    if number % 2 == 0 { cursor.slice(half).ok() } else { COMMON_CONTENT_TYPES.get(half).copied() }
}

/// Appends a plain object.
pub(super) fn encode_plain(object: &PlainObject<'_>, out: &mut Vec<u8>) {
    out.reserve(32 + 128 + object.value.len());
    encode_front(object, out);
    out.extend_from_slice(object.value);
}

/// Appends all of a plain object but the bytes of its value.
#[inline]
pub(super) fn encode_front(object: &PlainObject<'_>, out: &mut Vec<u8>) {
    out.push(OBJECT_FORMAT_1);
    encode_clock(&object.clock, out);
    put_varint(out, 1);
    let flag = |flag: u16, present: bool| if present { flag } else { 0 };
    let flags = match object.dot {
        DotRef::InClock(_) => DOT_IN_CLOCK,
        DotRef::Explicit(_) => DOT_EXPLICIT,
    } | flag(LAST_MODIFIED, object.last_modified_us != 0)
        | flag(VTAG, !object.vtag.is_empty())
        | flag(CONTENT_TYPE, object.content_type.is_some())
        | flag(CHARSET, object.charset.is_some())
        | flag(CONTENT_ENCODING, object.content_encoding.is_some())
        | flag(EXPIRES_AT, object.expires_at_secs.is_some())
        | flag(REPLACES, object.replaces);
    out.extend_from_slice(&flags.to_le_bytes());
    match &object.dot {
        DotRef::InClock(place) => put_varint(out, *place as u64),
        DotRef::Explicit(dot) => encode_dot(dot, out),
    }
    if object.last_modified_us != 0 {
        out.extend_from_slice(&object.last_modified_us.to_le_bytes());
    }
    if !object.vtag.is_empty() {
        put_counted(out, object.vtag);
    }
    if let Some(content_type) = object.content_type {
        encode_content_type(content_type, out);
    }
    for text in [object.charset, object.content_encoding].into_iter().flatten() {
        put_counted(out, text);
    }
    if let Some(expires_at_secs) = object.expires_at_secs {
        out.extend_from_slice(&expires_at_secs.to_le_bytes());
    }
    put_varint(out, object.value.len() as u64);
}
