//! Reasons why a request gets an error instead of its own answer.

use crate::erlang_text;
use crate::memory::NoMemory;
use quoit_core::RequestError;
use quoit_wire::DecodeError;
use std::io;

/// Reasons why a request gets an error instead of its own answer.
pub(super) enum Fault {
    /// The client gets this text; the connection continues.
    Text(String),
    /// The client gets this text, and the connection is closed.
    Closing(String),
    /// The connection has failed.
    Socket(io::Error),
}

impl From<RequestError> for Fault {
    fn from(fault: RequestError) -> Self {
        if matches!(fault, RequestError::Store(_) | RequestError::Damaged(_)) {
            tracing::error!(%fault, "request failed");
        }
        Self::Text(erlang_text::request_error(&fault))
    }
}

impl From<DecodeError> for Fault {
    fn from(fault: DecodeError) -> Self {
        Self::Closing(format!("Error processing incoming message: error:{fault}:[]"))
    }
}

impl From<NoMemory> for Fault {
    fn from(fault: NoMemory) -> Self {
        Self::Text(format!("the answer is not sent: {fault}"))
    }
}

impl From<io::Error> for Fault {
    fn from(fault: io::Error) -> Self {
        Self::Socket(fault)
    }
}
