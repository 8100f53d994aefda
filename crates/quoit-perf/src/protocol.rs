//! Requests of the compared protocols, and detection of complete answers.

use crate::data_exchange::DataExchange;
use bytes::{Bytes, BytesMut};
use quoit_wire::frame::append_message;
use quoit_wire::messages::{RpbContent, RpbDelReq, RpbGetReq, RpbPutReq};

/// Length of every key, in bytes.
pub(crate) const KEY_BYTES: usize = 16;

/// One kind of exchange.
#[derive(Clone, Debug)]
pub(crate) enum Exchange {
    /// An echo of fixed sizes.
    Echo { request: usize, response: usize },
    /// Quoit, Protocol Buffers get.
    PbGet,
    /// Quoit, Protocol Buffers put. `dw` is that of the protocol; `None` for the bucket's default.
    PbPut { value_bytes: usize, dw: Option<u32> },
    /// Quoit, Protocol Buffers delete without a context, without waiting for a sync.
    PbDelete,
    /// Quoit, an update or query of a data type.
    Data(DataExchange),
    /// Quoit, HTTP GET.
    HttpGet,
    /// Quoit, HTTP GET with this header line of credentials.
    HttpGetAs(&'static str),
    /// Redis GET.
    RedisGet,
    /// Redis SET.
    RedisSet { value_bytes: usize },
}

/// The key with this number.
pub(crate) fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"key-000000000000";
    let mut rest = number;
    for digit in key.iter_mut().rev().take(12) {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

impl Exchange {
    /// Writes the request for a key.
    pub(crate) fn request(&self, number: u64, value: &Bytes, out: &mut BytesMut) {
        let key = key(number);
        match self {
            Self::Echo { request, .. } => out.resize(*request, b'q'),
            Self::PbGet => {
                let message = RpbGetReq {
                    bucket: Bytes::from_static(b"test"),
                    key: Bytes::copy_from_slice(&key),
                    ..RpbGetReq::default()
                };
                append_message(out, &message).expect("a small message fits a frame");
            }
            Self::PbPut { dw, value_bytes } => {
                let message = RpbPutReq {
                    bucket: Bytes::from_static(b"test"),
                    key: Some(Bytes::copy_from_slice(&key)),
                    content: RpbContent {
                        value: value.slice(..*value_bytes),
                        content_type: Some(Bytes::from_static(b"application/octet-stream")),
                        ..RpbContent::default()
                    },
                    dw: *dw,
                    ..RpbPutReq::default()
                };
                append_message(out, &message).expect("a small message fits a frame");
            }
            Self::PbDelete => {
                let message = RpbDelReq {
                    bucket: Bytes::from_static(b"test"),
                    key: Bytes::copy_from_slice(&key),
                    dw: Some(0),
                    ..RpbDelReq::default()
                };
                append_message(out, &message).expect("a small message fits a frame");
            }
            Self::Data(exchange) => exchange.request(&key, out),
            Self::HttpGet | Self::HttpGetAs(_) => {
                out.extend_from_slice(b"GET /buckets/test/keys/");
                out.extend_from_slice(&key);
                out.extend_from_slice(b" HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n");
                if let Self::HttpGetAs(credentials) = self {
                    out.extend_from_slice(credentials.as_bytes());
                    out.extend_from_slice(b"\r\n");
                }
                out.extend_from_slice(b"\r\n");
            }
            Self::RedisGet => {
                out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n$16\r\n");
                out.extend_from_slice(&key);
                out.extend_from_slice(b"\r\n");
            }
            Self::RedisSet { value_bytes } => {
                out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n$16\r\n");
                out.extend_from_slice(&key);
                out.extend_from_slice(format!("\r\n${value_bytes}\r\n").as_bytes());
                out.extend_from_slice(&value[..*value_bytes]);
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// The length of the answer at the start of `bytes`, if it is complete.
    pub(crate) fn response_len(&self, bytes: &[u8]) -> Option<usize> {
        let total = match self {
            Self::Echo { response, .. } => *response,
            Self::PbGet | Self::PbPut { .. } | Self::PbDelete | Self::Data(_) => {
                4 + u32::from_be_bytes(*bytes.first_chunk::<4>()?) as usize
            }
            Self::HttpGet | Self::HttpGetAs(_) => {
                let head = find_bytes(bytes, b"\r\n\r\n")? + 4;
                let name = b"content-length: ";
                let lower = bytes[..head].to_ascii_lowercase();
                let start = find_bytes(&lower, name)? + name.len();
                let digits = lower[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                let length = std::str::from_utf8(&lower[start..start + digits]).ok()?;
                head + length.parse::<usize>().ok()?
            }
            Self::RedisGet => {
                let line = find_bytes(bytes, b"\r\n")? + 2;
                let length = std::str::from_utf8(&bytes[1..line - 2]).ok()?;
                line + length.parse::<usize>().ok()? + 2
            }
            Self::RedisSet { .. } => find_bytes(bytes, b"\r\n")? + 2,
        };
        (bytes.len() >= total).then_some(total)
    }

    /// True if a complete answer is a success, so that only real work is measured.
    pub(crate) fn succeeded(&self, bytes: &[u8], value_bytes: usize) -> bool {
        match self {
            Self::Echo { .. } => true,
            Self::PbGet => bytes.get(4) == Some(&10) && bytes.len() > value_bytes,
            Self::PbPut { .. } => bytes.get(4) == Some(&12),
            Self::PbDelete => bytes.get(4) == Some(&14),
            Self::Data(exchange) => bytes.get(4) == Some(&exchange.answer_code()),
            Self::HttpGet | Self::HttpGetAs(_) => {
                bytes.starts_with(b"HTTP/1.1 200") && bytes.len() > value_bytes
            }
            Self::RedisGet => bytes.starts_with(b"$") && bytes.len() > value_bytes,
            Self::RedisSet { .. } => bytes.starts_with(b"+OK"),
        }
    }
}

/// The first position at which these bytes are found.
pub(crate) fn find_bytes<const N: usize>(text: &[u8], wanted: &[u8; N]) -> Option<usize> {
    text.windows(N).position(|window| window == wanted)
}
