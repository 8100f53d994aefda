//! HTTP answers, written directly into the connection's buffer.

use super::uri;
use httpdate::HttpDate;
use std::cell::Cell;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Properties of the request and connection that determine how an answer is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyForm {
    /// The answer to a HEAD request: headers as for GET, no body.
    pub head_only: bool,
    /// Further requests may follow on the connection.
    pub keep_alive: bool,
    /// The client speaks HTTP/1.1.
    pub is_http_11: bool,
}

/// An answer in progress: the status line and headers are written, and one of the methods that end it
/// follows.
#[must_use = "an answer has to be ended"]
pub struct Reply<'o> {
    out: &'o mut Vec<u8>,
    form: ReplyForm,
    status: u16,
}

/// The media type of plain texts.
pub const TEXT: &[u8] = b"text/plain";
/// The media type of several values in one body.
pub const MULTIPART: &[u8] = b"multipart/mixed";
/// The media type of JSON.
pub const JSON: &[u8] = b"application/json";
/// The media type of pages.
pub const HTML: &[u8] = b"text/html";

/// Starts an answer. Costs one copy of the parts that are the same in every answer with this status.
pub fn reply(out: &mut Vec<u8>, form: ReplyForm, status: u16) -> Reply<'_> {
    let version = "HTTP/1.1 ";
    out.extend_from_slice(version.as_bytes());
    out.extend_from_slice(status_line(status).as_bytes());
    out.extend_from_slice(b"\r\nServer: Quoit\r\nVary: Accept-Encoding\r\nDate: ");
    append_now(out);
    out.extend_from_slice(b"\r\n");
    if !form.keep_alive {
        out.extend_from_slice(b"Connection: close\r\n");
    } else if !form.is_http_11 {
        out.extend_from_slice(b"Connection: keep-alive\r\n");
    }
    Reply { out, form, status }
}

/// Starts an answer whose length is unknown. Only a client of HTTP/1.1 can send further requests after it.
pub fn reply_in_pieces(out: &mut Vec<u8>, form: ReplyForm, status: u16) -> Reply<'_> {
    let keep_alive = form.keep_alive && form.is_http_11;
    let answer = reply(out, ReplyForm { keep_alive, ..form }, status);
    Reply { form, ..answer }
}

impl<'o> Reply<'o> {
    /// Adds a header. Control bytes in the value are replaced, so that the value can't end the header.
    pub fn header(self, name: &str, value: &[u8]) -> Self {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        append_value(self.out, value);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Tells caches that the answer depends on the client's `Accept` header.
    pub fn varies_by_accept(self) -> Self {
        self.header("Vary", b"Accept")
    }

    /// Adds headers that `write` appends as complete lines.
    pub fn lines(self, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        write(self.out);
        self
    }

    /// Adds the media type of the body.
    pub fn content_type(self, media_type: &[u8]) -> Self {
        self.header("Content-Type", media_type)
    }

    /// Ends the answer with a body whose content headers were added before.
    pub fn finish(self, body: &[u8]) {
        let has_body = self.has_body();
        let out = self.end_headers(body.len());
        if has_body {
            out.extend_from_slice(body);
        }
    }

    /// Ends the headers of an answer. The caller has to append a body of `body_bytes`, if the answer has a
    /// body.
    pub fn finish_head(self, body_bytes: usize) {
        self.end_headers(body_bytes);
    }

    fn has_body(&self) -> bool {
        !self.is_bodiless() && !self.form.head_only
    }

    fn is_bodiless(&self) -> bool {
        matches!(self.status, 204 | 304)
    }

    fn end_headers(self, body_bytes: usize) -> &'o mut Vec<u8> {
        if !self.is_bodiless() {
            self.out.extend_from_slice(b"Content-Length: ");
            append_number(self.out, body_bytes as u64);
            self.out.extend_from_slice(b"\r\n");
        }
        self.out.extend_from_slice(b"\r\n");
        self.out
    }

    /// Ends the headers of an answer whose length is unknown. Chunks follow; for a client of HTTP/1.0,
    /// plain bytes until the connection is closed ([`reply_in_pieces`]).
    pub fn stream(self) {
        if self.form.is_http_11 {
            self.out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Appends a piece of a stream. An empty piece is skipped, because an empty chunk would end the stream.
pub fn append_chunk(out: &mut Vec<u8>, form: ReplyForm, piece: &[u8]) {
    if piece.is_empty() || form.head_only {
        return;
    }
    if form.is_http_11 {
        // Writing to a vector does not fail.
        let _ = write!(out, "{:x}\r\n", piece.len());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    } else {
        out.extend_from_slice(piece);
    }
}

/// Appends the end of a stream.
pub fn append_last_chunk(out: &mut Vec<u8>, form: ReplyForm) {
    if form.is_http_11 && !form.head_only {
        out.extend_from_slice(b"0\r\n\r\n");
    }
}

/// Appends a header value. Control bytes, which could end the header, become spaces.
pub fn append_value(out: &mut Vec<u8>, value: &[u8]) {
    let is_control = |byte: &u8| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f;
    // Not `any`: without an early exit, the compiler vectorises the loop.
    if value.iter().fold(false, |found, byte| found | is_control(byte)) {
        out.extend(value.iter().map(|byte| if is_control(byte) { b' ' } else { *byte }));
    } else {
        out.extend_from_slice(value);
    }
}

/// True if a stored name can be sent as a header name: it is a token, and not one of the headers that
/// control framing.
pub fn is_sendable_name(name: &[u8]) -> bool {
    const FRAMING: [&[u8]; 5] =
        [b"content-length", b"transfer-encoding", b"connection", b"trailer", b"upgrade"];
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !name.is_empty()
        && name.iter().all(is_token)
        && !FRAMING.iter().any(|framing| name.eq_ignore_ascii_case(framing))
}

/// Appends a decimal number.
#[expect(clippy::indexing_slicing, reason = "a number has at most 20 digits")]
pub fn append_number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    let mut rest = number;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// Appends a date (RFC 9110, section 5.6.7), given in seconds since 1970.
pub fn append_date(out: &mut Vec<u8>, unix_secs: u64) {
    /// The last second of the year 9999, the largest that the format can hold.
    const LAST_SECS: u64 = 253_402_300_799;
    let time = UNIX_EPOCH + Duration::from_secs(unix_secs.min(LAST_SECS));
    // Writing to a vector does not fail.
    let _ = write!(out, "{}", HttpDate::from(time));
}

/// Appends the current date, which each thread formats once a second. Costs a read of the clock.
fn append_now(out: &mut Vec<u8>) {
    const DATE_BYTES: usize = 29;
    thread_local! {
        static CACHED: Cell<(u64, [u8; DATE_BYTES])> = const { Cell::new((0, [0; DATE_BYTES])) };
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (secs, date) = CACHED.get();
    if secs == now {
        out.extend_from_slice(&date);
        return;
    }
    let start = out.len();
    append_date(out, now);
    if let Some(Ok(date)) = out.get(start..).map(<[u8; DATE_BYTES]>::try_from) {
        CACHED.set((now, date));
    }
}

/// Encodes the bytes that `write` appends as base64, in place.
pub fn append_base64(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    use base64::Engine as _;
    let start = out.len();
    write(out);
    let text_at = out.len();
    let text_bytes = (text_at - start).div_ceil(3) * 4;
    out.resize(text_at + text_bytes, 0);
    let (before, text) = out.split_at_mut(text_at);
    let (_, bytes) = before.split_at(start);
    let engine = &base64::engine::general_purpose::STANDARD;
    let written = engine.encode_slice(bytes, text).unwrap_or(0);
    out.copy_within(text_at..text_at + written, start);
    out.truncate(start + written);
}

/// Appends the Location header of an object.
pub fn append_location(
    out: &mut Vec<u8>,
    form: super::route::UrlForm,
    key: quoit_model::key::KeyRef<'_>,
) {
    out.extend_from_slice(b"Location: ");
    append_object_path(out, form, key.bucket, key.key);
    out.extend_from_slice(b"\r\n");
}

/// Appends the path of an object, in a form of URLs.
pub fn append_object_path(
    out: &mut Vec<u8>,
    form: super::route::UrlForm,
    bucket: quoit_model::key::BucketRef<'_>,
    key: &[u8],
) {
    use super::route::UrlForm;
    match form {
        UrlForm::Old => {
            out.extend_from_slice(b"/riak/");
            uri::encode_into(out, bucket.bucket);
            out.push(b'/');
        }
        UrlForm::Untyped | UrlForm::Typed => {
            if form == UrlForm::Typed {
                out.extend_from_slice(b"/types/");
                uri::encode_into(out, bucket.bucket_type);
            }
            out.extend_from_slice(b"/buckets/");
            uri::encode_into(out, bucket.bucket);
            out.extend_from_slice(b"/keys/");
        }
    }
    uri::encode_into(out, key);
}

/// The code and reason phrase of a status.
pub fn status_line(status: u16) -> &'static str {
    match status {
        200 => "200 OK",
        201 => "201 Created",
        204 => "204 No Content",
        300 => "300 Multiple Choices",
        301 => "301 Moved Permanently",
        304 => "304 Not Modified",
        400 => "400 Bad Request",
        401 => "401 Unauthorized",
        403 => "403 Forbidden",
        404 => "404 Not Found",
        405 => "405 Method Not Allowed",
        406 => "406 Not Acceptable",
        408 => "408 Request Timeout",
        409 => "409 Conflict",
        410 => "410 Gone",
        412 => "412 Precondition Failed",
        413 => "413 Content Too Large",
        415 => "415 Unsupported Media Type",
        426 => "426 Upgrade Required",
        431 => "431 Request Header Fields Too Large",
        501 => "501 Not Implemented",
        503 => "503 Service Unavailable",
        505 => "505 HTTP Version Not Supported",
        _ => "500 Internal Server Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: ReplyForm = ReplyForm { head_only: false, keep_alive: true, is_http_11: true };

    fn written(form: ReplyForm, end: impl FnOnce(Reply<'_>)) -> String {
        let mut out = Vec::new();
        end(reply(&mut out, form, 200));
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_head_answer_has_the_length_and_not_the_body() {
        let form = ReplyForm { head_only: true, ..FORM };
        let text = written(form, |reply| reply.content_type(TEXT).finish(b"hello"));
        assert!(text.contains("Content-Length: 5\r\n") && text.ends_with("\r\n\r\n"), "{text}");
    }

    #[test]
    fn a_stored_value_cannot_end_a_header() {
        let text = written(FORM, |reply| reply.header("X-A", b"a\r\nX-B: b\0").finish(b""));
        assert!(text.contains("X-A: a  X-B: b \r\n"), "{text}");
    }

    #[test]
    fn names_that_would_break_the_message_are_not_sent() {
        assert!(is_sendable_name(b"X-Riak-Meta-a") && is_sendable_name(b"colour"));
        for name in [&b""[..], b"a b", b"a:b", b"a\r\n", b"Content-Length", b"CONNECTION", b"\xff"]
        {
            assert!(!is_sendable_name(name), "{name:?}");
        }
    }

    #[test]
    fn the_end_of_the_connection_is_announced() {
        let form = ReplyForm { keep_alive: false, ..FORM };
        assert!(written(form, |reply| reply.finish(b"")).contains("Connection: close\r\n"));
        let old = ReplyForm { is_http_11: false, ..FORM };
        assert!(written(old, |reply| reply.finish(b"")).contains("Connection: keep-alive\r\n"));
    }

    #[test]
    fn numbers_dates_and_base64_are_as_everybody_writes_them() {
        let mut out = Vec::new();
        append_number(&mut out, 0);
        append_number(&mut out, 1_234_567_890);
        append_date(&mut out, 784_111_777);
        append_base64(&mut out, |out| out.extend_from_slice(b"hello"));
        append_base64(&mut out, |_| ());
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text, "01234567890Sun, 06 Nov 1994 08:49:37 GMTaGVsbG8=");
        append_date(&mut Vec::new(), u64::MAX);
    }
}
