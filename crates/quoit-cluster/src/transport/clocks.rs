//! Comparison of the clocks of two nodes.
//!
//! Where causality does not decide between values, the times of the writes do, and each node
//! takes them from its own clock. A node whose clock runs ahead would win against all others
//! until their clocks have caught up.

use super::internode::Internode;
use super::peer::ConnectionProblem;
use quoit_seam::Clock;
use std::sync::Arc;
use std::time::Duration;

/// Maximum time by which a peer's clock may be ahead of this node's clock. It is also the
/// bound for times of writes.
const AHEAD_MAX: Duration = Duration::from_millis(500);

/// This node's clock compared with those of its peers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ClockComparison {
    /// A peer has been connected since the start, so its clock is near this node's clock.
    Agreed,
    /// No peer has been connected, and this node or a peer has refused connections because of a clock;
    /// contains the complaint of one of them.
    Disagreed(Arc<str>),
    /// No peer has sent its time.
    NotCompared,
}

impl Internode {
    /// Compares this node's clock with those of its peers.
    pub(crate) fn compare_clocks(&self) -> ClockComparison {
        let peers = self.peers();
        if peers.iter().any(|peer| peer.version_max().is_some()) {
            return ClockComparison::Agreed;
        }
        let mut apart = peers
            .iter()
            .filter_map(|peer| peer.lasting_problem(ConnectionProblem::Clock, Duration::ZERO));
        apart.next().map_or(ClockComparison::NotCompared, ClockComparison::Disagreed)
    }

    /// Returns this node's clock, microseconds since 1970; `None` if the node has no clock to compare.
    pub(crate) fn unix_us(&self) -> Option<u64> {
        self.clock().map(Clock::unix_us)
    }
}

/// The time of a node's clock.
#[derive(Clone, Copy)]
pub(super) struct NodeTime<'n> {
    /// Name of the node.
    pub(super) name: &'n str,
    /// Microseconds since 1970; `None` if the node sends no time.
    pub(super) unix_us: Option<u64>,
}

impl<'n> NodeTime<'n> {
    /// The time that a peer has sent in its greeting. Older nodes, and nodes without a clock to compare, send
    /// 0.
    pub(super) fn told(name: &'n str, unix_us: u64) -> Self {
        Self { name, unix_us: Some(unix_us).filter(|unix_us| *unix_us != 0) }
    }

    /// Returns this node's complaint about the clock of a peer, which has just sent its time; `None` if the
    /// clock is right, or one of the two nodes sends no time.
    ///
    /// Only a clock that is ahead is detected: if a greeting was delayed, its sender seems to be behind. Each
    /// of two nodes greets the other, so one of them notices the difference.
    pub(super) fn complaint_about(&self, peer: &NodeTime<'_>) -> Option<String> {
        let (own_us, peer_us) = self.unix_us.zip(peer.unix_us)?;
        let ahead = Duration::from_micros(peer_us.saturating_sub(own_us));
        (ahead > AHEAD_MAX).then(|| {
            format!(
                "the clock of {} is {:.1} s ahead of that of {}, and no more than {} ms are taken: set both \
                 clocks (NTP)",
                peer.name,
                ahead.as_secs_f64(),
                self.name,
                AHEAD_MAX.as_millis()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_is_complained_of_with_both_names() {
        let of = |peer_us, own_us| {
            let own = NodeTime { name: "b", unix_us: own_us };
            own.complaint_about(&NodeTime::told("a", peer_us))
        };
        assert_eq!(of(10_500_000, Some(10_000_000)), None);
        assert_eq!(of(10_000_000, Some(3_600_000_000)), None, "the other will complain");
        assert_eq!(of(0, Some(10)), None, "an older node tells no time");
        assert_eq!(of(u64::MAX, None), None);
        let words = of(3_610_000_000, Some(10_000_000)).unwrap();
        assert!(words.starts_with("the clock of a is 3600.0 s ahead of that of b"), "{words}");
    }
}
