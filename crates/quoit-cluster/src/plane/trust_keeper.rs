//! Keeps the node's certificate and its trust in others up to date.
//!
//! In every round the node makes itself a certificate of the issuing authority if it needs one,
//! trusts the authorities and tokens that the cluster has agreed on, and reports its progress for
//! rotations of the authority.

use super::ControlPlane;
use super::renewals::{NodeConnections, PlainConnectionEndings, Renewals};
use crate::NodeId;
use crate::state::State;
use crate::transport::{InboundNode, Internode, InternodeTlsMode, LinkKeys, LinkSecurity, Peer};
use crate::trust::{MemberTrust, Trust, TrustCommand};
use quoit_tls::nodes::{Authority, Fingerprint, LinkTrust, NodeSubject};
use quoit_tls::{Identity, Instant, TlsError};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Time before the expiry of its certificate at which a node renews it, in seconds.
const RENEWAL_SECS: i64 = 120 * 86_400;

/// Keeps a node's certificate, from round to round.
#[derive(Default)]
pub(crate) struct TrustKeeper {
    /// The trust from which the keys were made, and the number of removed nodes at that time.
    seen: Option<(Arc<Trust>, usize)>,
    /// Members to which plain connections are being replaced.
    renewals: Renewals,
    /// Members to which plain connections are being ended.
    endings: PlainConnectionEndings,
    /// Nodes from which plain connections are being ended.
    inbound_endings: PlainConnectionEndings,
    /// Reason why the last step failed. Logged once.
    complaint: Option<String>,
}

impl TrustKeeper {
    /// Makes the node's keys from the trust that the cluster has agreed on. Does nothing if there is no
    /// authority.
    pub(crate) fn refresh(&mut self, security: &LinkSecurity, state: &State) {
        let Some(issuing) = state.trust().issuing() else { return };
        let is_known = |authority| {
            let mut authorities = state.trust().authorities.iter();
            authorities.any(|known| known.fingerprint() == authority)
        };
        if security.joins_another(is_known) {
            return;
        }
        let removed_count = state.members().removed().count();
        let now = Instant::now();
        let is_seen = self.seen.as_ref().is_some_and(|(trust, count)| {
            Arc::ptr_eq(trust, state.trust()) && *count == removed_count
        });
        let own = security.keys().map(|keys| keys.identity.clone());
        let own = own.filter(|own| {
            issuer_of(own) == Some(issuing.fingerprint())
                && own.certificate().not_after > now.plus_secs(RENEWAL_SECS)
        });
        if is_seen && own.is_some() {
            return;
        }
        let made = own.map_or_else(|| issue(issuing, state, now), Ok);
        match made.and_then(|identity| LinkKeys::new(identity, link_trust(security, state))) {
            Ok(keys) => {
                if security.set_own_keys(keys) {
                    self.seen = Some((Arc::clone(state.trust()), removed_count));
                }
            }
            Err(fault) => self.complain(&fault.to_string()),
        }
    }

    /// Proposes an authority if this node needs one and the cluster has none. Otherwise
    /// reports the node's progress.
    pub(crate) async fn tell(
        &mut self,
        plane: &ControlPlane,
        security: &LinkSecurity,
        state: &State,
    ) {
        // The node has no cluster state yet, or no leader can accept a proposal now.
        if plane.awaits_cluster() || !plane.group().has_leader() {
            return;
        }
        let command = if state.trust().issuing().is_none() {
            if security.mode() == InternodeTlsMode::Plain {
                return;
            }
            match Authority::make(&state.cluster_id().to_string(), Instant::now()) {
                Ok(authority) => TrustCommand::Init(Arc::new(authority)),
                Err(fault) => return self.complain(&fault.to_string()),
            }
        } else {
            let Some(holder) = holder(security, state) else { return };
            let node = state.node_id();
            if state.trust().holders.get(&node) == Some(&holder) {
                return;
            }
            TrustCommand::Hold { node, holder }
        };
        match plane.run_trust(&command).await {
            Ok(()) => self.complaint = None,
            Err(fault) => self.complain(&fault.to_string()),
        }
    }

    /// Replaces plain connections to a member that has a certificate, one member at a time. If TLS is
    /// required, plain connections that are not replaced in time are ended.
    pub(crate) fn replace_plain_connections(&mut self, internode: &Internode, state: &State) {
        let security = internode.security();
        let mode = security.mode();
        if mode == InternodeTlsMode::Plain {
            return;
        }
        let (peers, inbound) = (internode.peers(), internode.inbound_nodes());
        let linked = |peer: &Arc<Peer>| {
            let node = peer.node_id();
            let holder = state.trust().holders.get(&node);
            let expires_secs = holder.map(|holder| holder.not_after.unix_secs());
            let dials_by_tls = inbound.get(&node).is_some_and(|inbound| inbound.is_secured);
            let (is_plain, is_up) = (peer.is_plain(), peer.is_up());
            NodeConnections { node, is_plain, is_up, expires_secs, dials_by_tls }
        };
        let members: Vec<NodeConnections> = peers.iter().map(linked).collect();
        let now = tokio::time::Instant::now();
        if security.keys().is_some()
            && let Some(node) = self.renewals.next(&members, now)
        {
            let chosen = peers.iter().filter(|peer| peer.node_id() == node);
            chosen.for_each(|peer| peer.renew_plain());
        }
        if mode == InternodeTlsMode::Required
            && let Some(node) = self.endings.next(&members, now)
        {
            let chosen = peers.iter().filter(|peer| peer.node_id() == node);
            chosen.for_each(|peer| peer.close_connections());
        }
    }

    /// Ends the plain connections of one other node that the mode does not allow, or that were made before
    /// the mode changed, if the other node has not replaced them in time.
    pub(crate) fn end_outdated(&mut self, internode: &Internode) {
        let nodes = internode.inbound_nodes();
        let linked = |node: NodeId| {
            let inbound = nodes.get(&node).copied();
            let is_up = inbound.is_some();
            let InboundNode { is_to_end, is_secured } = inbound.unwrap_or_default();
            let (is_plain, dials_by_tls) = (is_to_end, is_secured);
            NodeConnections { node, is_plain, is_up, expires_secs: None, dials_by_tls }
        };
        let mut members: BTreeSet<NodeId> = nodes.keys().copied().collect();
        members.extend(internode.peers().iter().map(|peer| peer.node_id()));
        let members: Vec<NodeConnections> = members.into_iter().map(linked).collect();
        if let Some(node) = self.inbound_endings.next(&members, tokio::time::Instant::now()) {
            internode.hang_up_inbound(node);
        }
    }

    fn complain(&mut self, reason: &str) {
        if self.complaint.as_deref() != Some(reason) {
            tracing::warn!(reason, "the node's certificate for other nodes is not as it should be");
            self.complaint = Some(reason.to_owned());
        }
    }
}

fn issue(issuing: &Authority, state: &State, now: Instant) -> Result<Identity, TlsError> {
    let node = state.node_id().to_string();
    issuing.issue(NodeSubject { node: &node, name: state.node_name() }, now)
}

/// Returns the digest of the authority that issued the node's certificate.
fn issuer_of(own: &Identity) -> Option<Fingerprint> {
    own.chain().get(1).map(|issuer| Fingerprint::of(issuer))
}

fn holder(security: &LinkSecurity, state: &State) -> Option<MemberTrust> {
    let keys = security.keys()?;
    let newest = state.trust().newest()?;
    let is_known = keys.trust.authorities.contains(newest.certificate());
    Some(MemberTrust {
        knows: if is_known { newest.fingerprint() } else { issuer_of(&keys.identity)? },
        holds: issuer_of(&keys.identity)?,
        not_after: keys.identity.certificate().not_after,
    })
}

fn link_trust(security: &LinkSecurity, state: &State) -> LinkTrust {
    let trust = state.trust();
    LinkTrust {
        authorities: trust.authorities.iter().map(|one| one.certificate().clone()).collect(),
        removed: state.members().removed().map(|(node, _)| node.to_string()).collect(),
        // A node that did not receive its answer asks again with a token that is used up. The cluster decides
        // whether a token is valid for a node when the node asks for its certificate.
        tokens: trust.tokens.iter().map(|(id, token)| (*id, token.expires)).collect(),
        secret: security.secret().cloned(),
    }
}
