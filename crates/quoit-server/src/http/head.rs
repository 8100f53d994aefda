//! The head of a request: request line and headers. It is parsed once and kept as offsets into the received
//! bytes.
//!
//! Header names keep their case; lookups ignore it.

use bytes::{Bytes, BytesMut};
use quoit_number::low_u32;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::mem::MaybeUninit;
use thiserror::Error;

/// Largest number of headers of a request.
pub const HEADER_COUNT_MAX: usize = 1000;
/// Largest size of a request line with its headers, in bytes.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Methods that some resource accepts, or that HTTP defines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Read.
    Get,
    /// Read without the body.
    Head,
    /// Write; the exact meaning depends on the resource.
    Post,
    /// Write.
    Put,
    /// Delete.
    Delete,
    /// Recognised, but no resource accepts it.
    Options,
    /// Recognised, but no resource accepts it.
    Trace,
    /// Recognised, but no resource accepts it.
    Connect,
}

impl Method {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "DELETE" => Self::Delete,
            "OPTIONS" => Self::Options,
            "TRACE" => Self::Trace,
            "CONNECT" => Self::Connect,
            _ => return None,
        })
    }

    /// The name as it is written in a request.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Connect => "CONNECT",
        }
    }
}

/// Reasons why a request can't be parsed. The connection is closed after the error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum HeadFault {
    /// The bytes are not HTTP.
    #[error("The request is not valid HTTP/1.1.")]
    Garbage,
    /// The head is too large.
    #[error("Request line and headers take more than 65536 bytes together.")]
    TooLarge,
    /// There are too many headers.
    #[error("The request has more than 1000 headers.")]
    TooManyHeaders,
    /// The version is neither HTTP/1.0 nor HTTP/1.1.
    #[error("Only HTTP/1.0 and HTTP/1.1 are spoken here.")]
    Version,
    /// The length of the body is ambiguous, so the beginning of the next request is unknown.
    #[error(
        "Content-Length and Transfer-Encoding contradict each other about the length of the body."
    )]
    AmbiguousLength,
    /// A transfer coding other than chunked.
    #[error("Of the transfer codings only chunked is understood.")]
    UnknownCoding,
    /// The body is over the limit.
    #[error("The body is larger than this server takes.")]
    BodyTooLarge,
    /// The chunked body is malformed.
    #[error("The chunked body is not well-formed.")]
    BadChunk,
    /// The request did not arrive in time.
    #[error("The request did not arrive in time.")]
    TooSlow,
}

impl HeadFault {
    /// The status of the answer.
    pub const fn status(self) -> u16 {
        match self {
            Self::TooLarge | Self::TooManyHeaders => 431,
            Self::Version => 505,
            Self::BodyTooLarge => 413,
            Self::TooSlow => 408,
            Self::UnknownCoding => 501,
            Self::Garbage | Self::AmbiguousLength | Self::BadChunk => 400,
        }
    }
}

/// The way in which the end of the body is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyFraming {
    /// The body has this many bytes.
    Length(usize),
    /// The body ends with its last chunk.
    Chunked,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Span {
    start: u32,
    end: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct HeaderAt {
    name: Span,
    value: Span,
}

/// A parsed head. It shares the received bytes.
#[derive(Clone, Debug)]
pub struct Head {
    raw: Bytes,
    /// `None` for a method that HTTP does not define.
    pub method: Option<Method>,
    /// True for HTTP/1.1, false for HTTP/1.0.
    pub is_http_11: bool,
    target: Span,
    headers: SmallVec<[HeaderAt; 16]>,
}

/// Takes the head of the next request out of `input`; `None` if it is incomplete.
///
/// # Errors
///
/// Malformed heads, and heads over the limits.
pub fn take_head(input: &mut BytesMut) -> Result<Option<Head>, HeadFault> {
    let mut headers = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; HEADER_COUNT_MAX];
    let mut request = httparse::Request::new(&mut []);
    let mut parser = httparse::ParserConfig::default();
    parser.allow_multiple_spaces_in_request_line_delimiters(true);
    let status = parser
        .parse_request_with_uninit_headers(&mut request, input, &mut headers)
        .map_err(|fault| match fault {
            httparse::Error::TooManyHeaders => HeadFault::TooManyHeaders,
            httparse::Error::Version => HeadFault::Version,
            _ => HeadFault::Garbage,
        })?;
    let head_bytes = match status {
        httparse::Status::Partial if input.len() > HEAD_BYTES_MAX => {
            return Err(HeadFault::TooLarge);
        }
        httparse::Status::Partial => return Ok(None),
        httparse::Status::Complete(size) if size > HEAD_BYTES_MAX => {
            return Err(HeadFault::TooLarge);
        }
        httparse::Status::Complete(size) => size,
    };
    let base = input.as_ptr() as usize;
    // The parts are within the head, which has at most `HEAD_BYTES_MAX` bytes.
    let offset = |place: usize| low_u32(place as u64);
    let span = |part: &[u8]| {
        let start = part.as_ptr() as usize - base;
        Span { start: offset(start), end: offset(start + part.len()) }
    };
    let at = |header: &httparse::Header<'_>| HeaderAt {
        name: span(header.name.as_bytes()),
        value: span(header.value),
    };
    let target = request.path.ok_or(HeadFault::Garbage)?;
    let mut head = Head {
        raw: Bytes::new(),
        method: request.method.and_then(Method::of),
        is_http_11: request.version == Some(1),
        target: span(target.as_bytes()),
        headers: request.headers.iter().map(at).collect(),
    };
    head.raw = input.split_to(head_bytes).freeze();
    Ok(Some(head))
}

impl Head {
    #[expect(clippy::indexing_slicing, reason = "spans are those of parts of the head")]
    fn bytes(&self, span: Span) -> &[u8] {
        &self.raw[span.start as usize..span.end as usize]
    }

    fn shared(&self, span: Span) -> Bytes {
        self.raw.slice(span.start as usize..span.end as usize)
    }

    /// The request target as sent: path and query.
    pub fn target(&self) -> &[u8] {
        self.bytes(self.target)
    }

    /// The value of a header, the first if there are several. `name` is lower-case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.find(name).map(|at| self.bytes(at.value))
    }

    /// True if there is a header with one of these names, which are lower-case. Makes one pass over the
    /// headers.
    pub fn has_any(&self, names: &[&str]) -> bool {
        self.headers.iter().any(|at| {
            let name = self.bytes(at.name);
            names.iter().any(|other| is_name(name, other))
        })
    }

    /// Like [`Head::get`]; shares the received bytes.
    pub fn get_shared(&self, name: &str) -> Option<Bytes> {
        self.find(name).map(|at| self.shared(at.value))
    }

    /// The value of a header that is a list. The values of several lines are joined by commas. `name` is
    /// lower-case.
    pub fn get_list(&self, name: &'static str) -> Option<Cow<'_, [u8]>> {
        let mut values = self.get_all(name);
        let mut joined = Cow::Borrowed(values.next()?);
        for value in values {
            joined.to_mut().extend_from_slice(b", ");
            joined.to_mut().extend_from_slice(value);
        }
        Some(joined)
    }

    /// Like [`Head::get_list`]; shares the received bytes if there is one line.
    pub fn get_list_shared(&self, name: &'static str) -> Option<Bytes> {
        match self.get_list(name)? {
            Cow::Borrowed(_) => self.get_shared(name),
            Cow::Owned(joined) => Some(joined.into()),
        }
    }

    /// All values of a header.
    pub fn get_all(&self, name: &'static str) -> impl Iterator<Item = &[u8]> {
        self.headers
            .iter()
            .filter(move |at| is_name(self.bytes(at.name), name))
            .map(|at| self.bytes(at.value))
    }

    /// Headers whose names start with `prefix` (lower-case): the whole name as sent, and the value.
    pub fn with_prefix(&self, prefix: &'static str) -> impl Iterator<Item = (Bytes, Bytes)> {
        self.headers
            .iter()
            .filter(move |at| {
                let name = self.bytes(at.name);
                name.get(..prefix.len()).is_some_and(|start| is_name(start, prefix))
            })
            .map(|at| (self.shared(at.name), self.shared(at.value)))
    }

    fn find(&self, name: &str) -> Option<&HeaderAt> {
        self.headers.iter().find(|at| is_name(self.bytes(at.name), name))
    }

    /// True if a comma-separated header has a token, in any case.
    pub fn has_token(&self, name: &'static str, token: &str) -> bool {
        self.get_all(name)
            .flat_map(|value| value.split(|byte| *byte == b','))
            .any(|word| word.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
    }

    /// True if further requests may follow on the connection.
    pub fn keeps_alive(&self) -> bool {
        if self.is_http_11 {
            !self.has_token("connection", "close")
        } else {
            self.has_token("connection", "keep-alive")
        }
    }

    /// True if the client waits for permission before it sends the body.
    pub fn expects_continue(&self) -> bool {
        self.is_http_11 && self.has_token("expect", "100-continue")
    }

    /// The framing of the body. Every form that two servers might read differently is refused, because such
    /// forms allow request smuggling.
    ///
    /// # Errors
    ///
    /// Contradictory or malformed lengths, transfer codings other than chunked, bodies over `bytes_max`.
    pub fn framing(&self, bytes_max: usize) -> Result<BodyFraming, HeadFault> {
        let mut lengths = self.get_all("content-length");
        let mut codings = self.get_all("transfer-encoding");
        match (lengths.next(), codings.next()) {
            (None, None) => Ok(BodyFraming::Length(0)),
            (Some(_), Some(_)) => Err(HeadFault::AmbiguousLength),
            (None, Some(coding)) => {
                if codings.next().is_some() || !self.is_http_11 {
                    Err(HeadFault::AmbiguousLength)
                } else if coding.eq_ignore_ascii_case(b"chunked") {
                    Ok(BodyFraming::Chunked)
                } else {
                    Err(HeadFault::UnknownCoding)
                }
            }
            (Some(length), None) => {
                if lengths.next().is_some() || !length.iter().all(u8::is_ascii_digit) {
                    return Err(HeadFault::AmbiguousLength);
                }
                let text = std::str::from_utf8(length).map_err(|_| HeadFault::AmbiguousLength)?;
                if text.is_empty() {
                    return Err(HeadFault::AmbiguousLength);
                }
                match text.parse::<usize>() {
                    Ok(size) if size <= bytes_max => Ok(BodyFraming::Length(size)),
                    _ => Err(HeadFault::BodyTooLarge),
                }
            }
        }
    }
}

fn is_name(sent: &[u8], name: &str) -> bool {
    debug_assert!(!name.bytes().any(|byte| byte.is_ascii_uppercase()), "names are lower-case");
    sent.len() == name.len() && sent.eq_ignore_ascii_case(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Option<Head>, HeadFault> {
        take_head(&mut BytesMut::from(text.as_bytes()))
    }

    fn framing(headers: &str) -> Result<BodyFraming, HeadFault> {
        let text = format!("PUT / HTTP/1.1\r\n{headers}\r\n");
        head(&text).expect("a head").expect("a whole head").framing(1000)
    }

    #[test]
    fn a_head_is_taken_and_what_follows_stays() {
        let mut input = BytesMut::from("GET /ping?x=1 HTTP/1.1\r\nHost: a\r\n\r\nGET");
        let head = take_head(&mut input).expect("valid").expect("whole");
        assert_eq!(head.method, Some(Method::Get));
        assert_eq!(head.target(), b"/ping?x=1");
        assert_eq!(head.get("host"), Some(&b"a"[..]));
        assert_eq!(&input[..], b"GET");
    }

    #[test]
    fn a_head_that_has_not_arrived_is_awaited() {
        let mut input = BytesMut::from("GET / HTTP/1.1\r\nHost: a\r\n");
        assert!(take_head(&mut input).expect("so far valid").is_none());
        assert_eq!(input.len(), 25, "nothing is taken");
    }

    #[test]
    fn names_keep_their_case_and_are_found_in_any() {
        let head = head("PUT / HTTP/1.1\r\nX-RIAK-meta-CoLour: Blue\r\n\r\n").unwrap().unwrap();
        assert_eq!(head.get("x-riak-meta-colour"), Some(&b"Blue"[..]));
        let pairs: Vec<_> = head.with_prefix("x-riak-meta-").collect();
        assert_eq!(pairs[0].0, "X-RIAK-meta-CoLour");
    }

    #[test]
    fn garbage_other_versions_and_floods_of_headers_are_refused() {
        assert_eq!(head("\0\0\0\x05hello").unwrap_err(), HeadFault::Garbage);
        assert_eq!(head("GET / HTTP/2.0\r\n\r\n").unwrap_err(), HeadFault::Version);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1001));
        assert_eq!(head(&many).unwrap_err(), HeadFault::TooManyHeaders);
        let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(HEAD_BYTES_MAX));
        assert_eq!(head(&long).unwrap_err(), HeadFault::TooLarge);
    }

    #[test]
    fn two_lengths_of_one_body_are_refused() {
        let refused = Err(HeadFault::AmbiguousLength);
        assert_eq!(framing("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"), refused);
        assert_eq!(framing("Content-Length: 3\r\nContent-Length: 3\r\n"), refused);
        assert_eq!(framing("Content-Length: +3\r\n"), refused);
        assert_eq!(framing("Content-Length: 3, 3\r\n"), refused);
        assert_eq!(framing("Content-Length: \r\n"), refused);
        let twice = "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n";
        assert_eq!(framing(twice), refused);
        assert_eq!(framing("Transfer-Encoding: gzip, chunked\r\n"), Err(HeadFault::UnknownCoding));
    }

    #[test]
    fn the_length_of_a_body_has_a_limit() {
        assert_eq!(framing("Content-Length: 1000\r\n"), Ok(BodyFraming::Length(1000)));
        assert_eq!(framing("Content-Length: 1001\r\n"), Err(HeadFault::BodyTooLarge));
        let huge = format!("Content-Length: {}\r\n", "9".repeat(40));
        assert_eq!(framing(&huge), Err(HeadFault::BodyTooLarge));
    }

    #[test]
    fn connections_end_as_the_version_and_the_header_say() {
        let keeps = |text: &str| head(text).unwrap().unwrap().keeps_alive();
        assert!(keeps("GET / HTTP/1.1\r\n\r\n"));
        assert!(!keeps("GET / HTTP/1.1\r\nConnection: x, Close\r\n\r\n"));
        assert!(!keeps("GET / HTTP/1.0\r\n\r\n"));
        assert!(keeps("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
    }
}
