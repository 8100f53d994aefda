//! Errors of requests.

use crate::layout::LayoutError;
use crate::location::Location;
use quoit_wire::{DecodeError, FrameError};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// The reason why a request failed.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum Error {
    /// No connection could be made; the request was not sent.
    #[error("no connection to {address}: {source}; is the node up and the address right?")]
    Connect {
        /// The node's address.
        address: String,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
    /// A file of certificates or keys can't be read or has a fault.
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
    /// The connection broke after the request was sent. The server may have carried out the request.
    #[error("connection to {address} lost: {source}; the request may have been carried out")]
    Lost {
        /// The node's address.
        address: String,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
    /// No answer came in time. The server may have carried out the request.
    #[error(
        "{operation} not answered within {waited:?}; \
         the request may have been carried out; raise request_timeout if the load explains it"
    )]
    Timeout {
        /// The request's name, such as `GetReq`.
        operation: &'static str,
        /// Time that the client waited.
        waited: Duration,
    },
    /// The server refused the request or failed at it.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The server sent bytes that are not a frame, or a request does not fit into a frame.
    #[error("talking to {address}: {source}")]
    Frame {
        /// The node's address.
        address: String,
        /// The fault of the frame.
        source: FrameError,
    },
    /// The server's answer is not of the expected kind, or can't be decoded.
    #[error("answer of {address}: {source}; is this a Quoit or Riak node's PB port?")]
    Decode {
        /// The node's address.
        address: String,
        /// The fault of the message.
        source: DecodeError,
    },
    /// The layout that a node sent contradicts itself.
    #[error("layout of the cluster: {source}; is this a Quoit node's PB port?")]
    Layout {
        /// The fault of the layout.
        source: LayoutError,
    },
    /// A call on a [`Connection`](crate::Connection) that has not yet received the answers to earlier
    /// requests.
    #[error(
        "the connection to {address} owes {outstanding} answers to earlier requests; \
         receive them first, or drop it if a call on it was cancelled"
    )]
    OutOfStep {
        /// The node's address.
        address: String,
        /// Number of sent requests whose answers were not received.
        outstanding: usize,
    },
    /// A resolver could not merge an object's siblings into one value.
    #[error("siblings of {location} not resolved: {source}")]
    Unresolved {
        /// The object.
        location: Location,
        /// The resolver's error.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// An update gave up because other clients changed the object during each attempt.
    #[error("{location} was changed by others during each of {attempts} updates; try later")]
    Contended {
        /// The object.
        location: Location,
        /// Number of attempts.
        attempts: u32,
    },
    /// An update of a data type removes something but has no causal context.
    #[error(
        "removes from data types need the context of a read: fetch the record and give its context in the \
         options, or set without_context to remove everything that the replica has"
    )]
    ContextRequired,
    /// The client's settings can't work.
    #[error("{setting} is {value}; {remedy}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// Its current value.
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
    /// The server's text. Bytes that are not UTF-8 are replaced.
    pub message: String,
}

impl ServerError {
    /// True if a conditional write found another version than the one of its context.
    #[must_use]
    pub fn is_modified(&self) -> bool {
        self.message == "modified"
    }

    /// True if a write with `if_none_match` found an object.
    #[must_use]
    pub fn is_match_found(&self) -> bool {
        self.message == "match_found"
    }

    /// True if a write with `if_not_modified` found no object.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.message == "notfound"
    }

    /// True if the server could not answer within its time limit.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.message == "timeout"
    }

    /// True if the server was overloaded. The same request may succeed later.
    #[must_use]
    pub fn is_overload(&self) -> bool {
        self.message == "overload"
    }

    /// True if too few replicas answered. Some replicas may have carried out a write.
    #[must_use]
    pub fn is_quorum_unsatisfied(&self) -> bool {
        self.message.contains("val_unsatisfied")
    }
}

impl Error {
    /// The server's error, if the server refused the request.
    #[must_use]
    pub fn server(&self) -> Option<&ServerError> {
        match self {
            Error::Server(error) => Some(error),
            _ => None,
        }
    }
}
