//! The security of connections between nodes as operators see it.

use crate::transport::{LinkMode, PlainLink};
use quoit_tls::Instant;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A token that was made just now.
#[derive(Clone, Debug)]
pub struct IssuedToken {
    /// The token itself. A secret.
    pub secret_text: String,
    /// The token as lists show it.
    pub view: TokenView,
}

/// A token that lets nodes join, without what makes it one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenView {
    /// The name of the token.
    pub id: String,
    /// Its end.
    pub expires: Instant,
    /// So many more nodes may use it.
    pub uses_left: u32,
    /// The nodes that have used it: names of members, identities of others.
    pub nodes: Vec<Arc<str>>,
}

/// A member's certificate and connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberLink {
    /// Name of the member.
    pub name: Arc<str>,
    /// The authority that has issued its certificate; none: it has told of no certificate.
    pub authority: Option<String>,
    /// The end of its certificate.
    pub not_after: Option<Instant>,
    /// Whether this node's connections to it have no TLS; none where there is none just now.
    pub is_plain: Option<bool>,
}

/// The security of this node's connections to other nodes.
#[derive(Clone, Debug)]
pub struct LinkView {
    /// The mode of this node.
    pub mode: LinkMode,
    /// The authorities that count, the oldest first: digest and end.
    pub authorities: Vec<(String, Instant)>,
    /// Digest of the one that issues.
    pub issuing: Option<String>,
    /// Names of the members that a rotation of the authority waits for.
    pub awaited: Vec<Arc<str>>,
    /// The end of the certificate that this node shows.
    pub not_after: Option<Instant>,
    /// All members.
    pub members: Vec<MemberLink>,
    /// Tokens that are good.
    pub tokens: Vec<TokenView>,
    /// Plain connections since the start of the node, by host.
    pub plain: BTreeMap<String, PlainLink>,
    /// Whether a shared secret (`distributed_cookie`) lets nodes join.
    pub has_secret: bool,
}
