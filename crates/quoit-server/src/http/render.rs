//! Objects in the form of HTTP answers.

use super::links;
use super::response::{
    Reply, ReplyForm, TEXT, append_base64, append_date, append_location, append_value,
    is_sendable_name, reply,
};
use super::route::UrlForm;
use quoit_model::clock::VersionVector;
use quoit_model::context::encode_context_into;
use quoit_model::key::KeyRef;
use quoit_model::object::{IndexEntry, Link, Metadata, Object, Sibling};
use quoit_model::plain::PlainObject;

const US_PER_SEC: u64 = 1_000_000;
const DEFAULT_CONTENT_TYPE: &[u8] = b"application/octet-stream";

/// An object that is being sent to a client.
#[derive(Clone, Copy)]
pub struct Rendered<'a> {
    /// The name of the record.
    pub key: KeyRef<'a>,
    /// The URL form of the request.
    pub form: UrlForm,
    /// The object, which is not a tombstone.
    pub object: &'a Object,
}

/// Properties of a value for content negotiation and conditions.
#[derive(Clone, Copy)]
pub struct ValueForm<'a> {
    /// Media type without parameters.
    pub content_type: &'a [u8],
    /// Character set.
    pub charset: Option<&'a [u8]>,
    /// Content coding.
    pub content_encoding: Option<&'a [u8]>,
    /// Entity tag; empty when unknown.
    pub vtag: &'a [u8],
    /// Time at which the value was written, in microseconds since 1970; 0 when unknown.
    pub last_modified_us: u64,
}

impl<'a> From<&'a Sibling> for ValueForm<'a> {
    fn from(sibling: &'a Sibling) -> Self {
        let meta = &sibling.meta;
        Self {
            content_type: meta.content_type.as_deref().unwrap_or(DEFAULT_CONTENT_TYPE),
            charset: meta.charset.as_deref(),
            content_encoding: meta.content_encoding.as_deref(),
            vtag: &sibling.vtag,
            last_modified_us: sibling.last_modified_us,
        }
    }
}

impl<'a> From<&PlainObject<'a>> for ValueForm<'a> {
    fn from(object: &PlainObject<'a>) -> Self {
        Self {
            content_type: object.content_type.unwrap_or(DEFAULT_CONTENT_TYPE),
            charset: object.charset,
            content_encoding: object.content_encoding,
            vtag: object.vtag,
            last_modified_us: object.last_modified_us,
        }
    }
}

/// Appends the header with an object's causal context.
pub fn append_clock(out: &mut Vec<u8>, clock: &VersionVector) {
    out.extend_from_slice(b"X-Riak-Vclock: ");
    append_base64(out, |out| encode_context_into(clock, out));
    out.extend_from_slice(b"\r\n");
}

/// Writes the value of a plain object with its headers, as [`Rendered::write_value`] does.
pub fn write_plain(
    out: &mut Vec<u8>,
    reply_form: ReplyForm,
    (key, form): (KeyRef<'_>, UrlForm),
    object: &PlainObject<'_>,
) {
    plain_headers(out, reply_form, (key, form), object).finish(object.value);
}

/// As [`write_plain`], without the value, which the caller has to add.
pub fn write_plain_head(
    out: &mut Vec<u8>,
    reply_form: ReplyForm,
    (key, form): (KeyRef<'_>, UrlForm),
    object: &PlainObject<'_>,
) {
    plain_headers(out, reply_form, (key, form), object).finish_head(object.value.len());
}

#[inline]
fn plain_headers<'o>(
    out: &'o mut Vec<u8>,
    reply_form: ReplyForm,
    (key, form): (KeyRef<'_>, UrlForm),
    object: &PlainObject<'_>,
) -> Reply<'o> {
    let value_form = ValueForm::from(object);
    reply(out, reply_form, 200).lines(|out| {
        append_clock(out, &object.clock);
        append_content_type(out, &value_form);
        append_links(out, &[], form, key);
        append_version(out, value_form.vtag, value_form.last_modified_us);
    })
}

/// Appends the headers that identify a version. Unknown ones are left out.
pub fn append_version(out: &mut Vec<u8>, etag: &[u8], last_modified_us: u64) {
    if !etag.is_empty() {
        out.extend_from_slice(b"ETag: \"");
        append_value(out, etag);
        out.extend_from_slice(b"\"\r\n");
    }
    append_last_modified(out, last_modified_us);
}

fn append_last_modified(out: &mut Vec<u8>, last_modified_us: u64) {
    if last_modified_us > 0 {
        out.extend_from_slice(b"Last-Modified: ");
        append_date(out, last_modified_us / US_PER_SEC);
        out.extend_from_slice(b"\r\n");
    }
}

impl Rendered<'_> {
    /// Writes one value with its headers. If `created`, adds a Location header with the path of the new
    /// object.
    pub fn write_value(
        self,
        out: &mut Vec<u8>,
        reply_form: ReplyForm,
        status: u16,
        sibling: &Sibling,
        created: bool,
    ) {
        self.headers(out, reply_form, status, sibling, created).finish(&sibling.value);
    }

    /// As [`Rendered::write_value`], without the value, which the caller has to add.
    pub fn write_head(
        self,
        out: &mut Vec<u8>,
        reply_form: ReplyForm,
        status: u16,
        sibling: &Sibling,
        created: bool,
    ) {
        let headers = self.headers(out, reply_form, status, sibling, created);
        headers.finish_head(sibling.value.len());
    }

    fn headers<'o>(
        self,
        out: &'o mut Vec<u8>,
        reply_form: ReplyForm,
        status: u16,
        sibling: &Sibling,
        created: bool,
    ) -> Reply<'o> {
        reply(out, reply_form, status).lines(|out| {
            append_clock(out, &self.object.clock);
            if created {
                self.append_location(out);
            }
            if sibling.deleted {
                out.extend_from_slice(b"X-Riak-Deleted: true\r\n");
            }
            append_content_type(out, &sibling.into());
            append_links(out, &sibling.meta.links, self.form, self.key);
            append_version(out, &sibling.vtag, sibling.last_modified_us);
            append_user_meta(out, &sibling.meta);
            append_joined_indexes(out, &sibling.meta);
        })
    }

    /// Writes the list of the siblings' tags.
    pub fn write_tags(self, out: &mut Vec<u8>, reply_form: ReplyForm, status: u16) {
        let mut body = b"Siblings:\n".to_vec();
        for sibling in &self.object.siblings {
            body.extend_from_slice(&sibling.vtag);
            body.push(b'\n');
        }
        reply(out, reply_form, status)
            .varies_by_accept()
            .lines(|out| self.append_head_of_all(out))
            .content_type(TEXT)
            .finish(&body);
    }

    /// Writes all siblings as the parts of one body.
    pub fn write_multipart(self, out: &mut Vec<u8>, reply_form: ReplyForm, status: u16) {
        let boundary = boundary();
        let mut body = Vec::new();
        for sibling in &self.object.siblings {
            append_boundary(&mut body, &boundary, false);
            self.append_part(&mut body, sibling);
        }
        append_boundary(&mut body, &boundary, true);
        let media_type = format!("multipart/mixed; boundary={boundary}");
        reply(out, reply_form, status)
            .varies_by_accept()
            .lines(|out| self.append_head_of_all(out))
            .content_type(media_type.as_bytes())
            .finish(&body);
    }

    fn append_head_of_all(self, out: &mut Vec<u8>) {
        append_clock(out, &self.object.clock);
        append_version(out, &self.object.etag(), self.object.last_modified_us());
    }

    /// Appends one value as a part of a multipart body: headers, an empty line, the value.
    pub fn append_part(self, out: &mut Vec<u8>, sibling: &Sibling) {
        append_content_type(out, &sibling.into());
        append_links(out, &sibling.meta.links, self.form, self.key);
        out.extend_from_slice(b"Etag: ");
        append_value(out, &sibling.vtag);
        out.extend_from_slice(b"\r\n");
        append_last_modified(out, sibling.last_modified_us);
        if sibling.deleted {
            out.extend_from_slice(b"X-Riak-Deleted: true\r\n");
        }
        append_user_meta(out, &sibling.meta);
        for entry in &sibling.meta.indexes {
            if is_sendable_name(&entry.field) {
                append_index_name(out, &entry.field);
                append_value(out, &crate::index_entries::term_text(&entry.term));
                out.extend_from_slice(b"\r\n");
            }
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&sibling.value);
    }

    /// Appends the path of the object as a Location header.
    pub fn append_location(self, out: &mut Vec<u8>) {
        append_location(out, self.form, self.key);
    }
}

fn append_content_type(out: &mut Vec<u8>, form: &ValueForm<'_>) {
    out.extend_from_slice(b"Content-Type: ");
    append_value(out, form.content_type);
    if let Some(charset) = form.charset {
        out.extend_from_slice(b"; charset=");
        append_value(out, charset);
    }
    out.extend_from_slice(b"\r\n");
    if let Some(encoding) = form.content_encoding {
        out.extend_from_slice(b"Content-Encoding: ");
        append_value(out, encoding);
        out.extend_from_slice(b"\r\n");
    }
}

fn append_links(out: &mut Vec<u8>, links: &[Link], form: UrlForm, key: KeyRef<'_>) {
    out.extend_from_slice(b"Link: ");
    links::append(out, links, form, key.bucket.bucket);
    out.extend_from_slice(b"\r\n");
}

fn append_user_meta(out: &mut Vec<u8>, meta: &Metadata) {
    for pair in &meta.user_meta {
        if is_sendable_name(&pair.name) {
            out.extend_from_slice(&pair.name);
            out.extend_from_slice(b": ");
            append_value(out, pair.value.as_deref().unwrap_or_default());
            out.extend_from_slice(b"\r\n");
        }
    }
}

fn append_index_name(out: &mut Vec<u8>, field: &[u8]) {
    out.extend_from_slice(b"x-riak-index-");
    out.extend_from_slice(field);
    out.extend_from_slice(b": ");
}

/// Appends one header for each field, with its terms joined. Entries are sorted, so those of a field are
/// adjacent.
fn append_joined_indexes(out: &mut Vec<u8>, meta: &Metadata) {
    for entries in meta.indexes.chunk_by(|a, b| a.field == b.field) {
        let Some(IndexEntry { field, .. }) = entries.first() else { continue };
        if !is_sendable_name(field) {
            continue;
        }
        append_index_name(out, field);
        for (place, entry) in entries.iter().enumerate() {
            if place > 0 {
                out.extend_from_slice(b", ");
            }
            append_value(out, &crate::index_entries::term_text(&entry.term));
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the boundary before a part, or after the last part.
pub fn append_boundary(out: &mut Vec<u8>, boundary: &str, last: bool) {
    out.extend_from_slice(b"\r\n--");
    out.extend_from_slice(boundary.as_bytes());
    out.extend_from_slice(if last { b"--\r\n" } else { b"\r\n" });
}

/// A multipart boundary: 128 random bits as text, which no value contains by chance or by design.
pub fn boundary() -> String {
    use std::hash::{BuildHasher, RandomState};
    let half = || RandomState::new().hash_one("boundary");
    format!("{:016x}{:016x}", half(), half())
}
