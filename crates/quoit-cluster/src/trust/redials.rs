//! Members that are dialed anew, so that connections of before they had a certificate get TLS.

use crate::NodeId;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// How long the next member waits for one that was dialed anew and does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A member, as its connections stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linked {
    pub(super) node: NodeId,
    /// Whether this node is connected to it without TLS.
    pub(super) is_plain: bool,
    /// Whether this node is connected to it at all.
    pub(super) is_up: bool,
    /// When its certificate expires, seconds since 1970; `None` without one.
    pub(super) expires_secs: Option<i64>,
}

/// The plain connections that are to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Demand {
    /// Those to members with certificates, each once for each certificate.
    Certified,
    /// All: none may be plain, and none is made plain again.
    All,
}

/// Chooses the members to be dialed anew, one at a time: while a node redials all others at once, it is the
/// only replica that its own writes can reach, and a sloppy quorum would count it several times.
#[derive(Default)]
pub(super) struct Redials {
    /// Members that were dialed anew, with the ends of their certificates then: a member may have a
    /// certificate and speak no TLS.
    dialed: BTreeSet<(NodeId, i64)>,
    under_way: Option<(NodeId, Instant)>,
}

impl Redials {
    /// The member whose connections are to be ended now. Each certificate of a member is tried once.
    pub(super) fn next(
        &mut self,
        members: &[Linked],
        demand: Demand,
        now: Instant,
    ) -> Option<NodeId> {
        if let Some((node, since)) = self.under_way {
            let is_back = members.iter().all(|member| member.node != node || member.is_up);
            if !is_back && now.duration_since(since) < PATIENCE {
                return None;
            }
            self.under_way = None;
        }
        let mut plain = members.iter().filter(|member| member.is_plain && member.is_up);
        let chosen = plain.find(|member| match (demand, member.expires_secs) {
            (Demand::All, _) => true,
            (Demand::Certified, Some(expires)) => !self.dialed.contains(&(member.node, expires)),
            (Demand::Certified, None) => false,
        })?;
        if let Some(expires_secs) = chosen.expires_secs {
            self.dialed.insert((chosen.node, expires_secs));
        }
        self.under_way = Some((chosen.node, now));
        Some(chosen.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linked(number: u8) -> Linked {
        let node = NodeId([number; 16]);
        Linked { node, is_plain: true, is_up: true, expires_secs: Some(7) }
    }

    #[tokio::test]
    async fn one_member_is_away_at_a_time() {
        let now = Instant::now();
        let mut redials = Redials::default();
        let mut members = [1, 2, 3].map(linked);
        assert_eq!(redials.next(&members, Demand::Certified, now), Some(members[0].node));
        members[0].is_up = false;
        assert_eq!(redials.next(&members, Demand::Certified, now), None);
        (members[0].is_up, members[0].is_plain) = (true, false);
        assert_eq!(redials.next(&members, Demand::Certified, now), Some(members[1].node));
        members[1].is_up = false;
        assert_eq!(redials.next(&members, Demand::Certified, now + PATIENCE / 2), None);
        // It does not come back; the others do not wait for it for ever.
        assert_eq!(
            redials.next(&members, Demand::Certified, now + PATIENCE),
            Some(members[2].node)
        );
    }

    #[tokio::test]
    async fn each_certificate_of_a_member_is_tried_once() {
        let now = Instant::now();
        let mut redials = Redials::default();
        let mut members = [linked(1)];
        assert_eq!(redials.next(&members, Demand::Certified, now), Some(members[0].node));
        // It answered without TLS.
        assert_eq!(redials.next(&members, Demand::Certified, now), None);
        members[0].expires_secs = Some(8);
        assert_eq!(redials.next(&members, Demand::Certified, now), Some(members[0].node));
    }

    #[tokio::test]
    async fn all_plain_connections_end_one_after_the_other_where_none_is_allowed() {
        let now = Instant::now();
        let mut redials = Redials::default();
        let mut members = [1, 2].map(linked);
        members[0].expires_secs = None;
        assert_eq!(redials.next(&members, Demand::Certified, now), Some(members[1].node));
        // It answered without TLS, and counts as tried.
        assert_eq!(redials.next(&members, Demand::All, now), Some(members[0].node));
        members[0].is_up = false;
        assert_eq!(redials.next(&members, Demand::All, now), None, "one at a time");
        assert_eq!(redials.next(&members, Demand::All, now + PATIENCE), Some(members[1].node));
    }

    #[tokio::test]
    async fn members_with_tls_without_a_certificate_and_away_are_left_alone() {
        let plain = linked(1);
        for member in [
            Linked { is_plain: false, ..plain },
            Linked { expires_secs: None, ..plain },
            Linked { is_up: false, ..plain },
        ] {
            assert_eq!(
                Redials::default().next(&[member], Demand::Certified, Instant::now()),
                None,
                "{member:?}"
            );
        }
    }
}
