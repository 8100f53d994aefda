//! Progress of the transfers under way, for operators.

use super::RecordDelivery;
use super::hand::HandedCounts;
use parking_lot::Mutex;
use quoit_cluster::NodeId;
use quoit_model::hash::{Identity, Partition};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::Instant;

/// Cause of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferKind {
    /// A node becomes a primary of the partition.
    Ownership,
    /// The records are strays: they are on a node that is not one of their primaries.
    Strays,
    /// A primary missed the writes of the records.
    Hints,
}

/// A transfer of a partition from this node, under way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ActiveTransfer {
    /// The partition.
    pub partition: Partition,
    /// Cause of the transfer.
    pub kind: TransferKind,
    /// Receiver; `None` for strays, which go to all primaries.
    pub to: Option<NodeId>,
    /// Number of records that the receivers lacked and have received.
    pub record_count: u64,
    /// Bytes of their objects.
    pub byte_count: u64,
    /// Part of the partition that is done, from 0 to 1.
    pub fraction: f64,
    /// Seconds since it began.
    pub elapsed_secs: f64,
}

impl ActiveTransfer {
    /// Returns the mean rate so far, in bytes a second.
    #[must_use]
    pub fn bytes_per_sec(&self) -> f64 {
        if self.elapsed_secs > 0.0 { self.byte_count as f64 / self.elapsed_secs } else { 0.0 }
    }

    /// Returns the seconds that remain at this rate; `None` if they can't be estimated yet.
    #[must_use]
    pub fn remaining_secs(&self) -> Option<f64> {
        let known = self.fraction > 0.0 && self.elapsed_secs > 0.0;
        known.then(|| self.elapsed_secs * (1.0 - self.fraction) / self.fraction)
    }
}

/// Hints that wait for their node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitingHints {
    /// Node that missed the writes.
    pub to: NodeId,
    /// Number of single records.
    pub record_count: u64,
    /// Number of other partitions for which the single records were too many. The node counts as having
    /// missed all records of these partitions.
    pub partition_count: u64,
}

/// Figures of all transfers of this node.
#[derive(Clone, PartialEq, Debug)]
pub struct TransferStats {
    /// Transfers under way.
    pub active: Vec<ActiveTransfer>,
    /// Number of copies of partitions that wait for their turn or for their receiver, by receiver.
    pub waiting: BTreeMap<NodeId, u64>,
    /// Hints that this node keeps for other nodes.
    pub hints: Vec<WaitingHints>,
    /// Part of the time in which transfers work, above 0 up to 1. It is less than 1 while requests of
    /// clients take longer than usual, here or at a receiver.
    pub share: f64,
    /// Number of partitions that may have strays. Most of these strays wait for a primary that is down.
    pub stray_partition_count: u64,
    /// Number of records handed over since the start.
    pub record_count: u64,
    /// Bytes of their objects.
    pub byte_count: u64,
}

impl Default for TransferStats {
    /// Figures of a node without transfers, which yields to nothing.
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
    kind: TransferKind,
    to: Option<NodeId>,
    began: Instant,
    record_count: AtomicU64,
    byte_count: AtomicU64,
    /// Identity up to which the walk is done. Identities are evenly spread, so this shows which part of the
    /// partition is done.
    reached: AtomicU64,
}

/// Reports the progress of a transfer. The transfer ends when this is dropped.
pub(crate) struct ProgressReport {
    progress: Arc<TransferProgress>,
    number: u64,
    active: Arc<RunningTransfers>,
}

/// The transfers under way, and sums of all transfers since the start.
#[derive(Default)]
pub(crate) struct RunningTransfers {
    pub(super) by_number: Mutex<BTreeMap<u64, Arc<TransferProgress>>>,
    number: AtomicU64,
    record_count: AtomicU64,
    byte_count: AtomicU64,
}

impl RecordDelivery {
    /// Begins the report of a transfer. `to` is `None` if there are several receivers.
    pub(crate) fn begin(
        &self,
        partition: Partition,
        kind: TransferKind,
        to: Option<NodeId>,
    ) -> ProgressReport {
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
        ProgressReport { progress, number, active: Arc::clone(&self.active) }
    }
}

impl ProgressReport {
    /// Adds records that were handed over.
    pub(crate) fn handed(&self, handed: HandedCounts) {
        let HandedCounts { record_count, byte_count } = handed;
        for (to, by) in [
            (&self.progress.record_count, record_count),
            (&self.progress.byte_count, byte_count),
            (&self.active.record_count, record_count),
            (&self.active.byte_count, byte_count),
        ] {
            to.fetch_add(by, Ordering::Relaxed);
        }
    }

    /// Notes that the walk is done up to an identity; `None` for all of the partition.
    pub(crate) fn reached(&self, identity: Option<Identity>) {
        let reached = identity.map_or(u64::MAX, |identity| identity.0);
        self.progress.reached.store(reached, Ordering::Relaxed);
    }
}

impl Drop for ProgressReport {
    fn drop(&mut self) {
        let ended = self.active.by_number.lock().remove(&self.number);
        debug_assert!(ended.is_some(), "a transfer is under way until its report ends");
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

    /// True if a transfer is under way.
    pub(super) fn is_moving(&self) -> bool {
        !self.by_number.lock().is_empty()
    }
}
