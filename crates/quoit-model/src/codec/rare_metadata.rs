//! Stored form of the metadata that few siblings have: links, user metadata, index entries and the
//! like.

use super::{CHARSET, CONTENT_ENCODING, EXPIRES_AT, INDEXES, LINKS, OTHER, ObjectError, USER_META};
use crate::cursor::{Cursor, put_counted, put_varint};
use crate::index_integer::IndexInteger;
use crate::object::{IndexEntry, IndexTerm, Link, Metadata, UserMeta, UserMetaForm};
use bytes::Bytes;

const USER_META_TEXT: u8 = 1;
const USER_META_HAS_VALUE: u8 = 2;

const TERM_SMALL_INTEGER: u8 = 0;
const TERM_BINARY: u8 = 1;
const TERM_LARGE_INTEGER: u8 = 2;
const TERM_HUGE_BELOW_ZERO: u8 = 3;
const TERM_HUGE_ABOVE_ZERO: u8 = 4;

pub(super) fn encode_rare(meta: &Metadata, out: &mut Vec<u8>) {
    for text in [&meta.charset, &meta.content_encoding].into_iter().flatten() {
        put_counted(out, text);
    }
    put_list(out, &meta.links, |out, link| {
        put_counted(out, &link.bucket);
        put_counted(out, &link.key);
        put_counted(out, &link.tag);
    });
    put_list(out, &meta.user_meta, |out, pair| {
        let text = if pair.form == UserMetaForm::Text { USER_META_TEXT } else { 0 };
        let has_value = if pair.value.is_some() { USER_META_HAS_VALUE } else { 0 };
        out.push(text | has_value);
        put_counted(out, &pair.name);
        if let Some(value) = &pair.value {
            put_counted(out, value);
        }
    });
    put_list(out, &meta.indexes, |out, entry| {
        put_counted(out, &entry.field);
        encode_term(&entry.term, out);
    });
    if let Some(expires_at_secs) = meta.expires_at_secs {
        out.extend_from_slice(&expires_at_secs.to_le_bytes());
    }
    put_list(out, &meta.other, |out, (name, value)| {
        put_counted(out, name);
        put_counted(out, value);
    });
}

fn put_list<T>(out: &mut Vec<u8>, list: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    if list.is_empty() {
        return;
    }
    put_varint(out, list.len() as u64);
    for item in list {
        put(out, item);
    }
}

fn encode_term(term: &IndexTerm, out: &mut Vec<u8>) {
    match term {
        IndexTerm::Binary(binary) => {
            out.push(TERM_BINARY);
            put_counted(out, binary);
        }
        IndexTerm::Integer(integer) => encode_integer(integer, out),
    }
}

fn encode_integer(integer: &IndexInteger, out: &mut Vec<u8>) {
    let Some(number) = integer.to_i128() else {
        let (is_negative, magnitude) = integer.sign_and_magnitude();
        out.push(if is_negative { TERM_HUGE_BELOW_ZERO } else { TERM_HUGE_ABOVE_ZERO });
        put_counted(out, &magnitude);
        return;
    };
    match i64::try_from(number) {
        Ok(small) => {
            out.push(TERM_SMALL_INTEGER);
            put_varint(out, ((small << 1) ^ (small >> 63)).cast_unsigned());
        }
        Err(_) => {
            out.push(TERM_LARGE_INTEGER);
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
}

pub(super) fn decode_rare(
    cursor: &mut Cursor<'_>,
    flags: u16,
    meta: &mut Metadata,
) -> Result<(), ObjectError> {
    meta.charset = optional(cursor, flags, CHARSET)?;
    meta.content_encoding = optional(cursor, flags, CONTENT_ENCODING)?;
    if flags & LINKS != 0 {
        meta.links = decode_list(cursor, |cursor| {
            Ok(Link {
                bucket: cursor.counted_bytes()?,
                key: cursor.counted_bytes()?,
                tag: cursor.counted_bytes()?,
            })
        })?;
    }
    if flags & USER_META != 0 {
        meta.user_meta = decode_list(cursor, decode_user_meta)?;
    }
    if flags & INDEXES != 0 {
        meta.indexes = decode_list(cursor, |cursor| {
            Ok(IndexEntry { field: cursor.counted_bytes()?, term: decode_term(cursor)? })
        })?;
    }
    if flags & EXPIRES_AT != 0 {
        meta.expires_at_secs = Some(u32::from_le_bytes(cursor.array()?));
    }
    if flags & OTHER != 0 {
        meta.other =
            decode_list(cursor, |cursor| Ok((cursor.counted_bytes()?, cursor.counted_bytes()?)))?;
    }
    Ok(())
}

#[inline]
fn optional(cursor: &mut Cursor<'_>, flags: u16, flag: u16) -> Result<Option<Bytes>, ObjectError> {
    if flags & flag == 0 { Ok(None) } else { Ok(Some(cursor.counted_bytes()?)) }
}

/// Decodes a list. It reserves no memory by the count, which damaged input may state wrongly.
fn decode_list<'a, T>(
    cursor: &mut Cursor<'a>,
    read: impl Fn(&mut Cursor<'a>) -> Result<T, ObjectError>,
) -> Result<Vec<T>, ObjectError> {
    let count = cursor.count()?;
    if count == 0 {
        return Err(ObjectError::BadField { what: "list length", value: 0, at: cursor.at() });
    }
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(read(cursor)?);
    }
    Ok(list)
}

fn decode_user_meta(cursor: &mut Cursor<'_>) -> Result<UserMeta, ObjectError> {
    let flags = cursor.u8()?;
    if flags & !(USER_META_TEXT | USER_META_HAS_VALUE) != 0 {
        let value = u64::from(flags);
        return Err(ObjectError::BadField { what: "user metadata flags", value, at: cursor.at() });
    }
    let text = flags & USER_META_TEXT != 0;
    let form = if text { UserMetaForm::Text } else { UserMetaForm::Binary };
    let name = cursor.counted_bytes()?;
    let has_value = flags & USER_META_HAS_VALUE != 0;
    let value = if has_value { Some(cursor.counted_bytes()?) } else { None };
    Ok(UserMeta { name, value, form })
}

fn decode_term(cursor: &mut Cursor<'_>) -> Result<IndexTerm, ObjectError> {
    match cursor.u8()? {
        TERM_SMALL_INTEGER => {
            let folded = cursor.varint()?;
            let small = (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed();
            Ok(IndexTerm::integer(small.into()))
        }
        TERM_BINARY => Ok(IndexTerm::Binary(cursor.counted_bytes()?)),
        TERM_LARGE_INTEGER => Ok(IndexTerm::integer(i128::from_le_bytes(cursor.array()?))),
        tag @ (TERM_HUGE_BELOW_ZERO | TERM_HUGE_ABOVE_ZERO) => {
            let magnitude = cursor.counted_slice()?;
            let is_negative = tag == TERM_HUGE_BELOW_ZERO;
            match IndexInteger::from_sign_and_magnitude(is_negative, magnitude) {
                Some(number) if number.to_i128().is_none() => Ok(IndexTerm::Integer(number)),
                _ => {
                    let value = magnitude.len() as u64;
                    Err(ObjectError::BadField { what: "index integer", value, at: cursor.at() })
                }
            }
        }
        tag => {
            let value = u64::from(tag);
            Err(ObjectError::BadField { what: "index term tag", value, at: cursor.at() })
        }
    }
}
