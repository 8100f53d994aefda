//! Commands on the authority and its tokens.

use super::state::{MemberTrust, TrustToken};
use crate::NodeId;
use quoit_tls::nodes::{Authority, Fingerprint};
use std::sync::Arc;

/// A change of the authority or of tokens, or a report of a member.
#[derive(Clone, Debug)]
pub(crate) enum TrustCommand {
    /// Gives the cluster this authority, unless it has one.
    Init(Arc<Authority>),
    /// Begins a rotation to this authority.
    Rotate(Arc<Authority>),
    /// Adds a token with which nodes can join.
    AddToken { id: Fingerprint, token: TrustToken },
    /// Revokes a token, which is named by the beginning of its digest.
    RevokeToken { id: String },
    /// Uses a token for a node.
    UseToken { id: Fingerprint, node: NodeId },
    /// A member reports the authorities that it knows and the certificate that it holds.
    Hold { node: NodeId, holder: MemberTrust },
}
