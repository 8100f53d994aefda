//! Errors between a request and its answer.

use crate::layout::LayoutError;
use crate::location::Location;
use quoit_wire::{DecodeError, FrameError};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// A request that failed.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum Error {
    /// No connection could be made; the request was not sent.
    #[error("no connection to {address}: {source}; is the node up and the address right?")]
    Connect {
        /// The node's address.
        address: String,
        /// Error of the system.
        source: Arc<io::Error>,
    },
    /// A file of certificates or keys has a fault.
    #[error("{source}")]
    Tls {
        /// The fault, with its file and remedy.
        source: Arc<quoit_tls::TlsError>,
    },
    /// The TLS handshake failed; the request was not sent.
    #[error("TLS handshake with {address}: {reason}")]
    Handshake {
        /// The node's address.
        address: String,
        /// The reason, in words.
        reason: String,
    },
    /// The connection broke after the request was sent. It may have been carried out.
    #[error("connection to {address} lost: {source}; the request may have been carried out")]
    Lost {
        /// The node's address.
        address: String,
        /// Error of the system.
        source: Arc<io::Error>,
    },
    /// No answer came in time. The request may have been carried out.
    #[error(
        "{operation} not answered within {waited:?}; \
         the request may have been carried out; raise request_timeout if the load explains it"
    )]
    Timeout {
        /// The request, as in `GetReq`.
        operation: &'static str,
        /// How long the client waited.
        waited: Duration,
    },
    /// The server refused the request or failed at it.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The server sent bytes that are no frames, or a request fits in none.
    #[error("talking to {address}: {source}")]
    Frame {
        /// The node's address.
        address: String,
        /// Fault of the frame.
        source: FrameError,
    },
    /// The server's answer is not the message it should be.
    #[error("answer of {address}: {source}; is this a Quoit or Riak node's PB port?")]
    Decode {
        /// The node's address.
        address: String,
        /// Fault of the message.
        source: DecodeError,
    },
    /// The layout that a node told contradicts itself.
    #[error("layout of the cluster: {source}; is this a Quoit node's PB port?")]
    Layout {
        /// Fault of the layout.
        source: LayoutError,
    },
    /// A call on a [`Connection`](crate::Connection) that still owes answers to others.
    #[error(
        "the connection to {address} owes {outstanding} answers to earlier requests; \
         receive them first, or drop it if a call on it was cancelled"
    )]
    OutOfStep {
        /// The node's address.
        address: String,
        /// Requests sent whose answers were not received.
        outstanding: usize,
    },
    /// A resolver could not make one value of an object's siblings.
    #[error("siblings of {location} not resolved: {source}")]
    Unresolved {
        /// The object.
        location: Location,
        /// Error of the resolver.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// An update gave up because others changed the object each time.
    #[error("{location} was changed by others during each of {attempts} updates; try later")]
    Contended {
        /// The object.
        location: Location,
        /// How often the update was tried.
        attempts: u32,
    },
    /// A change of a data type takes something away and does not tell what was seen.
    #[error(
        "removes from data types need the context of what was read: fetch the record and give its \
         context in the options, or set without_context to remove whatever is there"
    )]
    ContextRequired,
    /// The client's settings can't work.
    #[error("{setting} is {value}; {remedy}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// The valid form.
        remedy: &'static str,
    },
}

/// An error that the server sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the server answered: {message}")]
pub struct ServerError {
    /// The server's error code; 0 for nearly all errors.
    pub code: u32,
    /// The server's text. Bytes that are no UTF-8 are replaced.
    pub message: String,
}

impl ServerError {
    /// Whether a conditional write found another version than the one it named.
    #[must_use]
    pub fn is_modified(&self) -> bool {
        self.message == "modified"
    }

    /// Whether a write under `if_none_match` found an object.
    #[must_use]
    pub fn is_match_found(&self) -> bool {
        self.message == "match_found"
    }

    /// Whether a write under `if_not_modified` found nothing.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.message == "notfound"
    }

    /// Whether the server ran out of the time it was given.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.message == "timeout"
    }

    /// Whether the server had too much to do; the same request may succeed later.
    #[must_use]
    pub fn is_overload(&self) -> bool {
        self.message == "overload"
    }

    /// Whether too few replicas answered. A write may have been carried out on some.
    #[must_use]
    pub fn is_quorum_unsatisfied(&self) -> bool {
        self.message.contains("val_unsatisfied")
    }
}

impl Error {
    /// The server's error, if it was the server that said no.
    #[must_use]
    pub fn server(&self) -> Option<&ServerError> {
        match self {
            Error::Server(error) => Some(error),
            _ => None,
        }
    }
}
