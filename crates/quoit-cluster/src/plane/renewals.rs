//! Replacement of connections without TLS by connections with TLS. Connections that are not replaced in
//! time are ended if TLS is required.
//!
//! Both steps treat one node at a time. Replacing may lose calls under way. If a node lost all its
//! connections at once, its own writes would reach only its own replica, and a sloppy quorum would count
//! that replica several times.

use crate::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum time for which the next node waits for the one whose connections are being
/// replaced or were ended.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause after a first attempt that did not lead to TLS. It doubles with each attempt.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// Time in which the node that has made a connection may still replace it before it is ended.
const GRACE: Duration = Duration::from_secs(15);

/// Connections between this node and another one.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeConnections {
    pub(super) node: NodeId,
    /// True if there is a connection without TLS that should be replaced or ended.
    pub(super) is_plain: bool,
    /// True if there is any connection.
    pub(super) is_up: bool,
    /// Expiry of the member's certificate, seconds since 1970; `None` if it has no certificate.
    pub(super) expires_secs: Option<i64>,
    /// True if the node has made a connection with TLS to this one.
    pub(super) dials_by_tls: bool,
}

/// Attempts to reach a member with TLS.
#[derive(Clone, Copy)]
struct Attempts {
    expires_secs: i64,
    dials_by_tls: bool,
    count: u32,
    next_at: Instant,
}

/// Chooses the members whose connections are to be replaced. A member with a certificate may not accept
/// TLS yet, so attempts are repeated at growing intervals. They start afresh when the member gets another
/// certificate or dials with TLS itself.
#[derive(Default)]
pub(super) struct Renewals {
    attempts: BTreeMap<NodeId, Attempts>,
    under_way: Option<(NodeId, Instant)>,
}

impl Renewals {
    /// Returns the member whose connections are to be replaced now.
    pub(super) fn next(&mut self, members: &[NodeConnections], now: Instant) -> Option<NodeId> {
        let is_wanted = |member: &&NodeConnections| member.is_plain && member.is_up;
        if let Some((node, since)) = self.under_way {
            let mut wanted = members.iter().filter(is_wanted);
            if wanted.any(|member| member.node == node) && now.duration_since(since) < PATIENCE {
                return None;
            }
            self.under_way = None;
        }
        let wanted = members.iter().filter(is_wanted);
        let due = wanted.filter_map(|member| Some((member.node, self.attempt(member, now)?)));
        // Members with fewer attempts come first, so that a member that does not accept TLS delays no
        // other.
        let (node, attempts) = due.min_by_key(|(_, attempts)| attempts.count)?;
        self.attempts.insert(node, attempts);
        self.under_way = Some((node, now));
        Some(node)
    }

    /// Returns the member's attempts including one that is due now; `None` if no attempt is due.
    fn attempt(&self, member: &NodeConnections, now: Instant) -> Option<Attempts> {
        let expires_secs = member.expires_secs?;
        let dials_by_tls = member.dials_by_tls;
        let earlier = self.attempts.get(&member.node).filter(|earlier| {
            earlier.expires_secs == expires_secs && earlier.dials_by_tls >= dials_by_tls
        });
        if earlier.is_some_and(|earlier| now < earlier.next_at) {
            return None;
        }
        let count = earlier.map_or(0, |earlier| earlier.count);
        let pause = PAUSE_MIN.saturating_mul(1 << count.min(16)).min(PAUSE_MAX);
        let next_at = now + pause;
        Some(Attempts { expires_secs, dials_by_tls, count: count.saturating_add(1), next_at })
    }
}

/// Chooses the nodes whose connections without TLS are ended because they were not replaced within
/// [`GRACE`].
#[derive(Default)]
pub(super) struct PlainConnectionEndings {
    plain_since: BTreeMap<NodeId, Instant>,
    under_way: Option<(NodeId, Instant)>,
}

impl PlainConnectionEndings {
    /// Returns the node whose connections are to be ended now.
    pub(super) fn next(&mut self, members: &[NodeConnections], now: Instant) -> Option<NodeId> {
        self.plain_since.retain(|node, _| {
            members.iter().any(|member| member.node == *node && member.is_plain && member.is_up)
        });
        for member in members.iter().filter(|member| member.is_plain && member.is_up) {
            self.plain_since.entry(member.node).or_insert(now);
        }
        if let Some((node, since)) = self.under_way {
            let is_back = members.iter().all(|member| member.node != node || member.is_up);
            if !is_back && now.duration_since(since) < PATIENCE {
                return None;
            }
            self.under_way = None;
        }
        let is_over = |since: &Instant| now.duration_since(*since) >= GRACE;
        let chosen =
            self.plain_since.iter().find(|(_, since)| is_over(since)).map(|(node, _)| *node)?;
        self.plain_since.remove(&chosen);
        self.under_way = Some((chosen, now));
        Some(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linked(number: u8) -> NodeConnections {
        NodeConnections {
            node: NodeId([number; 16]),
            is_plain: true,
            is_up: true,
            expires_secs: Some(7),
            dials_by_tls: false,
        }
    }

    #[tokio::test]
    async fn connections_are_replaced_one_member_at_a_time() {
        let now = Instant::now();
        let mut renewals = Renewals::default();
        let mut members = [1, 2, 3].map(linked);
        assert_eq!(renewals.next(&members, now), Some(members[0].node));
        assert_eq!(renewals.next(&members, now), None);
        members[0].is_plain = false;
        assert_eq!(renewals.next(&members, now), Some(members[1].node));
        assert_eq!(renewals.next(&members, now + PATIENCE / 2), None);
        // This member does not accept TLS. The others wait for it only for a limited time.
        assert_eq!(renewals.next(&members, now + PATIENCE), Some(members[2].node));
    }

    #[tokio::test]
    async fn a_member_that_takes_no_tls_is_tried_again_ever_more_seldom() {
        let mut now = Instant::now();
        let mut renewals = Renewals::default();
        let members = [linked(1)];
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let tried_at = now;
            assert_eq!(renewals.next(&members, now), Some(members[0].node));
            while renewals.attempt(&members[0], now).is_none() {
                now += Duration::from_secs(1);
            }
            renewals.under_way = None;
            pauses.push((now - tried_at).as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        let fresh = [
            NodeConnections { expires_secs: Some(8), ..members[0] },
            NodeConnections { dials_by_tls: true, ..members[0] },
        ];
        renewals.next(&members, now);
        renewals.under_way = None;
        assert_eq!(renewals.next(&members, now), None);
        for fresh in fresh {
            let attempt = renewals.attempt(&fresh, now).expect("it may take TLS now");
            assert_eq!(attempt.count, 1, "{fresh:?}");
        }
    }

    #[tokio::test]
    async fn what_is_not_replaced_in_time_ends_one_node_after_the_other() {
        let now = Instant::now();
        let mut endings = PlainConnectionEndings::default();
        let mut members = [1, 2, 3].map(linked);
        members[2].is_plain = false;
        assert_eq!(endings.next(&members, now), None);
        let later = now + GRACE;
        assert_eq!(endings.next(&members, later), Some(members[0].node));
        members[0].is_up = false;
        assert_eq!(endings.next(&members, later), None, "one at a time");
        members[0] = NodeConnections { is_plain: false, ..linked(1) };
        assert_eq!(endings.next(&members, later), Some(members[1].node));
        members[1].is_up = false;
        assert_eq!(endings.next(&members, later + GRACE), None);
    }

    #[tokio::test]
    async fn a_connection_that_was_replaced_and_is_plain_again_has_its_time_anew() {
        let now = Instant::now();
        let mut endings = PlainConnectionEndings::default();
        let mut members = [linked(1)];
        assert_eq!(endings.next(&members, now), None);
        members[0].is_plain = false;
        assert_eq!(endings.next(&members, now + GRACE / 2), None);
        members[0].is_plain = true;
        assert_eq!(endings.next(&members, now + GRACE), None);
        assert_eq!(endings.next(&members, now + GRACE * 2), Some(members[0].node));
    }

    #[tokio::test]
    async fn members_with_tls_without_a_certificate_and_away_are_left_alone() {
        let plain = linked(1);
        for member in [
            NodeConnections { is_plain: false, ..plain },
            NodeConnections { expires_secs: None, ..plain },
            NodeConnections { is_up: false, ..plain },
        ] {
            assert_eq!(Renewals::default().next(&[member], Instant::now()), None, "{member:?}");
        }
    }
}
