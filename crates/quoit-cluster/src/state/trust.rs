//! Decides on commands about the authority and its tokens.

use super::State;
use crate::NodeId;
use crate::change::Change;
use crate::trust::{TOKENS_MAX, Trust, TrustCommand, TrustError};
use quoit_tls::Instant;
use quoit_tls::nodes::Fingerprint;
use std::collections::BTreeSet;
use std::sync::Arc;

impl State {
    /// Returns the changes that a command makes at the time `now`. The list is empty if the
    /// state is already as wanted.
    pub(crate) fn decide_trust(
        &self,
        command: &TrustCommand,
        now: Instant,
    ) -> Result<Vec<Change>, TrustError> {
        let trust = self.trust();
        if let TrustCommand::Init(_) = command {
            if !trust.authorities.is_empty() {
                return Ok(Vec::new());
            }
        } else if trust.authorities.is_empty() {
            return Err(TrustError::NoAuthority);
        }
        let members: BTreeSet<NodeId> = self.members().iter().map(|member| member.id).collect();
        let changed = self.changed_trust(command, now, &members)?.settled(&members, now);
        if changed == **trust {
            return Ok(Vec::new());
        }
        Ok(vec![Change::PutTrust(Arc::new(changed))])
    }

    fn changed_trust(
        &self,
        command: &TrustCommand,
        now: Instant,
        members: &BTreeSet<NodeId>,
    ) -> Result<Trust, TrustError> {
        let mut trust = (**self.trust()).clone();
        match command {
            TrustCommand::Init(authority) => {
                trust.issuing = Some(authority.fingerprint());
                trust.authorities.push(Arc::clone(authority));
            }
            TrustCommand::Rotate(authority) => {
                if trust.is_rotating() {
                    let awaited = trust.awaited(members.iter().copied());
                    let name = |node: &NodeId| self.members().name_of(*node).to_string();
                    return Err(TrustError::Rotating {
                        members: awaited.iter().map(name).collect(),
                    });
                }
                trust.authorities.push(Arc::clone(authority));
            }
            TrustCommand::AddToken { id, token } => {
                trust.tokens.retain(|_, token| token.expires > now);
                if trust.tokens.len() >= TOKENS_MAX {
                    // A used-up token serves only nodes that ask again.
                    trust.tokens.retain(|_, token| token.uses_left > 0);
                }
                if trust.tokens.len() >= TOKENS_MAX {
                    return Err(TrustError::TooManyTokens);
                }
                trust.tokens.insert(*id, token.clone());
            }
            TrustCommand::RevokeToken { id } => {
                let found = trust.tokens.keys().find(|token| token.short() == *id).copied();
                let found = found.ok_or_else(|| TrustError::NoToken { id: id.clone() })?;
                trust.tokens.remove(&found);
            }
            TrustCommand::UseToken { id, node } => self.use_token(&mut trust, *id, *node, now)?,
            TrustCommand::Hold { node, holder } => {
                trust.holders.insert(*node, *holder);
            }
        }
        Ok(trust)
    }

    fn use_token(
        &self,
        trust: &mut Trust,
        id: Fingerprint,
        node: NodeId,
        now: Instant,
    ) -> Result<(), TrustError> {
        if self.members().is_removed(node) {
            return Err(TrustError::Removed { node: node.to_string() });
        }
        let token = trust.tokens.get_mut(&id);
        let token = token.ok_or_else(|| TrustError::NoToken { id: id.short() })?;
        if token.expires <= now {
            return Err(TrustError::TokenExpired { id: id.short() });
        }
        // The node asks again because it did not get the answer.
        if token.nodes.contains(&node) {
            return Ok(());
        }
        token.uses_left = token
            .uses_left
            .checked_sub(1)
            .ok_or_else(|| TrustError::TokenUsed { id: id.short() })?;
        token.nodes.insert(node);
        Ok(())
    }
}
