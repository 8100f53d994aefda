//! The authority and tokens as the cluster has agreed on them.

use crate::NodeId;
use quoit_tls::Instant;
use quoit_tls::nodes::{Authority, Fingerprint};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Tokens that are good at the same time, at most.
pub const TOKENS_MAX: usize = 1000;

/// The authority, the tokens that let nodes join, and the certificates that members hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trust {
    /// The authorities whose certificates count, the oldest first.
    pub(crate) authorities: Vec<Arc<Authority>>,
    /// The one that issues.
    pub(crate) issuing: Option<Fingerprint>,
    /// Tokens by the digests of their keys.
    pub(crate) tokens: BTreeMap<Fingerprint, TrustToken>,
    /// Certificates by the member that holds them.
    pub(crate) holders: BTreeMap<NodeId, Holder>,
}

/// A token that lets nodes join.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrustToken {
    /// Its end.
    pub expires: Instant,
    /// So many more nodes may use it.
    pub uses_left: u32,
    /// The nodes that have.
    pub nodes: BTreeSet<NodeId>,
}

/// How far a member has come with authorities and certificates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The newest authority whose certificates it takes.
    pub knows: Fingerprint,
    /// The authority that has issued its certificate.
    pub holds: Fingerprint,
    /// The end of its certificate.
    pub not_after: Instant,
}

impl Trust {
    /// The authority that issues certificates.
    #[must_use]
    pub fn issuing(&self) -> Option<&Arc<Authority>> {
        let issuing = self.issuing?;
        self.authorities.iter().find(|authority| authority.fingerprint() == issuing)
    }

    /// The newest authority: the one that issues, or will.
    #[must_use]
    pub fn newest(&self) -> Option<&Arc<Authority>> {
        self.authorities.last()
    }

    /// Whether a rotation is under way.
    #[must_use]
    pub fn is_rotating(&self) -> bool {
        self.authorities.len() > 1
    }

    /// Members of those given that the rotation waits for just now.
    pub(crate) fn awaited(&self, members: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
        let Some(newest) = self.newest().map(|newest| newest.fingerprint()) else {
            return Vec::new();
        };
        if !self.is_rotating() {
            return Vec::new();
        }
        let issues = self.issuing == Some(newest);
        let lacks = |holder: Option<&Holder>| match holder {
            Some(holder) if issues => holder.holds != newest,
            Some(holder) => holder.knows != newest,
            None => true,
        };
        members.filter(|member| lacks(self.holders.get(member))).collect()
    }

    /// The trust that this one comes to by itself when `members` are all: what nobody needs any more is
    /// dropped, and a rotation goes on.
    pub(crate) fn settled(mut self, members: &BTreeSet<NodeId>, now: Instant) -> Trust {
        self.holders.retain(|node, _| members.contains(node));
        self.tokens.retain(|_, token| token.expires > now);
        if self.is_rotating() && self.awaited(members.iter().copied()).is_empty() {
            let newest = self.newest().map(|newest| newest.fingerprint());
            if self.issuing == newest {
                self.authorities.drain(..self.authorities.len() - 1);
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

    fn holder(knows: &Authority, holds: &Authority) -> Holder {
        Holder {
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
        // A removed member holds nothing up.
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
