//! Errors of a peer.

use quoit_riak::{FetchedError, TreeError};
use std::time::Duration;
use thiserror::Error;

/// Why a peer has not answered as it should.
#[derive(Debug, Error)]
pub enum PeerError {
    /// The connection could not be made or was lost, or the peer has answered with an error.
    #[error(transparent)]
    Client(#[from] quoit_client::Error),
    /// An answer over HTTP that says no, or none.
    #[error("{path}: {reason}")]
    Http {
        /// Path of the request.
        path: String,
        /// Status and text, or what happened to the connection.
        reason: String,
    },
    /// No answer within the time.
    #[error("no answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// An answer that is none.
    #[error("the answer has {0}, which no Riak answers")]
    Malformed(String),
    /// A fetched object that is damaged, or none.
    #[error("a fetched object: {0}")]
    Fetched(#[from] FetchedError),
    /// A part of a tree that is none.
    #[error("a tree: {0}")]
    Tree(#[from] TreeError),
    /// The own store has not answered.
    #[error("this cluster: {0}")]
    Own(String),
}

impl PeerError {
    pub(crate) fn malformed(part: impl ToString) -> Self {
        Self::Malformed(part.to_string())
    }
}
