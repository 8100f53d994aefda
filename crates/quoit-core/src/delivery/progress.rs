//! Transfers under way, for operators.

use super::Deliveries;
use parking_lot::Mutex;
use quoit_cluster::NodeId;
use quoit_model::hash::{Identity, Partition};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::Instant;

/// Why records move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A node becomes a primary of their partition.
    Ownership,
    /// They are on a node that is no primary of theirs.
    Strays,
    /// A primary of theirs has missed them.
    Hints,
}

/// A partition that is being handed over by this node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ActiveTransfer {
    /// The partition.
    pub partition: Partition,
    /// Why it moves.
    pub kind: Kind,
    /// Receiver; `None` for strays, which go to all primaries.
    pub to: Option<NodeId>,
    /// Records that the receivers lacked and have got.
    pub record_count: u64,
    /// Bytes of their objects.
    pub byte_count: u64,
    /// How much of the partition is done, 0 to 1.
    pub fraction: f64,
    /// Seconds since it began.
    pub elapsed_secs: f64,
}

impl ActiveTransfer {
    /// Bytes a second so far.
    #[must_use]
    pub fn bytes_per_sec(&self) -> f64 {
        if self.elapsed_secs > 0.0 { self.byte_count as f64 / self.elapsed_secs } else { 0.0 }
    }

    /// Seconds that it will still take at this rate; `None` when that can't be told yet.
    #[must_use]
    pub fn remaining_secs(&self) -> Option<f64> {
        let known = self.fraction > 0.0 && self.elapsed_secs > 0.0;
        known.then(|| self.elapsed_secs * (1.0 - self.fraction) / self.fraction)
    }
}

/// Hints that wait until their node is back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitingHints {
    /// Node that missed the writes.
    pub to: NodeId,
    /// Records.
    pub record_count: u64,
    /// Partitions besides, of which too much was missed to know it one by one.
    pub partition_count: u64,
}

/// Figures of all transfers of this node.
#[derive(Clone, PartialEq, Debug)]
pub struct TransferStats {
    /// Transfers under way.
    pub active: Vec<ActiveTransfer>,
    /// Copies of partitions that wait for their turn, or for their receiver, by receiver.
    pub waiting: BTreeMap<NodeId, u64>,
    /// Hints of other nodes about this node's writes.
    pub hints: Vec<WaitingHints>,
    /// The part of the time in which transfers work, above 0 up to 1: less than 1 while requests of clients
    /// take longer than usual, here or at a receiver.
    pub share: f64,
    /// Partitions that may have strays: records that wait for a primary that is down, mostly.
    pub stray_partition_count: u64,
    /// Records handed over since the start.
    pub record_count: u64,
    /// Bytes of their objects.
    pub byte_count: u64,
}

impl Default for TransferStats {
    /// Nothing moves, and nothing holds back.
    fn default() -> Self {
        Self {
            active: Vec::new(),
            waiting: BTreeMap::new(),
            hints: Vec::new(),
            share: 1.0,
            stray_partition_count: 0,
            record_count: 0,
            byte_count: 0,
        }
    }
}

pub(super) struct TransferProgress {
    partition: Partition,
    kind: Kind,
    to: Option<NodeId>,
    began: Instant,
    record_count: AtomicU64,
    byte_count: AtomicU64,
    /// Where the walk through the partition is: identities are evenly spread.
    reached: AtomicU64,
}

/// Tells how a transfer gets on. When it is dropped the transfer has ended.
pub(crate) struct Report {
    progress: Arc<TransferProgress>,
    number: u64,
    active: Arc<RunningTransfers>,
}

/// Transfers that are under way.
#[derive(Default)]
pub(crate) struct RunningTransfers {
    pub(super) by_number: Mutex<BTreeMap<u64, Arc<TransferProgress>>>,
    number: AtomicU64,
    record_count: AtomicU64,
    byte_count: AtomicU64,
}

impl Deliveries {
    pub(crate) fn begin(&self, partition: Partition, kind: Kind, to: Option<NodeId>) -> Report {
        let number = self.active.number.fetch_add(1, Ordering::Relaxed);
        let progress = Arc::new(TransferProgress {
            partition,
            kind,
            to,
            began: Instant::now(),
            record_count: AtomicU64::new(0),
            byte_count: AtomicU64::new(0),
            reached: AtomicU64::new(0),
        });
        self.active.by_number.lock().insert(number, Arc::clone(&progress));
        self.yielding.sends();
        Report { progress, number, active: Arc::clone(&self.active) }
    }
}

impl Report {
    /// Records have been handed over.
    pub(crate) fn handed(&self, record_count: u64, byte_count: u64) {
        for (to, by) in [
            (&self.progress.record_count, record_count),
            (&self.progress.byte_count, byte_count),
            (&self.active.record_count, record_count),
            (&self.active.byte_count, byte_count),
        ] {
            to.fetch_add(by, Ordering::Relaxed);
        }
    }

    /// All up to an identity is done.
    pub(crate) fn reached(&self, identity: Option<Identity>) {
        let reached = identity.map_or(u64::MAX, |identity| identity.0);
        self.progress.reached.store(reached, Ordering::Relaxed);
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.active.by_number.lock().remove(&self.number);
    }
}

impl RunningTransfers {
    pub(crate) fn stats(&self) -> TransferStats {
        let active = |progress: &Arc<TransferProgress>| ActiveTransfer {
            partition: progress.partition,
            kind: progress.kind,
            to: progress.to,
            record_count: progress.record_count.load(Ordering::Relaxed),
            byte_count: progress.byte_count.load(Ordering::Relaxed),
            fraction: progress.reached.load(Ordering::Relaxed) as f64 / u64::MAX as f64,
            elapsed_secs: progress.began.elapsed().as_secs_f64(),
        };
        TransferStats {
            active: self.by_number.lock().values().map(active).collect(),
            record_count: self.record_count.load(Ordering::Relaxed),
            byte_count: self.byte_count.load(Ordering::Relaxed),
            ..TransferStats::default()
        }
    }

    /// Whether anything is handed over now.
    pub(super) fn is_moving(&self) -> bool {
        !self.by_number.lock().is_empty()
    }
}
