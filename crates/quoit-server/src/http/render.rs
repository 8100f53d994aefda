//! Objects as answers.

use super::links;
use super::response::{
    Reply, ReplyForm, TEXT, append_base64, append_date, append_location, append_value,
    is_sendable_name, reply,
};
use super::route::UrlForm;
use quoit_model::clock::VersionVector;
use quoit_model::context::encode_context;
use quoit_model::key::KeyRef;
use quoit_model::object::{Metadata, Object, Sibling};

const US_PER_SEC: u64 = 1_000_000;
const DEFAULT_CONTENT_TYPE: &[u8] = b"application/octet-stream";

/// An object on its way to a client.
#[derive(Clone, Copy)]
pub struct Rendered<'a> {
    /// The object's name.
    pub key: KeyRef<'a>,
    /// The form of the URL that it was asked for by.
    pub form: UrlForm,
    /// The object; not a tombstone.
    pub object: &'a Object,
}

/// The stored media type of a value.
pub fn content_type(meta: &Metadata) -> &[u8] {
    meta.content_type.as_deref().unwrap_or(DEFAULT_CONTENT_TYPE)
}

/// Appends the header that carries an object's causal context.
pub fn append_clock(out: &mut Vec<u8>, clock: &VersionVector) {
    out.extend_from_slice(b"X-Riak-Vclock: ");
    append_base64(out, &encode_context(clock));
    out.extend_from_slice(b"\r\n");
}

/// Appends the headers that tell one version from another; nothing for what is not known.
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
    /// Writes one value with its headers. `created` names the new object in a Location header.
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

    /// Writes the headers of one value. The value has to follow.
    pub fn write_head(
        self,
        out: &mut Vec<u8>,
        reply_form: ReplyForm,
        status: u16,
        sibling: &Sibling,
    ) {
        let headers = self.headers(out, reply_form, status, sibling, false);
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
            self.append_content_type(out, &sibling.meta);
            self.append_links(out, &sibling.meta);
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
        reply(out, reply_form, status).lines(|out| self.append_head_of_all(out)).body(TEXT, &body);
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
            .lines(|out| self.append_head_of_all(out))
            .body(media_type.as_bytes(), &body);
    }

    fn append_head_of_all(self, out: &mut Vec<u8>) {
        append_clock(out, &self.object.clock);
        append_version(out, &self.object.etag(), self.object.last_modified_us());
    }

    /// Appends one value as a part of a multipart body: headers, an empty line, the value.
    pub fn append_part(self, out: &mut Vec<u8>, sibling: &Sibling) {
        self.append_content_type(out, &sibling.meta);
        self.append_links(out, &sibling.meta);
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

    fn append_content_type(self, out: &mut Vec<u8>, meta: &Metadata) {
        out.extend_from_slice(b"Content-Type: ");
        append_value(out, content_type(meta));
        if let Some(charset) = &meta.charset {
            out.extend_from_slice(b"; charset=");
            append_value(out, charset);
        }
        out.extend_from_slice(b"\r\n");
        if let Some(encoding) = &meta.content_encoding {
            out.extend_from_slice(b"Content-Encoding: ");
            append_value(out, encoding);
            out.extend_from_slice(b"\r\n");
        }
    }

    fn append_links(self, out: &mut Vec<u8>, meta: &Metadata) {
        out.extend_from_slice(b"Link: ");
        links::append(out, &meta.links, self.form, self.key.bucket.bucket);
        out.extend_from_slice(b"\r\n");
    }
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

/// One header a field, its terms joined. Entries are sorted, so those of a field stand together.
fn append_joined_indexes(out: &mut Vec<u8>, meta: &Metadata) {
    for entries in meta.indexes.chunk_by(|a, b| a.field == b.field) {
        let field = &entries[0].field;
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

/// Appends the line before a part, or the one after the last.
pub fn append_boundary(out: &mut Vec<u8>, boundary: &str, last: bool) {
    out.extend_from_slice(b"\r\n--");
    out.extend_from_slice(boundary.as_bytes());
    out.extend_from_slice(if last { b"--\r\n" } else { b"\r\n" });
}

/// A text that stands in no value: 128 bits that nobody can foresee.
pub fn boundary() -> String {
    use std::hash::{BuildHasher, RandomState};
    let half = || RandomState::new().hash_one("boundary");
    format!("{:016x}{:016x}", half(), half())
}
