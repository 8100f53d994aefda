//! The authority and the tokens, as the cluster has agreed on them.

use crate::NodeId;
use quoit_tls::Instant;
use quoit_tls::nodes::{Authority, Fingerprint};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of valid tokens at the same time.
pub const TOKENS_MAX: usize = 1000;

/// The authority, the tokens with which nodes join, and the certificates that members hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trust {
    /// The trusted authorities, oldest first.
    pub(crate) authorities: Vec<Arc<Authority>>,
    /// Digest of the authority that issues certificates.
    pub(crate) issuing: Option<Fingerprint>,
    /// Tokens by the digests of their keys.
    pub(crate) tokens: BTreeMap<Fingerprint, TrustToken>,
    /// Certificates by the member that holds them.
    pub(crate) holders: BTreeMap<NodeId, MemberTrust>,
}

/// A token with which nodes can join.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrustToken {
    /// Expiry of the token.
    pub expires: Instant,
    /// Number of further nodes that may use it.
    pub uses_left: u32,
    /// Nodes that have used it.
    pub nodes: BTreeSet<NodeId>,
}

/// Progress of a member with authorities and certificates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberTrust {
    /// The newest authority that it trusts.
    pub knows: Fingerprint,
    /// The authority that issued its certificate.
    pub holds: Fingerprint,
    /// Expiry of its certificate.
    pub not_after: Instant,
}

impl Trust {
    /// Returns the authority that issues certificates.
    #[must_use]
    pub fn issuing(&self) -> Option<&Arc<Authority>> {
        let issuing = self.issuing?;
        self.authorities.iter().find(|authority| authority.fingerprint() == issuing)
    }

    /// Returns the newest authority: the one that issues certificates, or will issue them after a
    /// rotation.
    #[must_use]
    pub fn newest(&self) -> Option<&Arc<Authority>> {
        self.authorities.last()
    }

    /// Returns true if a rotation is in progress.
    #[must_use]
    pub fn is_rotating(&self) -> bool {
        self.authorities.len() > 1
    }

    /// Returns the given members that the current step of the rotation waits for.
    pub(crate) fn awaited(&self, members: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
        let Some(newest) = self.newest().map(|newest| newest.fingerprint()) else {
            return Vec::new();
        };
        if !self.is_rotating() {
            return Vec::new();
        }
        let issues = self.issuing == Some(newest);
        let lacks = |holder: Option<&MemberTrust>| match holder {
            Some(holder) if issues => holder.holds != newest,
            Some(holder) => holder.knows != newest,
            None => true,
        };
        members.filter(|member| lacks(self.holders.get(member))).collect()
    }

    /// Returns the trust after the steps that follow by themselves, with `members` as all members:
    /// certificates of former members and expired tokens are dropped, and a rotation takes its next step
    /// if no member delays it.
    pub(crate) fn settled(mut self, members: &BTreeSet<NodeId>, now: Instant) -> Trust {
        self.holders.retain(|node, _| members.contains(node));
        self.tokens.retain(|_, token| token.expires > now);
        if self.is_rotating() && self.awaited(members.iter().copied()).is_empty() {
            let newest = self.newest().map(|newest| newest.fingerprint());
            if self.issuing == newest {
                self.authorities.drain(..self.authorities.len() - 1);
                debug_assert!(self.issuing().is_some(), "the authority that issues stays trusted");
            } else {
                self.issuing = newest;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_unix_secs(1_800_000_000);

    fn holder(knows: &Authority, holds: &Authority) -> MemberTrust {
        MemberTrust {
            knows: knows.fingerprint(),
            holds: holds.fingerprint(),
            not_after: NOW.plus_secs(9),
        }
    }

    #[test]
    fn a_rotation_takes_each_step_when_all_members_have_taken_the_one_before() {
        let (old, new) = (Authority::make("c", NOW).unwrap(), Authority::make("c", NOW).unwrap());
        let (one, two) = (NodeId([1; 16]), NodeId([2; 16]));
        let members: BTreeSet<_> = [one, two].into();
        let mut trust = Trust {
            authorities: vec![Arc::new(old.clone()), Arc::new(new.clone())],
            issuing: Some(old.fingerprint()),
            ..Trust::default()
        };
        trust.holders.insert(one, holder(&new, &old));
        trust = trust.settled(&members, NOW);
        assert_eq!(trust.issuing, Some(old.fingerprint()), "two has said nothing");
        assert_eq!(trust.awaited(members.iter().copied()), [two]);
        trust.holders.insert(two, holder(&new, &old));
        trust = trust.settled(&members, NOW);
        assert_eq!(trust.issuing, Some(new.fingerprint()));
        assert!(trust.is_rotating());
        assert_eq!(trust.awaited(members.iter().copied()), [one, two]);
        trust.holders.insert(one, holder(&new, &new));
        trust = trust.settled(&members, NOW);
        assert!(trust.is_rotating());
        // A removed member does not delay the rotation.
        trust = trust.settled(&[one].into(), NOW);
        assert!(!trust.is_rotating());
        assert_eq!(trust.issuing().map(|issuing| issuing.fingerprint()), Some(new.fingerprint()));
    }

    #[test]
    fn tokens_that_are_over_are_dropped() {
        let token = |secs| TrustToken {
            expires: NOW.plus_secs(secs),
            uses_left: 1,
            nodes: BTreeSet::new(),
        };
        let tokens = [(Fingerprint([1; 32]), token(1)), (Fingerprint([2; 32]), token(0))];
        let trust = Trust { tokens: tokens.into(), ..Trust::default() };
        let left = trust.settled(&BTreeSet::new(), NOW).tokens;
        assert_eq!(left.into_keys().collect::<Vec<_>>(), [Fingerprint([1; 32])]);
    }
}
