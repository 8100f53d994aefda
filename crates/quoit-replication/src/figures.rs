//! Statistics of sinks: objects that peers have sent, and the times of fetching and storing them.

use parking_lot::Mutex;
use quoit_seam::Clock;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of the bars of lag histograms, in milliseconds. The last bar has no bound.
pub const LAG_BOUNDS_MS: [u64; 14] =
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000, 60_000, 3_600_000, 86_400_000];

/// Histogram of the lag of objects: the time from their last modification until they were stored here,
/// by the clocks of both nodes.
#[derive(Debug, Default)]
pub struct LagHistogram {
    bars: [AtomicU64; LAG_BOUNDS_MS.len() + 1],
    sum_us: AtomicU64,
}

/// A histogram at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LagSnapshot {
    /// Number of objects in each bar, with the bounds of [`LAG_BOUNDS_MS`].
    pub bars: Vec<u64>,
    /// Sum of all lags, in microseconds.
    pub sum_us: u64,
}

impl LagSnapshot {
    /// Number of objects.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bars.iter().sum()
    }

    /// Upper bound in milliseconds of the bar that contains a percentile; `None` without objects.
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
    /// Adds an object.
    #[expect(clippy::indexing_slicing, reason = "there is one bar more than there are bounds")]
    pub fn note(&self, lag_us: u64) {
        let place = LAG_BOUNDS_MS.partition_point(|bound| bound * 1_000 < lag_us);
        self.bars[place].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(lag_us, Ordering::Relaxed);
    }

    /// The present histogram.
    #[must_use]
    pub fn read(&self) -> LagSnapshot {
        let bars = self.bars.iter().map(|bar| bar.load(Ordering::Relaxed)).collect();
        LagSnapshot { bars, sum_us: self.sum_us.load(Ordering::Relaxed) }
    }
}

/// Figures of a peer of a queue.
#[derive(Debug, Default)]
pub(crate) struct PeerFigures {
    pub(crate) stored: AtomicU64,
    pub(crate) stored_bytes: AtomicU64,
    pub(crate) empty: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) waiting: AtomicU64,
    /// Number of entries that were taken and are not stored yet.
    pub(crate) in_hand: AtomicU64,
    pub(crate) fetch_us: AtomicU64,
    pub(crate) push_us: AtomicU64,
    pub(crate) lag: LagHistogram,
    /// Microseconds by which the modification of the last stored object lies ahead of this node's
    /// clock.
    pub(crate) ahead_us: AtomicU64,
    pub(crate) state: Mutex<PeerState>,
}

/// State of a peer that is not a count.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PeerState {
    pub(crate) connected: usize,
    /// Kind of the peer; `None` before its first answer.
    pub(crate) kind: Option<PeerKind>,
    /// Id of its cluster, in hexadecimal.
    pub(crate) cluster: Option<String>,
    /// The last fault, until an entry is stored again.
    pub(crate) fault: Option<String>,
    /// True if the peer has no queue of this name.
    pub(crate) has_no_queue: bool,
}

/// Program that a peer runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerKind {
    /// Quoit: entries come in batches and are confirmed.
    Quoit,
    /// Riak: entries come one by one, and leave its queue when they are sent.
    Riak,
}

/// Figures of a peer, for operators.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PeerStatus {
    /// Its address.
    pub peer: String,
    /// Number of open connections.
    pub connections: usize,
    /// Kind of the peer; `None` before its first answer.
    pub kind: Option<PeerKind>,
    /// Id of its cluster.
    pub cluster: Option<String>,
    /// Number of objects and tombstones that were stored here.
    pub stored: u64,
    /// Bytes of these.
    pub stored_bytes: u64,
    /// Number of answers that found its queue empty.
    pub empty: u64,
    /// Number of requests without an answer, and of objects that could not be stored.
    pub errors: u64,
    /// Number of entries that wait in its queue, by its last answer, and of entries that are being
    /// stored here.
    pub waiting: u64,
    /// Total time of requests for entries, in microseconds.
    pub fetch_us: u64,
    /// Total time of storing objects, in microseconds.
    pub push_us: u64,
    /// Mean time of a request for entries, in microseconds.
    pub fetch_us_mean: u64,
    /// Mean time of storing an object, in microseconds.
    pub push_us_mean: u64,
    /// Lag of the stored objects.
    pub lag: LagSnapshot,
    /// Milliseconds by which the modification of the last stored object lies ahead of this node's
    /// clock. Above 0, the clocks of two clusters on the object's way differ.
    pub ahead_ms: u64,
    /// Longest time until the peer is asked again, in milliseconds.
    pub delay_ms: u64,
    /// The fault, with its remedy.
    pub fault: Option<String>,
}

/// Figures of a sink.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SinkStatus {
    /// Name of the queue.
    pub queue: String,
    /// True if consumption is suspended.
    pub is_suspended: bool,
    /// Maximum number of entries that are stored at the same time.
    pub worker_count: usize,
    /// Maximum number of connections to each peer.
    pub peer_limit: usize,
    /// Configured and discovered peers.
    pub peers: Vec<PeerStatus>,
}

impl PeerFigures {
    /// Counts entries as in hand until the guard is dropped.
    pub(crate) fn hold(&self, count: usize) -> EntriesInHand<'_> {
        self.in_hand.fetch_add(count as u64, Ordering::Relaxed);
        EntriesInHand { figures: self, count: count as u64 }
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

    /// Notes the time of modification of an object that is stored now.
    pub(crate) fn note_modified(&self, modified_us: u64, clock: &dyn Clock) {
        let now_us = clock.unix_us();
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

/// Guard of entries that are being stored.
pub(crate) struct EntriesInHand<'a> {
    figures: &'a PeerFigures,
    count: u64,
}

impl Drop for EntriesInHand<'_> {
    fn drop(&mut self) {
        let before = self.figures.in_hand.fetch_sub(self.count, Ordering::Relaxed);
        debug_assert!(before >= self.count, "entries that are stored were taken before");
    }
}

/// Guard of an open connection to a peer.
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
