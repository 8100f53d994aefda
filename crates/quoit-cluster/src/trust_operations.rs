//! Operations on the authority, on tokens, and on the security of connections.

use crate::error::ChangeError;
use crate::plane::ControlPlane;
use crate::state::State;
use crate::transport::{InternodeTlsMode, LinkSecurity};
use crate::trust::{
    IssuedToken, LinkView, MemberLink, TokenView, TrustCommand, TrustError, TrustToken,
};
use quoit_tls::Instant;
use quoit_tls::nodes::{Authority, Fingerprint, JoinToken, SharedSecret};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Allowed numbers of nodes that may use one token.
const TOKEN_NODES: RangeInclusive<u32> = 1..=1000;
/// Allowed lifetimes of a token, in seconds.
const TOKEN_SECS: RangeInclusive<u64> = 60..=30 * 86_400;

impl ControlPlane {
    /// Makes the authority of the cluster, unless there is one. Members then make themselves certificates.
    ///
    /// # Errors
    ///
    /// As [`ControlPlane::run`].
    pub async fn init_authority(&self) -> Result<(), ChangeError> {
        let authority = self.new_authority()?;
        self.run_trust(&TrustCommand::Init(authority)).await
    }

    /// Begins a rotation of the cluster's authority. Members take up the new authority in
    /// steps. No connection ends.
    ///
    /// # Errors
    ///
    /// [`TrustError`] if there is no authority or a rotation is in progress, and as [`ControlPlane::run`].
    pub async fn rotate_authority(&self) -> Result<(), ChangeError> {
        let authority = self.new_authority()?;
        self.run_trust(&TrustCommand::Rotate(authority)).await
    }

    fn new_authority(&self) -> Result<Arc<Authority>, ChangeError> {
        let name = self.read().cluster_id().to_string();
        let authority = Authority::make(&name, Instant::now()).map_err(TrustError::from)?;
        Ok(Arc::new(authority))
    }

    /// Makes a token with which `nodes` nodes can join within `lifetime`.
    ///
    /// # Errors
    ///
    /// [`TrustError`] if there is no authority, if there are too many tokens, or if an argument is out of
    /// bounds; and as [`ControlPlane::run`].
    pub async fn issue_token(
        &self,
        nodes: u32,
        lifetime: Duration,
    ) -> Result<IssuedToken, ChangeError> {
        let secs = lifetime.as_secs();
        if !TOKEN_NODES.contains(&nodes) || !TOKEN_SECS.contains(&secs) {
            return Err(TrustError::TokenBounds { nodes, secs }.into());
        }
        let newest = self.read().trust().newest().map(|newest| newest.fingerprint());
        let newest = match self.read().trust().issuing() {
            // A node that joins now is shown certificates of the issuing authority, not of the newest one.
            Some(issuing) => Some(issuing.fingerprint()),
            None => newest,
        };
        let authority = newest.ok_or(TrustError::NoAuthority)?;
        let made = JoinToken::make(authority).map_err(TrustError::from)?;
        let id = made.id().map_err(TrustError::from)?;
        let expires = Instant::now().plus_secs(i64::try_from(secs).unwrap_or(i64::MAX));
        let token = TrustToken { expires, uses_left: nodes, nodes: BTreeSet::new() };
        let view = token_view(&self.read(), &id, &token);
        self.run_trust(&TrustCommand::AddToken { id, token }).await?;
        Ok(IssuedToken { secret_text: made.secret_text(), view })
    }

    /// Revokes a token, which is named as lists show it.
    ///
    /// # Errors
    ///
    /// [`TrustError::NoToken`] if there is no such token, and as [`ControlPlane::run`].
    pub async fn revoke_token(&self, id: &str) -> Result<(), ChangeError> {
        self.run_trust(&TrustCommand::RevokeToken { id: id.to_owned() }).await
    }

    /// Returns the shared secret with which nodes can join, if one is set.
    #[must_use]
    pub fn shared_secret(&self) -> Option<SharedSecret> {
        self.link().internode()?.security().secret().cloned()
    }

    /// Returns the security of this node's connections; `None` for a node without connections.
    #[must_use]
    pub fn link_view(&self) -> Option<LinkView> {
        let internode = self.link().internode()?;
        let security = internode.security();
        let state = self.state();
        let trust = state.trust();
        let awaited = trust.awaited(state.members().iter().map(|member| member.id));
        let member = |id| {
            let holder = trust.holders.get(&id);
            let peer = internode.peer(id).filter(|peer| peer.is_up());
            MemberLink {
                name: state.members().name_of(id).to_string().into(),
                authority: holder.map(|holder| holder.holds.short()),
                not_after: holder.map(|holder| holder.not_after),
                is_plain: peer.map(|peer| peer.is_plain()),
            }
        };
        let authority = |authority: &Arc<Authority>| {
            let end = authority.parsed().ok()?.not_after;
            Some((authority.fingerprint().short(), end))
        };
        Some(LinkView {
            mode: security.mode(),
            authorities: trust.authorities.iter().filter_map(authority).collect(),
            issuing: trust.issuing.map(|issuing| issuing.short()),
            awaited: awaited
                .iter()
                .map(|id| state.members().name_of(*id).to_string().into())
                .collect(),
            not_after: security.keys().map(|keys| keys.identity.certificate().not_after),
            members: state.members().iter().map(|one| member(one.id)).collect(),
            tokens: trust.tokens.iter().map(|(id, token)| token_view(&state, id, token)).collect(),
            plain: security.plain_links(),
            has_secret: security.secret().is_some(),
        })
    }

    /// Sets the mode of this node's connections to other nodes. Existing connections without TLS are
    /// replaced if the other side accepts TLS. Connections from other nodes that are not replaced, and
    /// connections to other nodes that a stricter mode does not allow, are ended for one node after the
    /// other. Returns the hosts that had plain connections while those were counted, if the mode is
    /// `required`; else an empty list.
    pub fn set_link_mode(&self, mode: InternodeTlsMode) -> Vec<String> {
        let Some(internode) = self.link().internode() else { return Vec::new() };
        let security: &Arc<LinkSecurity> = internode.security();
        let before = security.mode();
        security.set_mode(mode);
        if before != mode && mode != InternodeTlsMode::Plain {
            internode.outdate_plain_inbound();
        }
        if mode != InternodeTlsMode::Required {
            return Vec::new();
        }
        security.plain_links().into_keys().collect()
    }
}

fn token_view(state: &State, id: &Fingerprint, token: &TrustToken) -> TokenView {
    let name = |node: &crate::NodeId| state.members().name_of(*node).to_string().into();
    TokenView {
        id: id.short(),
        expires: token.expires,
        uses_left: token.uses_left,
        nodes: token.nodes.iter().map(name).collect(),
    }
}
