//! Metadata of a sibling in version 1: a fixed head, then entries in the order of an Erlang `dict`.

use super::{RAW, TERM, put_sized, sized};
use crate::cursor::{Cursor, Truncated};
use crate::etf::{
    ETF_VERSION, Limits, Term, put_big, put_binary, put_integer, put_list_header, put_nil,
    put_term, put_text, put_tuple_header,
};
use crate::index_integer::IndexInteger;
use crate::object::{IndexEntry, IndexTerm, Link, Metadata, Sibling, UserMeta, UserMetaForm};
use crate::riak_clock::{dot_of_term, encode_riak_dot};
use bytes::Bytes;
use quoit_number::low_u32;

/// Note of the order of entries: for each an index into [`FIELDS`], or [`OTHER`] for the next entry
/// of `other`.
const NOTE_ORDER: &[u8] = b"o";
/// Note of the whole metadata, if the other notes can't reproduce it.
const NOTE_RAW: &[u8] = b"r";
const OTHER: u8 = 255;

/// Flag in the stored time of expiry, for a value that has not replaced another.
const REPLACES_NOTHING: u64 = 1 << 32;

/// Riak's vtag of an object without one.
const NO_VTAG: &[u8] = b"e";

/// An entry that has a field.
#[derive(Clone, Copy, PartialEq, Debug)]
enum MetaField {
    Charset,
    UserMeta,
    Indexes,
    ContentType,
    ExpiresAt,
    Dot,
    ContentEncoding,
    Links,
}

/// Fields and names of the entries, in the order in which Riak writes them.
const FIELDS: [(MetaField, &[u8]); 8] = [
    (MetaField::Charset, b"charset"),
    (MetaField::UserMeta, b"X-Riak-Meta"),
    (MetaField::Indexes, b"index"),
    (MetaField::ContentType, b"content-type"),
    (MetaField::ExpiresAt, b"X-Quoit-Expires-At"),
    (MetaField::Dot, b"dot"),
    (MetaField::ContentEncoding, b"content-encoding"),
    (MetaField::Links, b"Links"),
];

/// Decodes metadata to a sibling without a value.
pub(super) fn decode(stored: &Bytes) -> Result<Sibling, Truncated> {
    let (mut sibling, order) = decode_fields(stored)?;
    if order != default_order(&sibling) {
        sibling.meta.other.push((Bytes::from_static(NOTE_ORDER), order.into()));
    }
    let mut written = Vec::with_capacity(stored.len());
    encode_fields(&sibling, &mut written);
    if written != *stored {
        sibling.meta.other.push((Bytes::from_static(NOTE_RAW), stored.clone()));
    }
    Ok(sibling)
}

/// Appends the metadata; if it was read and did not change, the same bytes.
pub(super) fn encode(sibling: &Sibling, out: &mut Vec<u8>) {
    match raw_note(sibling) {
        Some(stored) => out.extend_from_slice(stored),
        None => encode_fields(sibling, out),
    }
}

/// The note of the whole metadata, if the sibling has not changed since.
fn raw_note(sibling: &Sibling) -> Option<&Bytes> {
    let (_, stored) = sibling.meta.other.iter().find(|(name, _)| name == NOTE_RAW)?;
    let mut read = decode(stored).ok()?;
    read.value = sibling.value.clone();
    let value_note = sibling.meta.other.iter().filter(|(name, _)| name == super::NOTE_VALUE);
    read.meta.other.extend(value_note.cloned());
    let time = |sibling: &Sibling| sibling.dot.as_ref().map(|dot| dot.time_secs);
    (read == *sibling && time(&read) == time(sibling)).then_some(stored)
}

/// Decodes head and entries. Returns the order of the entries, too.
fn decode_fields(stored: &Bytes) -> Result<(Sibling, Vec<u8>), Truncated> {
    let mut cursor = Cursor::new(stored);
    let [mega, secs, micros] = [be_u32(&mut cursor)?, be_u32(&mut cursor)?, be_u32(&mut cursor)?];
    let vtag_len = cursor.u8()?;
    let vtag = cursor.bytes(vtag_len.into())?;
    let mut sibling = Sibling {
        last_modified_us: (mega * 1_000_000 + secs)
            .saturating_mul(1_000_000)
            .saturating_add(micros),
        vtag: if vtag.as_ref() == NO_VTAG { Bytes::new() } else { vtag },
        deleted: cursor.u8()? != 0,
        ..Sibling::default()
    };
    let mut order = Vec::new();
    while cursor.remaining() > 0 {
        let (name, value) = (sized(&mut cursor)?, sized(&mut cursor)?);
        order.push(set_entry(&mut sibling, name, value));
    }
    Ok((sibling, order))
}

fn be_u32(cursor: &mut Cursor<'_>) -> Result<u64, Truncated> {
    Ok(u32::from_be_bytes(cursor.array()?).into())
}

/// Stores an entry, given by encoded name and value, in its field, or in `other` if it has no field
/// or can't be understood. Returns its byte for [`NOTE_ORDER`].
pub(super) fn set_entry(sibling: &mut Sibling, name: Bytes, value: Bytes) -> u8 {
    let found = FIELDS.iter().zip(0u8..).find(|((_, field), _)| {
        name.split_first().is_some_and(|(encoding, name)| *encoding == RAW && name == *field)
    });
    if let Some(((field, _), place)) = found
        && set_field(sibling, *field, &value).is_some()
    {
        return place;
    }
    // A name without an encoding byte could be mistaken for a note. Such an entry is only in the
    // note of the whole metadata.
    if name.first().is_some_and(|encoding| [RAW, TERM].contains(encoding)) {
        sibling.meta.other.push((name, value));
    }
    OTHER
}

/// Sets a field that is not set yet. Returns `None` if it is set, or the stored value does not suit
/// it.
fn set_field(sibling: &mut Sibling, field: MetaField, stored: &Bytes) -> Option<()> {
    let meta = &mut sibling.meta;
    match field {
        MetaField::ContentType => set_once(&mut meta.content_type, text_of(stored)?),
        MetaField::Charset => set_once(&mut meta.charset, text_of(stored)?),
        MetaField::ContentEncoding => set_once(&mut meta.content_encoding, text_of(stored)?),
        MetaField::ExpiresAt => {
            let time = term_of(stored)?.as_u64()?;
            let secs = u32::try_from(time & !REPLACES_NOTHING).ok()?;
            set_once(&mut meta.expires_at_secs, secs)?;
            meta.replaces = time & REPLACES_NOTHING == 0;
            Some(())
        }
        MetaField::Dot => set_once(&mut sibling.dot, dot_of_term(&term_of(stored)?)?),
        MetaField::UserMeta => set_list(&mut meta.user_meta, stored, user_meta_of),
        MetaField::Indexes => set_list(&mut meta.indexes, stored, index_of),
        MetaField::Links => set_list(&mut meta.links, stored, link_of),
    }
}

fn set_once<T>(field: &mut Option<T>, value: T) -> Option<()> {
    field.is_none().then(|| *field = Some(value))
}

fn set_list<T>(
    field: &mut Vec<T>,
    stored: &Bytes,
    item: impl Fn(&Term) -> Option<T>,
) -> Option<()> {
    let items = term_of(stored)?.as_list()?.iter().map(item).collect::<Option<_>>()?;
    field.is_empty().then(|| *field = items)
}

fn term_of(stored: &Bytes) -> Option<Term> {
    let term = stored.first().is_some_and(|encoding| *encoding == TERM);
    term.then(|| Term::decode(&stored.slice(1..), &Limits::STORED).ok()).flatten()
}

/// Decodes a text: an Erlang string or, in some old objects, a binary.
fn text_of(stored: &Bytes) -> Option<Bytes> {
    match stored.first()? {
        &RAW => Some(stored.slice(1..)),
        _ => {
            let term = term_of(stored)?;
            term.to_text().or_else(|| term.as_binary().cloned())
        }
    }
}

fn user_meta_of(term: &Term) -> Option<UserMeta> {
    let [name, value] = term.as_tuple()?;
    let any_text = |term: &Term| term.as_binary().cloned().or_else(|| term.to_text());
    let value = if value.is_atom(b"undefined") { None } else { Some(any_text(value)?) };
    let binary = name.as_binary().is_some();
    let form = if binary { UserMetaForm::Binary } else { UserMetaForm::Text };
    Some(UserMeta { name: any_text(name)?, value, form })
}

fn index_of(term: &Term) -> Option<IndexEntry> {
    let [field, term] = term.as_tuple()?;
    let term = match term {
        Term::Integer(integer) => IndexTerm::integer(*integer),
        Term::BigInteger { negative, magnitude } => {
            IndexTerm::Integer(IndexInteger::from_sign_and_magnitude(*negative, magnitude)?)
        }
        term => IndexTerm::Binary(term.as_binary()?.clone()),
    };
    Some(IndexEntry { field: field.as_binary()?.clone(), term })
}

fn link_of(term: &Term) -> Option<Link> {
    let [target, tag] = term.as_tuple()?;
    let [bucket, key] = target.as_tuple()?;
    Some(Link {
        bucket: bucket.as_binary()?.clone(),
        key: key.as_binary()?.clone(),
        tag: tag.as_binary()?.clone(),
    })
}

fn notes_apart(meta: &Metadata) -> impl Iterator<Item = &(Bytes, Bytes)> {
    let is_entry = |name: &Bytes| name.first().is_some_and(|first| [RAW, TERM].contains(first));
    meta.other.iter().filter(move |(name, _)| is_entry(name))
}

/// Order of the entries if there is no note: that of an Erlang `dict` of 16 slots, from the highest
/// slot to the lowest. Riak always writes the index entries, even if there are none.
fn default_order(sibling: &Sibling) -> Vec<u8> {
    let meta = &sibling.meta;
    let mut entries: Vec<(u32, u8)> = Vec::new();
    for ((field, name), place) in FIELDS.iter().zip(0u8..) {
        let present = match field {
            MetaField::Charset => meta.charset.is_some(),
            MetaField::UserMeta => !meta.user_meta.is_empty(),
            MetaField::Indexes => true,
            MetaField::ContentType => meta.content_type.is_some(),
            MetaField::ExpiresAt => meta.expires_at_secs.is_some(),
            MetaField::Dot => sibling.dot.is_some(),
            MetaField::ContentEncoding => meta.content_encoding.is_some(),
            MetaField::Links => !meta.links.is_empty(),
        };
        if present {
            entries.push((dict_slot(name), place));
        }
    }
    let others = notes_apart(meta).filter_map(|(name, _)| name.split_first());
    entries.extend(others.map(|(_, name)| (dict_slot(name), OTHER)));
    entries.sort_by_key(|(slot, _)| std::cmp::Reverse(*slot));
    entries.into_iter().map(|(_, place)| place).collect()
}

/// Slot of a binary in an Erlang `dict` of up to 80 entries: `erlang:phash(Name, 16)`.
fn dict_slot(name: &[u8]) -> u32 {
    const BYTE_FACTOR: u32 = 268_440_163;
    const LENGTH_FACTOR: u32 = 268_436_141;
    let byte = |hash: u32, byte: &u8| hash.wrapping_mul(BYTE_FACTOR).wrapping_add((*byte).into());
    let bytes = name.iter().fold(0, byte);
    bytes.wrapping_mul(LENGTH_FACTOR).wrapping_add(low_u32(name.len() as u64)) % 16 + 1
}

fn encode_fields(sibling: &Sibling, out: &mut Vec<u8>) {
    let secs = sibling.last_modified_us / 1_000_000;
    let time = [secs / 1_000_000, secs % 1_000_000, sibling.last_modified_us % 1_000_000];
    for part in time {
        // Megaseconds of a 64-bit number of microseconds are below 2^25.
        out.extend_from_slice(&low_u32(part).to_be_bytes());
    }
    let vtag = if sibling.vtag.is_empty() { NO_VTAG } else { &sibling.vtag };
    // Tags have 22 characters. A longer tag from elsewhere is cut to fit its length byte.
    let length = u8::try_from(vtag.len()).unwrap_or(u8::MAX);
    out.push(length);
    out.extend_from_slice(vtag.get(..usize::from(length)).unwrap_or(vtag));
    out.push(sibling.deleted.into());
    let note = sibling.meta.other.iter().find(|(name, _)| name == NOTE_ORDER);
    let order = note.map_or_else(|| default_order(sibling), |(_, order)| order.to_vec());
    let mut others = notes_apart(&sibling.meta);
    for place in order {
        match FIELDS.get(usize::from(place)) {
            Some((field, name)) => put_field(out, sibling, *field, name),
            None => {
                if let Some((name, value)) = others.next() {
                    put_sized(out, |out| out.extend_from_slice(name));
                    put_sized(out, |out| out.extend_from_slice(value));
                }
            }
        }
    }
}

fn put_field(out: &mut Vec<u8>, sibling: &Sibling, field: MetaField, name: &[u8]) {
    let meta = &sibling.meta;
    let mut value = vec![TERM, ETF_VERSION];
    match field {
        MetaField::Charset => put_text(&mut value, meta.charset.as_deref().unwrap_or_default()),
        MetaField::ContentType => {
            put_text(&mut value, meta.content_type.as_deref().unwrap_or_default());
        }
        MetaField::ContentEncoding => {
            put_text(&mut value, meta.content_encoding.as_deref().unwrap_or_default());
        }
        MetaField::ExpiresAt => {
            let secs = u64::from(meta.expires_at_secs.unwrap_or(0));
            let flag = if meta.replaces { 0 } else { REPLACES_NOTHING };
            put_integer(&mut value, (secs | flag).into());
        }
        MetaField::Dot => {
            value.truncate(1);
            sibling.dot.iter().for_each(|dot| encode_riak_dot(dot, &mut value));
        }
        MetaField::UserMeta => put_items(&mut value, &meta.user_meta, put_user_meta),
        MetaField::Indexes => put_items(&mut value, &meta.indexes, |out, entry| {
            put_tuple_header(out, 2);
            put_binary(out, &entry.field);
            match &entry.term {
                IndexTerm::Integer(integer) => match integer.to_i128() {
                    Some(small) => put_integer(out, small),
                    None => {
                        let (negative, magnitude) = integer.sign_and_magnitude();
                        put_big(out, negative, &magnitude);
                    }
                },
                IndexTerm::Binary(binary) => put_binary(out, binary),
            }
        }),
        MetaField::Links => put_items(&mut value, &meta.links, |out, link| {
            put_tuple_header(out, 2);
            put_tuple_header(out, 2);
            put_binary(out, &link.bucket);
            put_binary(out, &link.key);
            put_binary(out, &link.tag);
        }),
    }
    put_sized(out, |out| {
        out.push(RAW);
        out.extend_from_slice(name);
    });
    put_sized(out, |out| out.extend_from_slice(&value));
}

fn put_items<T>(out: &mut Vec<u8>, items: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    if !items.is_empty() {
        put_list_header(out, items.len());
        items.iter().for_each(|item| put(out, item));
    }
    put_nil(out);
}

fn put_user_meta(out: &mut Vec<u8>, pair: &UserMeta) {
    let put = match pair.form {
        UserMetaForm::Binary => put_binary,
        UserMetaForm::Text => put_text,
    };
    put_tuple_header(out, 2);
    put(out, &pair.name);
    match &pair.value {
        Some(value) => put(out, value),
        None => put_term(out, &Term::Atom(Bytes::from_static(b"undefined"))),
    }
}
