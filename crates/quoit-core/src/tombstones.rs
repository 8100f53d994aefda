//! The queue of tombstones that wait to be reaped: those written since the start, and those that scans
//! found.

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

/// Largest number of queued tombstones. A later scan finds further ones.
const QUEUE_COUNT_MAX: usize = 100_000;
/// Time between two looks of the reaper for tombstones that are due.
pub(crate) const TICK: Duration = Duration::from_millis(200);
/// Longest time that a fold, which has found tombstones for an operator, waits for room in the queue.
const ROOM_PATIENCE: Duration = Duration::from_secs(15);
/// Largest number of tombstones that one pass takes out of the queue.
pub(crate) const DUE_COUNT_MAX: usize = 5_000;
/// Number of records that a scan reads from the engine in one step.
pub(crate) const SCAN_PAGE: usize = 250;

/// A tombstone that is to be reaped when it is due, if it is still stored unchanged then.
pub(crate) struct NotedTombstone {
    /// Time when it is due, in microseconds since 1970.
    pub(crate) due_us: u64,
    /// The encoded name of its record.
    pub(crate) encoded: Bytes,
    pub(crate) partition: Partition,
    /// Digest of the stored tombstone: another digest means another record.
    pub(crate) digest: u64,
    /// True if it should be gone long since: then any primary may have it reaped, not only the first one.
    pub(crate) is_left_behind: bool,
    /// True if it is to be reaped whatever `delete_mode` says. No scan finds it again if it leaves the
    /// queue.
    pub(crate) is_wanted: bool,
    /// True if another cluster has reaped it. The reap is then not queued for other clusters again.
    pub(crate) is_told: bool,
}

/// The queue of tombstones, in the order in which they are due, and the state of the scan that fills it.
pub(crate) struct NotedTombstones {
    queue: Mutex<VecDeque<NotedTombstone>>,
    /// Lock order: `scan` may be locked while `queue` is held, never the other way round.
    pub(crate) scan: Mutex<TombstoneScan>,
    /// Version of the newest layout that was seen, which decides of which partitions this node is first
    /// primary.
    layout_version: AtomicU64,
    /// Start of this process, in microseconds since 1970. A tombstone that was due before may have been
    /// reaped on the other primaries.
    pub(crate) started_us: u64,
}

impl NotedTombstones {
    /// Returns the queue of a process that starts at this time, in microseconds since 1970.
    pub(crate) fn new(started_us: u64) -> Self {
        Self {
            queue: Mutex::default(),
            scan: Mutex::new(TombstoneScan::new()),
            layout_version: AtomicU64::new(0),
            started_us,
        }
    }

    /// Queues a tombstone that is being written. If the queue is full, requests a scan.
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

    /// Queues tombstones, given by encoded name, partition and digest, to be reaped as soon as all their
    /// primaries agree, whatever `delete_mode` says.
    pub(crate) fn reap_soon(&self, now_us: u64, tombstones: Vec<(Bytes, Partition, u64)>) {
        self.reap_wanted(now_us, tombstones, false);
    }

    /// Queues a tombstone that another cluster has reaped, like [`NotedTombstones::reap_soon`]. Its reap
    /// is not queued for other clusters again.
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

    /// Waits until the queue has room for so many tombstones.
    ///
    /// # Errors
    ///
    /// `Overload` if the queued tombstones are not reaped soon, for example because a primary is down.
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

    /// Inserts tombstones in the order in which they are due. If the queue is full, drops the rest and
    /// requests a scan.
    pub(crate) fn insert(&self, tombstones: impl Iterator<Item = NotedTombstone>) {
        let mut queue = self.queue.lock();
        for noted in tombstones {
            if queue.len() >= QUEUE_COUNT_MAX {
                self.scan.lock().need();
                break;
            }
            queue.push_back(noted);
        }
        // Cheap, because most of the queue is in order already.
        queue.make_contiguous().sort_by_key(|noted| noted.due_us);
    }

    /// Notes the newest layout. If it is another one, requests a scan: this node may have become first
    /// primary of other partitions.
    pub(crate) fn note_layout(&self, version: u64) {
        if self.layout_version.swap(version, Ordering::Relaxed) != version {
            self.scan.lock().need();
        }
    }

    /// Returns the next step of the scan. When a scan begins, the queue is emptied, because the scan
    /// finds its tombstones again. Tombstones stay that no scan would find.
    pub(crate) fn scan_step(&self, monotonic_us: u64) -> ScanStep {
        let queue_count = self.queue.lock().len();
        let step = self.scan.lock().step(monotonic_us, queue_count);
        if step == ScanStep::Begin {
            self.queue.lock().retain(|noted| noted.is_wanted);
        }
        step
    }

    /// Takes up to [`DUE_COUNT_MAX`] tombstones that are due out of the queue.
    pub(crate) fn take_due(&self, now_us: u64) -> Vec<NotedTombstone> {
        let mut queue = self.queue.lock();
        let some = queue.iter().take(DUE_COUNT_MAX);
        let due_count = some.take_while(|noted| noted.due_us <= now_us).count();
        queue.drain(..due_count).collect()
    }
}
