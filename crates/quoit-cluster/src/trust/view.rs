//! The security of connections between nodes, as operators see it.

use crate::transport::{InternodeTlsMode, PlainLink};
use quoit_tls::Instant;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A token that was just made.
#[derive(Clone, Debug)]
pub struct IssuedToken {
    /// The token itself, which is a secret.
    pub secret_text: String,
    /// The token as lists show it.
    pub view: TokenView,
}

/// A token with which nodes can join, without its secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenView {
    /// Name of the token.
    pub id: String,
    /// Expiry of the token.
    pub expires: Instant,
    /// Number of further nodes that may use it.
    pub uses_left: u32,
    /// Nodes that have used it: names of members, identities of others.
    pub nodes: Vec<Arc<str>>,
}

/// A member's certificate, and the connections to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberLink {
    /// Name of the member.
    pub name: Arc<str>,
    /// Name of the authority that issued its certificate; `None` if it has reported no certificate.
    pub authority: Option<String>,
    /// Expiry of its certificate.
    pub not_after: Option<Instant>,
    /// True if this node is connected to it without TLS; `None` if there is no connection at present.
    pub is_plain: Option<bool>,
}

/// The security of this node's connections to other nodes.
#[derive(Clone, Debug)]
pub struct LinkView {
    /// The mode of this node.
    pub mode: InternodeTlsMode,
    /// The trusted authorities, oldest first: name and expiry.
    pub authorities: Vec<(String, Instant)>,
    /// Name of the authority that issues certificates.
    pub issuing: Option<String>,
    /// Names of the members that a rotation of the authority waits for.
    pub awaited: Vec<Arc<str>>,
    /// Expiry of this node's certificate.
    pub not_after: Option<Instant>,
    /// All members.
    pub members: Vec<MemberLink>,
    /// All tokens that were not revoked or dropped.
    pub tokens: Vec<TokenView>,
    /// Plain connections since the start of the node, by host.
    pub plain: BTreeMap<String, PlainLink>,
    /// True if nodes can join with a shared secret (`distributed_cookie`).
    pub has_secret: bool,
}
