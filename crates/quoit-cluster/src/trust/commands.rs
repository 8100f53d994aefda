//! Commands on the authority and its tokens.

use super::state::{Holder, TrustToken};
use crate::NodeId;
use quoit_tls::nodes::{Authority, Fingerprint};
use std::sync::Arc;

/// A change of authority or tokens, or what a member tells of itself.
#[derive(Clone, Debug)]
pub(crate) enum TrustCommand {
    /// The cluster gets this authority, unless it has one.
    Init(Arc<Authority>),
    /// This authority takes the place of the one before, step by step.
    Rotate(Arc<Authority>),
    /// A token lets nodes join.
    AddToken { id: Fingerprint, token: TrustToken },
    /// A token lets no node join any more. It is named by the beginning of its digest.
    RevokeToken { id: String },
    /// A node uses a token.
    UseToken { id: Fingerprint, node: NodeId },
    /// A member tells how far it has come.
    Hold { node: NodeId, holder: Holder },
}
