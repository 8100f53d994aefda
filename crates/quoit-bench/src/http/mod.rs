//! A minimal HTTP/1.1 client: keep-alive, one request in flight, buffers reused, response bodies
//! read and thrown away unless they are asked for. Made for load generation: one write and one
//! read a request.

mod body;
mod connection;
pub(crate) mod multipart;
#[cfg(test)]
mod tests;

use std::io;

pub(crate) use connection::{Connection, Response};
use thiserror::Error;

/// Why a request got no response.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    /// The connection could not be made, or was closed or broken before a whole response came.
    #[error("the connection failed: {0}")]
    Connection(io::Error),
    /// No whole response came in time.
    #[error("no response in time")]
    Timeout,
    /// The bytes that came are no HTTP response.
    #[error("no HTTP response: {0}")]
    Malformed(&'static str),
}
