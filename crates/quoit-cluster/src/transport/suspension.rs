//! Whether this node may judge which peers are up.
//!
//! A node that has just started, or was suspended for a while (or its machine was), has heard nothing of
//! its peers. If it considered them dead, it would let fallbacks without the records vote, and a read
//! could miss an acknowledged write. So it waits for a moment before it judges: until each peer was heard
//! of, or a connection to it has failed.

use super::peer::Peer;
use crate::NodeId;
use parking_lot::Mutex;
use quoit_number::saturating_u64;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Interval at which the node records that it runs.
pub(super) const TICK_INTERVAL: Duration = Duration::from_millis(250);
/// Time without such a record after which the node knows that it was suspended. Shorter pauses
/// make no peer look dead.
const PAUSE: Duration = Duration::from_millis(750);
/// Time after which a peer counts as down if it was neither connected nor found to be unreachable. Longer
/// than a dialed node may take to accept.
const PATIENCE: Duration = Duration::from_secs(3);

/// Tracks since when the node has run without a pause.
pub(super) struct SuspensionDetector {
    start: Instant,
    ticked_at_us: AtomicU64,
    resumed_at: Mutex<Instant>,
    is_settled: AtomicBool,
}

impl Default for SuspensionDetector {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            start: now,
            ticked_at_us: AtomicU64::new(0),
            resumed_at: Mutex::new(now),
            is_settled: AtomicBool::new(false),
        }
    }
}

impl SuspensionDetector {
    /// Returns the time at which the node was started.
    pub(super) const fn start(&self) -> Instant {
        self.start
    }

    /// Records that the node runs. Returns true if it finds that the node was suspended.
    pub(super) fn tick(&self, now: Instant) -> bool {
        let was_suspended = self.was_suspended(now);
        if was_suspended {
            *self.resumed_at.lock() = now;
            self.is_settled.store(false, Ordering::SeqCst);
        }
        self.ticked_at_us.store(self.us(now), Ordering::SeqCst);
        was_suspended
    }

    /// Returns true if this node knows of each peer whether it is up or down. Usually costs a clock
    /// reading and two atomic loads.
    pub(super) fn is_settled(&self, now: Instant, peers: &BTreeMap<NodeId, Arc<Peer>>) -> bool {
        if peers.is_empty() {
            return true;
        }
        if self.was_suspended(now) {
            return false;
        }
        if self.is_settled.load(Ordering::Relaxed) {
            return true;
        }
        let resumed_at = *self.resumed_at.lock();
        let is_known = |peer: &Arc<Peer>| peer.is_up() || peer.refused_since(resumed_at);
        let is_settled = now.duration_since(resumed_at) > PATIENCE || peers.values().all(is_known);
        if is_settled {
            self.is_settled.store(true, Ordering::SeqCst);
        }
        is_settled
    }

    fn was_suspended(&self, now: Instant) -> bool {
        let ticked_at_us = self.ticked_at_us.load(Ordering::Relaxed);
        self.us(now).saturating_sub(ticked_at_us) > saturating_u64(PAUSE.as_micros())
    }

    fn us(&self, now: Instant) -> u64 {
        saturating_u64(now.saturating_duration_since(self.start).as_micros())
    }
}

#[cfg(test)]
mod tests {
    use super::super::peer::PeerFacts;
    use super::super::settings::{InternodeSettings, JitterSeed};
    use super::*;

    #[test]
    fn a_node_that_did_not_run_judges_nobody_until_it_has_heard_of_them() {
        let settings = InternodeSettings::new(NodeId([1; 16]), "n1", 1, JitterSeed(1));
        let place = PeerFacts { name: "n2".into(), address: "n2:1".into() };
        let peer = Arc::new(Peer::new(NodeId([2; 16]), place, &settings));
        let peers = BTreeMap::from([(peer.node_id(), Arc::clone(&peer))]);
        let suspension = SuspensionDetector::default();
        let at = |ms| suspension.start + Duration::from_millis(ms);
        peer.refused(at(0), None);
        for tick in 1..40 {
            assert!(!suspension.tick(at(tick * 250)));
        }
        assert!(suspension.is_settled(at(9_800), &peers));
        assert!(!suspension.is_settled(at(60_000), &peers), "it did not run for 50 seconds");
        assert!(suspension.tick(at(60_000)));
        assert!(!suspension.is_settled(at(60_100), &peers), "nothing was heard since");
        peer.refused(at(60_150), None);
        assert!(suspension.is_settled(at(60_200), &peers));
        assert!(!suspension.tick(at(60_250)));
    }
}
