//! Figures of sinks: what peers have sent, and how long it took.

use parking_lot::Mutex;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of the bars of lag histograms, in milliseconds; the last bar has no bound.
pub const LAG_BOUNDS_MS: [u64; 14] =
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000, 60_000, 3_600_000, 86_400_000];

/// How long after their last modification objects were stored here, by the clocks of both nodes.
#[derive(Debug, Default)]
pub struct LagHistogram {
    bars: [AtomicU64; LAG_BOUNDS_MS.len() + 1],
    sum_us: AtomicU64,
}

/// A histogram at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Lag {
    /// Objects by how late they were, as [`LAG_BOUNDS_MS`] has the bounds.
    pub bars: Vec<u64>,
    /// Sum of all, in microseconds.
    pub sum_us: u64,
}

impl Lag {
    /// Number of objects.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bars.iter().sum()
    }

    /// The upper bound of the bar below which so many percent of the objects are, in milliseconds.
    #[must_use]
    pub fn percentile_ms(&self, percent: u64) -> Option<u64> {
        let wanted = (self.count() * percent).div_ceil(100);
        let mut seen = 0;
        let place = self.bars.iter().position(|bar| {
            seen += bar;
            seen >= wanted
        })?;
        (wanted > 0).then(|| LAG_BOUNDS_MS.get(place).copied().unwrap_or(u64::MAX))
    }
}

impl LagHistogram {
    /// Takes note of an object.
    pub fn note(&self, lag_us: u64) {
        let place = LAG_BOUNDS_MS.partition_point(|bound| bound * 1_000 < lag_us);
        self.bars[place].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(lag_us, Ordering::Relaxed);
    }

    /// The histogram now.
    #[must_use]
    pub fn read(&self) -> Lag {
        let bars = self.bars.iter().map(|bar| bar.load(Ordering::Relaxed)).collect();
        Lag { bars, sum_us: self.sum_us.load(Ordering::Relaxed) }
    }
}

/// Figures of a peer and queue.
#[derive(Debug, Default)]
pub(crate) struct PeerFigures {
    pub(crate) stored: AtomicU64,
    pub(crate) stored_bytes: AtomicU64,
    pub(crate) empty: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) waiting: AtomicU64,
    /// Entries that were taken and are not stored yet.
    pub(crate) in_hand: AtomicU64,
    pub(crate) fetch_us: AtomicU64,
    pub(crate) push_us: AtomicU64,
    pub(crate) lag: LagHistogram,
    /// How far the time of the object that was stored last lies ahead of this node's clock.
    pub(crate) ahead_us: AtomicU64,
    pub(crate) state: Mutex<PeerState>,
}

/// The part of a peer's figures that is no count.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PeerState {
    pub(crate) connected: usize,
    /// Kind of the peer, once it has answered.
    pub(crate) kind: Option<PeerKind>,
    /// The id of its cluster, in hexadecimal.
    pub(crate) cluster: Option<String>,
    /// The last fault, until something was stored again.
    pub(crate) fault: Option<String>,
    /// Whether the peer has said that it has no queue of the name.
    pub(crate) has_no_queue: bool,
}

/// The program that a peer runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerKind {
    /// Quoit: entries come in batches and are confirmed.
    Quoit,
    /// Riak: entries come one by one, and are gone from its queue when they are sent.
    Riak,
}

/// Figures of a peer, as operators see them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PeerStatus {
    /// Its address.
    pub peer: String,
    /// Connections that are open.
    pub connections: usize,
    /// Kind of the peer, once it has answered.
    pub kind: Option<PeerKind>,
    /// The id of its cluster.
    pub cluster: Option<String>,
    /// Objects and tombstones that were stored here.
    pub stored: u64,
    /// Bytes of them.
    pub stored_bytes: u64,
    /// Answers that its queue is empty.
    pub empty: u64,
    /// Requests without an answer, and objects that could not be stored.
    pub errors: u64,
    /// Entries that wait in its queue, as it has said last, and those that are being stored here.
    pub waiting: u64,
    /// Time of all requests for entries, in microseconds.
    pub fetch_us: u64,
    /// Time until objects were stored, of all together, in microseconds.
    pub push_us: u64,
    /// Mean time of a request for entries, in microseconds.
    pub fetch_us_mean: u64,
    /// Mean time until an object was stored, in microseconds.
    pub push_us_mean: u64,
    /// How late objects were.
    pub lag: Lag,
    /// Milliseconds by which the object that was stored last was modified later than this node's clock says:
    /// clocks of the two clusters differ, or that of a cluster on the object's way.
    pub ahead_ms: u64,
    /// Milliseconds until the peer is asked again, at most.
    pub delay_ms: u64,
    /// Fault and remedy.
    pub fault: Option<String>,
}

/// Figures of a queue that is consumed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SinkStatus {
    /// Name of the queue.
    pub queue: String,
    /// Whether consumption rests.
    pub is_suspended: bool,
    /// Entries that are stored at the same time, at most.
    pub worker_count: usize,
    /// Connections to each peer, at most.
    pub peer_limit: usize,
    /// Peers, configured and discovered.
    pub peers: Vec<PeerStatus>,
}

impl PeerFigures {
    /// Counts entries as in hand until the guard is dropped.
    pub(crate) fn hold(&self, count: usize) -> InHand<'_> {
        self.in_hand.fetch_add(count as u64, Ordering::Relaxed);
        InHand { figures: self, count: count as u64 }
    }

    /// Counts a connection as open until the guard is dropped.
    pub(crate) fn open(&self) -> OpenConnection<'_> {
        self.state.lock().connected += 1;
        OpenConnection(self)
    }

    pub(crate) fn note_fault(&self, fault: String) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        self.state.lock().fault = Some(fault);
    }

    /// Takes note of the time at which an object was last modified that is stored now.
    pub(crate) fn note_modified(&self, modified_us: u64, now_us: u64) {
        self.lag.note(now_us.saturating_sub(modified_us));
        self.ahead_us.store(modified_us.saturating_sub(now_us), Ordering::Relaxed);
    }

    pub(crate) fn status(&self, peer: String, delay_ms: u64) -> PeerStatus {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (stored, empty) = (count(&self.stored), count(&self.empty));
        let PeerState { connected, kind, cluster, fault, has_no_queue } = self.state.lock().clone();
        let no_queue =
            || "the peer has no queue of this name: quoit repl queue add there".to_owned();
        PeerStatus {
            peer,
            connections: connected,
            kind,
            cluster,
            stored,
            stored_bytes: count(&self.stored_bytes),
            empty,
            errors: count(&self.errors),
            waiting: count(&self.waiting) + count(&self.in_hand),
            fetch_us: count(&self.fetch_us),
            push_us: count(&self.push_us),
            fetch_us_mean: count(&self.fetch_us) / (stored + empty).max(1),
            push_us_mean: count(&self.push_us) / stored.max(1),
            lag: self.lag.read(),
            ahead_ms: count(&self.ahead_us) / 1_000,
            delay_ms,
            fault: fault.or_else(|| has_no_queue.then(no_queue)),
        }
    }
}

/// Entries that are being stored.
pub(crate) struct InHand<'a> {
    figures: &'a PeerFigures,
    count: u64,
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.figures.in_hand.fetch_sub(self.count, Ordering::Relaxed);
    }
}

/// A connection to a peer.
pub(crate) struct OpenConnection<'a>(&'a PeerFigures);

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.state.lock().connected -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_told_by_the_bar_that_it_falls_into() {
        let histogram = LagHistogram::default();
        assert_eq!(histogram.read().percentile_ms(50), None);
        (0..98).for_each(|_| histogram.note(900));
        histogram.note(1_000);
        histogram.note(90_000_000_000_000);
        let lag = histogram.read();
        assert_eq!(
            (lag.count(), lag.percentile_ms(50), lag.percentile_ms(99)),
            (100, Some(1), Some(1))
        );
        assert_eq!(lag.percentile_ms(100), Some(u64::MAX));
    }
}
