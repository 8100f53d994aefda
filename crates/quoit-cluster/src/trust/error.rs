//! Refusals of operations on the cluster's authority.

use quoit_tls::TlsError;
use thiserror::Error;

use super::state::TOKENS_MAX;

/// Reason why an operation on the cluster's authority is refused. Displayed for operators.
#[derive(Debug, Error)]
pub enum TrustError {
    /// The cluster has no authority.
    #[error("the cluster has no authority yet: make one with `quoit admin cluster init`")]
    NoAuthority,
    /// A rotation is in progress.
    #[error(
        "the authority is being rotated already, and waits for: {}; `quoit admin cluster tls` shows how far \
         it is",
        members.join(", ")
    )]
    Rotating {
        /// Names of the members that the rotation waits for.
        members: Vec<String>,
    },
    /// The maximum number of tokens exists already.
    #[error(
        "the cluster has the maximum of {TOKENS_MAX} valid join tokens; revoke some (`quoit admin cluster \
         token revoke ID`)"
    )]
    TooManyTokens,
    /// No token has this name.
    #[error("there is no join token {id}; `quoit admin cluster token list` shows all")]
    NoToken {
        /// The name.
        id: String,
    },
    /// The token has expired.
    #[error("the join token {id} has expired; make another with `quoit admin cluster token`")]
    TokenExpired {
        /// Name of the token.
        id: String,
    },
    /// The token was used as often as it may be.
    #[error(
        "the join token {id} was used by as many nodes as it was made for; make another with `quoit admin \
         cluster token`"
    )]
    TokenUsed {
        /// Name of the token.
        id: String,
    },
    /// The requested number of uses or the lifetime of a token is out of bounds.
    #[error(
        "a join token is for 1 to 1000 nodes and for 1 minute to 30 days, not for {nodes} and {secs} s"
    )]
    TokenBounds {
        /// Requested number of nodes.
        nodes: u32,
        /// Requested lifetime, in seconds.
        secs: u64,
    },
    /// The node was removed and must not return.
    #[error("node {node} was removed from this cluster; start it with an empty data directory")]
    Removed {
        /// The node.
        node: String,
    },
    /// The request for a certificate is malformed.
    #[error("the request for a certificate is invalid: {0}")]
    Malformed(String),
    /// A certificate could not be made.
    #[error(transparent)]
    Tls(#[from] TlsError),
}
