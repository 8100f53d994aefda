//! Why something about the cluster's authority is refused.

use quoit_tls::TlsError;
use thiserror::Error;

use super::state::TOKENS_MAX;

/// Why something about the cluster's authority is refused. Displayed for operators.
#[derive(Debug, Error)]
pub enum TrustError {
    /// There is no authority.
    #[error("the cluster has no authority yet: make one with `quoit admin cluster init`")]
    NoAuthority,
    /// A rotation is under way.
    #[error(
        "the authority is being rotated already, and waits for: {}; `quoit admin cluster tls` shows how far \
         it is",
        members.join(", ")
    )]
    Rotating {
        /// Names of the members that it waits for.
        members: Vec<String>,
    },
    /// There are as many tokens as there may be.
    #[error(
        "there are {TOKENS_MAX} join tokens that are good, and no more are possible; revoke some \
         (`quoit admin cluster token revoke ID`)"
    )]
    TooManyTokens,
    /// No token has this name.
    #[error("there is no join token {id}; `quoit admin cluster token list` shows all")]
    NoToken {
        /// The name.
        id: String,
    },
    /// The token is over.
    #[error("the join token {id} has expired; make another with `quoit admin cluster token`")]
    TokenExpired {
        /// Its name.
        id: String,
    },
    /// The token was used as often as it may be.
    #[error(
        "the join token {id} was used by as many nodes as it was made for; make another with `quoit admin \
         cluster token`"
    )]
    TokenUsed {
        /// Its name.
        id: String,
    },
    /// A token that would be of no use.
    #[error(
        "a join token is for 1 to 1000 nodes and for 1 minute to 30 days, not for {nodes} and {secs} s"
    )]
    TokenBounds {
        /// Nodes that it was to be for.
        nodes: u32,
        /// Seconds that it was to last.
        secs: u64,
    },
    /// The node was removed, and may not come back.
    #[error("node {node} was removed from this cluster; start it with an empty data directory")]
    Removed {
        /// The node.
        node: String,
    },
    /// A request for a certificate that is none.
    #[error("the request for a certificate makes no sense: {0}")]
    Malformed(String),
    /// A certificate could not be made.
    #[error(transparent)]
    Tls(#[from] TlsError),
}
