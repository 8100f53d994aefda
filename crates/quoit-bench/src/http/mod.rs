//! A minimal HTTP/1.1 client for load generation. Connections are kept alive, with one request in flight
//! and reused buffers. Response bodies are read and discarded unless they are requested. A request costs
//! one write and one read.

mod body;
mod connection;
pub(crate) mod multipart;
mod read_buffer;
#[cfg(test)]
mod tests;

use std::io;

pub(crate) use connection::{Connection, ConnectionLimits, Response};
use thiserror::Error;

/// The bytes of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HttpRequest<'a> {
    /// The request line and the headers, with the empty line that ends them.
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [u8],
}

/// The content of a response.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ResponseContent<'a> {
    /// The value of the header `Content-Type`.
    pub(crate) content_type: &'a [u8],
    pub(crate) body: &'a [u8],
}

/// Reasons why a request got no response.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    /// The connection could not be opened, or ended before the response was complete.
    #[error("the connection failed: {0}")]
    Connection(io::Error),
    /// The response was not complete in time.
    #[error("no response in time")]
    Timeout,
    /// The bytes are not an HTTP response.
    #[error("no HTTP response: {0}")]
    Malformed(&'static str),
}
