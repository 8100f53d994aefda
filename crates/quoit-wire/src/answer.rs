//! Answers that contain objects, encoded from borrowed parts.
//!
//! The parts of an object are usually in other buffers. Building an
//! [`RpbGetResp`](crate::messages::RpbGetResp) first would take an allocation for its content and a
//! reference count for each part. These functions write the same bytes without either.

use crate::code::MessageCode;
use crate::error::FrameError;
use crate::frame::{
    LENGTH_SIZE_BYTES, WriteBuffer, append_empty, append_frame, length_field, set_length,
};
use crate::messages::{RpbContent, RpbLink, RpbPair};
use crate::shared::{SHARED_BYTES_MIN, SharedParts};
use bytes::{BufMut, Bytes};
use prost::encoding::{WireType, encode_varint, encoded_len_varint, message};
use quoit_number::low_u8;

/// A value with its metadata, borrowed; see [`RpbContent`](crate::messages::RpbContent).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ContentRef<'a> {
    /// The bytes of the value; empty for tombstones, and if only the metadata was requested.
    pub value: &'a [u8],
    /// MIME type.
    pub content_type: Option<&'a [u8]>,
    /// Character set.
    pub charset: Option<&'a [u8]>,
    /// Encoding of the value.
    pub content_encoding: Option<&'a [u8]>,
    /// The sibling's tag.
    pub vtag: Option<&'a [u8]>,
    /// Links.
    pub links: &'a [RpbLink],
    /// Time of the write in seconds since 1970.
    pub last_mod: Option<u32>,
    /// Microseconds within that second, 0 to 999999.
    pub last_mod_usecs: Option<u32>,
    /// User metadata.
    pub usermeta: &'a [RpbPair],
    /// Index entries.
    pub indexes: &'a [RpbPair],
    /// True for a tombstone; false is not sent.
    pub deleted: bool,
}

/// The fields of an answer beside its siblings.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AnswerFields<'a> {
    /// The causal context.
    pub vclock: Option<&'a [u8]>,
    /// The key, if the server generated it. Only answers to puts have it.
    pub key: Option<&'a [u8]>,
}

/// Appends the frame of an [`RpbGetResp`](crate::messages::RpbGetResp) with these siblings.
///
/// An answer without siblings and context means that the object does not exist. Costs one copy of
/// the parts; allocates only if the buffer has to grow.
///
/// # Errors
///
/// Returns [`FrameError::TooLarge`] if the answer exceeds the maximum size of a frame. The buffer
/// is then unchanged.
pub fn append_get_resp<'a>(
    buffer: &mut impl WriteBuffer,
    content: impl IntoIterator<Item = ContentRef<'a>>,
    vclock: Option<&[u8]>,
) -> Result<(), FrameError> {
    append_object(buffer, MessageCode::GetResp, content, AnswerFields { vclock, key: None })
}

/// Appends the frame of an [`RpbPutResp`](crate::messages::RpbPutResp) with these siblings.
///
/// # Errors
///
/// As [`append_get_resp`].
pub fn append_put_resp<'a>(
    buffer: &mut impl WriteBuffer,
    content: impl IntoIterator<Item = ContentRef<'a>>,
    fields: AnswerFields<'_>,
) -> Result<(), FrameError> {
    append_object(buffer, MessageCode::PutResp, content, fields)
}

/// As [`append_get_resp`], but values of [`SHARED_BYTES_MIN`] and more are appended to `shared`, each a
/// reference to the buffer that comes with its content.
///
/// # Errors
///
/// As [`append_get_resp`]. `shared` is then unchanged as well.
pub fn append_get_resp_shared<'a>(
    out: (&mut Vec<u8>, &mut SharedParts),
    content: impl IntoIterator<Item = (ContentRef<'a>, Bytes)>,
    vclock: Option<&[u8]>,
) -> Result<(), FrameError> {
    let fields = AnswerFields { vclock, key: None };
    append_object_shared(out, MessageCode::GetResp, content, fields)
}

/// As [`append_put_resp`], with shared values like those of [`append_get_resp_shared`].
///
/// # Errors
///
/// As [`append_get_resp_shared`].
pub fn append_put_resp_shared<'a>(
    out: (&mut Vec<u8>, &mut SharedParts),
    content: impl IntoIterator<Item = (ContentRef<'a>, Bytes)>,
    fields: AnswerFields<'_>,
) -> Result<(), FrameError> {
    append_object_shared(out, MessageCode::PutResp, content, fields)
}

/// Appends either answer with shared values.
fn append_object_shared<'a>(
    (buffer, shared): (&mut Vec<u8>, &mut SharedParts),
    code: MessageCode,
    content: impl IntoIterator<Item = (ContentRef<'a>, Bytes)>,
    fields: AnswerFields<'_>,
) -> Result<(), FrameError> {
    let (start, shared_count, shared_bytes) = (buffer.len(), shared.count(), shared.size_bytes());
    append_empty(buffer, code);
    for (content, value) in content {
        debug_assert_eq!(content.value, value, "a content comes with its value");
        put_key_and_varint(buffer, 1, WireType::LengthDelimited, content.encoded_len() as u64);
        if value.len() < SHARED_BYTES_MIN {
            content.encode(buffer);
        } else {
            put_key_and_varint(buffer, 1, WireType::LengthDelimited, value.len() as u64);
            shared.push(buffer.len(), value);
            content.encode_description(buffer);
        }
    }
    put_bytes(buffer, 2, fields.vclock);
    put_bytes(buffer, 3, fields.key);
    let length_bytes =
        buffer.len() - start - LENGTH_SIZE_BYTES + shared.size_bytes() - shared_bytes;
    let length = length_field(length_bytes).inspect_err(|_| {
        buffer.truncate(start);
        shared.truncate(shared_count);
    })?;
    set_length(buffer, start, length);
    Ok(())
}

/// Appends either answer. Their common fields have the same tags.
fn append_object<'a>(
    buffer: &mut impl WriteBuffer,
    code: MessageCode,
    content: impl IntoIterator<Item = ContentRef<'a>>,
    fields: AnswerFields<'_>,
) -> Result<(), FrameError> {
    append_frame(buffer, code, |buffer| {
        for content in content {
            put_key_and_varint(buffer, 1, WireType::LengthDelimited, content.encoded_len() as u64);
            content.encode(buffer);
        }
        put_bytes(buffer, 2, fields.vclock);
        put_bytes(buffer, 3, fields.key);
    })
}

impl<'a> From<&'a RpbContent> for ContentRef<'a> {
    fn from(content: &'a RpbContent) -> Self {
        Self {
            value: &content.value,
            content_type: content.content_type.as_deref(),
            charset: content.charset.as_deref(),
            content_encoding: content.content_encoding.as_deref(),
            vtag: content.vtag.as_deref(),
            links: &content.links,
            last_mod: content.last_mod,
            last_mod_usecs: content.last_mod_usecs,
            usermeta: &content.usermeta,
            indexes: &content.indexes,
            deleted: content.deleted == Some(true),
        }
    }
}

impl ContentRef<'_> {
    fn encoded_len(&self) -> usize {
        bytes_len(Some(self.value))
            + bytes_len(self.content_type)
            + bytes_len(self.charset)
            + bytes_len(self.content_encoding)
            + bytes_len(self.vtag)
            + message::encoded_len_repeated(6, self.links)
            + varint_len(self.last_mod)
            + varint_len(self.last_mod_usecs)
            + message::encoded_len_repeated(9, self.usermeta)
            + message::encoded_len_repeated(10, self.indexes)
            + if self.deleted { 2 } else { 0 }
    }

    #[inline]
    fn encode(&self, buffer: &mut impl BufMut) {
        put_bytes(buffer, 1, Some(self.value));
        self.encode_description(buffer);
    }

    /// Appends all fields but the value.
    #[inline]
    fn encode_description(&self, buffer: &mut impl BufMut) {
        put_bytes(buffer, 2, self.content_type);
        put_bytes(buffer, 3, self.charset);
        put_bytes(buffer, 4, self.content_encoding);
        put_bytes(buffer, 5, self.vtag);
        message::encode_repeated(6, self.links, buffer);
        put_varint(buffer, 7, self.last_mod);
        put_varint(buffer, 8, self.last_mod_usecs);
        message::encode_repeated(9, self.usermeta, buffer);
        message::encode_repeated(10, self.indexes, buffer);
        put_varint(buffer, 11, self.deleted.then_some(1));
    }
}

// All tags here are below 16, so the key of a field takes one byte.

fn bytes_len(field: Option<&[u8]>) -> usize {
    field.map_or(0, |bytes| 1 + encoded_len_varint(bytes.len() as u64) + bytes.len())
}

fn varint_len(field: Option<u32>) -> usize {
    field.map_or(0, |value| 1 + encoded_len_varint(u64::from(value)))
}

fn put_bytes(buffer: &mut impl BufMut, tag: u8, field: Option<&[u8]>) {
    if let Some(bytes) = field {
        put_key_and_varint(buffer, tag, WireType::LengthDelimited, bytes.len() as u64);
        buffer.put_slice(bytes);
    }
}

fn put_varint(buffer: &mut impl BufMut, tag: u8, field: Option<u32>) {
    if let Some(value) = field {
        put_key_and_varint(buffer, tag, WireType::Varint, u64::from(value));
    }
}

/// Appends the key of a field and a number. Lengths and times have at most 35 bits; larger numbers
/// take the general encoder.
#[inline]
fn put_key_and_varint(buffer: &mut impl BufMut, tag: u8, wire_type: WireType, value: u64) {
    let key = tag << 3 | wire_type as u8;
    let last = |group: u32| low_u8(value >> (7 * group));
    let group = |group: u32| last(group) | 0x80;
    match value {
        0..0x80 => buffer.put_slice(&[key, last(0)]),
        0x80..0x4000 => buffer.put_slice(&[key, group(0), last(1)]),
        0x4000..0x20_0000 => buffer.put_slice(&[key, group(0), group(1), last(2)]),
        0x20_0000..0x1000_0000 => {
            buffer.put_slice(&[key, group(0), group(1), group(2), last(3)]);
        }
        0x1000_0000..0x8_0000_0000 => {
            buffer.put_slice(&[key, group(0), group(1), group(2), group(3), last(4)]);
        }
        _ => {
            buffer.put_u8(key);
            encode_varint(value, buffer);
        }
    }
}
