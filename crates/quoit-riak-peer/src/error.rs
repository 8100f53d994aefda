//! Errors of the communication with a peer.

use quoit_riak::{FetchedError, TreeError};
use std::time::Duration;
use thiserror::Error;

/// Reason why a peer did not give a proper answer.
#[derive(Debug, Error)]
pub enum PeerError {
    /// The connection failed or was lost, or the peer answered with an error.
    #[error(transparent)]
    Client(#[from] quoit_client::Error),
    /// An HTTP request failed, or got another status than 200.
    #[error("{path}: {reason}")]
    Http {
        /// Path of the request.
        path: String,
        /// Status and text, or the fault of the connection.
        reason: String,
    },
    /// No answer in time.
    #[error("no answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// An answer that can't be read.
    #[error("the answer has {0}, which Riak never sends")]
    Malformed(String),
    /// A fetched object that is damaged.
    #[error("a fetched object: {0}")]
    Fetched(#[from] FetchedError),
    /// A part of a tree that can't be read.
    #[error("a tree: {0}")]
    Tree(#[from] TreeError),
    /// This cluster's own store failed.
    #[error("this cluster: {0}")]
    Own(String),
}

impl PeerError {
    pub(crate) fn malformed(part: impl ToString) -> Self {
        Self::Malformed(part.to_string())
    }
}
