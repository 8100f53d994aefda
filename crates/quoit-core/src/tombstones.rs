//! Tombstones that wait to be reaped: those that were written since the start, and those that scans find.

mod scan;

pub(crate) use scan::{LEFT_BEHIND_US, ScanStep, TombstoneScan};

use crate::error::RequestError;
use crate::settings::DeleteMode;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::hash::Partition;
use quoit_store::engine::RecordAt;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Tombstones that wait in memory; further ones are found by the next scan.
const QUEUE_COUNT_MAX: usize = 100_000;
/// How often the reaper looks for what is due.
pub(crate) const TICK: Duration = Duration::from_millis(200);
/// How long a fold waits until some of the tombstones that it has found are reaped.
const ROOM_PATIENCE: Duration = Duration::from_secs(15);
/// Tombstones that are taken out of the queue at once; the others follow with the next tick.
pub(crate) const DUE_COUNT_MAX: usize = 5_000;
/// Records that a scan takes from the engine at once.
pub(crate) const SCAN_PAGE: usize = 250;

/// A tombstone that will be reaped if it is still there when it is due.
pub(crate) struct NotedTombstone {
    pub(crate) due_us: u64,
    pub(crate) encoded: Bytes,
    pub(crate) partition: Partition,
    pub(crate) digest: u64,
    /// Whether it should be gone long since: this node need not be its first primary.
    pub(crate) is_left_behind: bool,
    /// Whether an operator wants it reaped: no scan finds it again.
    pub(crate) is_wanted: bool,
    /// Whether another cluster has reaped it, and is not told so.
    pub(crate) is_told: bool,
}

/// The queue of noted tombstones, by the time when they are due.
pub(crate) struct NotedTombstones {
    queue: Mutex<VecDeque<NotedTombstone>>,
    /// May be taken while the queue is locked, but not the other way round.
    pub(crate) scan: Mutex<TombstoneScan>,
    /// The layout by which this node knows what it is first primary of.
    layout_version: AtomicU64,
    /// When this process began. Of what was due before, the first primary may be done with.
    pub(crate) started_us: u64,
}

impl NotedTombstones {
    /// Those of a process that begins now, by its wall clock.
    pub(crate) fn new(started_us: u64) -> Self {
        Self {
            queue: Mutex::default(),
            scan: Mutex::new(TombstoneScan::new()),
            layout_version: AtomicU64::new(0),
            started_us,
        }
    }

    /// Remembers a tombstone that is being written now.
    pub(crate) fn note(&self, mode: DeleteMode, at: &RecordAt<'_>, digest: u64, now_us: u64) {
        let Some(delay_ms) = mode.delay_ms() else { return };
        let mut queue = self.queue.lock();
        if queue.len() >= QUEUE_COUNT_MAX {
            self.scan.lock().need();
            return;
        }
        queue.push_back(NotedTombstone {
            due_us: now_us + delay_ms * 1_000,
            encoded: Bytes::copy_from_slice(at.encoded),
            partition: at.partition,
            digest,
            is_left_behind: false,
            is_wanted: false,
            is_told: false,
        });
    }

    /// Has tombstones reaped as soon as all their primaries agree, whatever `delete_mode` says: their encoded
    /// names, partitions and digests.
    pub(crate) fn reap_soon(&self, now_us: u64, tombstones: Vec<(Bytes, Partition, u64)>) {
        self.reap_wanted(now_us, tombstones, false);
    }

    /// As [`NotedTombstones::reap_soon`], of a tombstone that another cluster has reaped: its reap here is
    /// not queued for others.
    pub(crate) fn reap_as_elsewhere(&self, now_us: u64, tombstone: (Bytes, Partition, u64)) {
        self.reap_wanted(now_us, vec![tombstone], true);
    }

    fn reap_wanted(&self, due_us: u64, tombstones: Vec<(Bytes, Partition, u64)>, is_told: bool) {
        self.insert(tombstones.into_iter().map(|(encoded, partition, digest)| NotedTombstone {
            due_us,
            encoded,
            partition,
            digest,
            is_left_behind: true,
            is_wanted: true,
            is_told,
        }));
    }

    /// Waits until so many tombstones can be queued for an operator.
    ///
    /// # Errors
    ///
    /// `Overload` when those that wait are not reaped soon, for example because a primary is down.
    pub(crate) async fn room_for(&self, count: usize) -> Result<(), RequestError> {
        let end = Instant::now() + ROOM_PATIENCE;
        while self.queue.lock().len() + count > QUEUE_COUNT_MAX {
            if Instant::now() >= end {
                return Err(RequestError::Overload);
            }
            tokio::time::sleep(TICK).await;
        }
        Ok(())
    }

    /// Puts tombstones into the queue by the time when they are due.
    pub(crate) fn insert(&self, tombstones: impl Iterator<Item = NotedTombstone>) {
        let mut queue = self.queue.lock();
        for noted in tombstones {
            if queue.len() >= QUEUE_COUNT_MAX {
                self.scan.lock().need();
                break;
            }
            queue.push_back(noted);
        }
        // Quick where most of it is in order already.
        queue.make_contiguous().sort_by_key(|noted| noted.due_us);
    }

    /// With another layout a node is first primary of other records.
    pub(crate) fn note_layout(&self, version: u64) {
        if self.layout_version.swap(version, Ordering::Relaxed) != version {
            self.scan.lock().need();
        }
    }

    /// The next step of the scan. It finds all that is queued again, so the queue is emptied when it begins.
    pub(crate) fn scan_step(&self, monotonic_us: u64) -> ScanStep {
        let queue_count = self.queue.lock().len();
        let step = self.scan.lock().step(monotonic_us, queue_count);
        if step == ScanStep::Begin {
            self.queue.lock().retain(|noted| noted.is_wanted);
        }
        step
    }

    pub(crate) fn take_due(&self, now_us: u64) -> Vec<NotedTombstone> {
        let mut queue = self.queue.lock();
        let some = queue.iter().take(DUE_COUNT_MAX);
        let due_count = some.take_while(|noted| noted.due_us <= now_us).count();
        queue.drain(..due_count).collect()
    }
}
