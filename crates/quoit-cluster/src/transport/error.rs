//! Errors of calls and of connections.

use quoit_number::saturating_u64;
use quoit_tls::{failure_words, is_alert};
use quoit_wire::internode::{HelloError, InternodeFrameError, VersionRange};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Reason why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    /// There is no connection to the node, and none could be made. The request was not sent.
    #[error("the node can't be reached: {0}")]
    Unreachable(Arc<str>),
    /// The connection broke before the answer came. The node may have carried out the request.
    #[error("the connection broke before the answer came: {0}")]
    Disconnected(Arc<str>),
    /// The bound of open calls to the node is reached. The request was not sent.
    #[error(
        "{outstanding_bytes} bytes in {outstanding_count} calls are under way to the node already; try later"
    )]
    TooBusy {
        /// Bytes of requests without a last answer.
        outstanding_bytes: u64,
        /// Number of requests without a last answer.
        outstanding_count: u32,
    },
    /// The request is larger than the largest frame. It was not sent.
    #[error("a request of {size_bytes} bytes is above the limit of {size_bytes_max}")]
    TooLarge {
        /// Size of the request in bytes.
        size_bytes: u64,
        /// The limit in bytes.
        size_bytes_max: u64,
    },
    /// The node refused the request.
    #[error("the node refused (code {code}): {text}")]
    Refused {
        /// One of [`quoit_wire::internode::code`], or a code of the service.
        code: u32,
        /// Reason, for people.
        text: Arc<str>,
    },
    /// No answer came in time. The node may have carried out the request.
    #[error("no answer within {after_ms} ms")]
    Timeout {
        /// Time for which the caller waited, in milliseconds.
        after_ms: u64,
    },
}

impl CallError {
    /// Returns the error that no answer came within `limit`.
    #[must_use]
    pub const fn timeout(limit: Duration) -> CallError {
        CallError::Timeout { after_ms: saturating_u64(limit.as_millis()) }
    }
}

/// Reason why a connection between two nodes ended or was not made.
#[derive(Debug, Error)]
pub(super) enum Fault {
    #[error("{0}")]
    Io(std::io::Error),
    #[error("the node closed the connection")]
    Closed,
    #[error("no proof of membership: {0}")]
    Tls(String),
    /// The other side refused this side's certificate after the handshake.
    #[error("no proof of membership: {0}")]
    Alert(String),
    #[error(
        "internode.tls = required, and this node has no certificate of a cluster yet: let it join with a \
         token (`quoit admin cluster join ADDRESS --token-file FILE`)"
    )]
    NoCertificate,
    #[error("this node has no certificate of a cluster, or internode.tls = plain")]
    NoTls,
    #[error("{0}")]
    Frame(#[from] InternodeFrameError),
    #[error("{0}")]
    Hello(#[from] HelloError),
    #[error(
        "the node speaks versions {theirs} of the protocol, this one {ours}; upgrade the older one"
    )]
    Version { theirs: VersionRange, ours: VersionRange },
    #[error(
        "the node at {address} is {found}, not {expected}: the address of that node has changed, or it has \
         lost its data directory"
    )]
    OtherNode { address: String, found: crate::NodeId, expected: crate::NodeId },
    #[error("{text}")]
    Refused { code: u32, text: String },
    #[error("{0}")]
    Clock(String),
    #[error("{0}")]
    Outdated(String),
    #[error("no {what} within {after_ms} ms")]
    Timeout { what: &'static str, after_ms: u64 },
    #[error("a frame of kind {kind} is not allowed here")]
    OutOfPlace { kind: u8 },
    #[error(
        "the node sent more requests than the window of {window_bytes} bytes in {window_calls} calls allows"
    )]
    WindowExceeded { window_bytes: u64, window_calls: u32 },
    #[error("the node used the number {call} for two calls at once")]
    CallTwice { call: u32 },
    #[error("the node is no longer a peer at this address")]
    Retired,
}

impl Fault {
    /// Returns the fault of `what`, which did not arrive within `limit`.
    pub(super) const fn timeout(what: &'static str, limit: Duration) -> Fault {
        Fault::Timeout { what, after_ms: saturating_u64(limit.as_millis()) }
    }
}

impl From<std::io::Error> for Fault {
    /// Converts an error of the stream. The end of a TLS stream without a closing message is an ordinary
    /// end, because a process that dies sends none. An alert may also come after the handshake: in TLS 1.3
    /// the other side may refuse a certificate only then.
    fn from(fault: std::io::Error) -> Self {
        match fault.kind() {
            std::io::ErrorKind::UnexpectedEof => Self::Closed,
            _ if is_alert(&fault) => Self::Alert(failure_words(&fault)),
            _ => Self::Io(fault),
        }
    }
}
