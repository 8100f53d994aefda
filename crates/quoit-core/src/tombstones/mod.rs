//! The queue of tombstones that wait to be reaped: those written since the start, and those that scans
//! found.

mod scan;

pub(crate) use scan::{LEFT_BEHIND_US, ScanStep, TombstoneScan};

use crate::error::RequestError;
use crate::settings::DeleteMode;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::hash::Partition;
use quoit_seam::yield_to_requests;
use quoit_store::engine::RecordAt;
use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Largest number of tombstones that are queued or for which a place in the queue is reserved. A later scan
/// finds further ones.
const QUEUE_COUNT_MAX: usize = 100_000;
/// Interval at which the reaper looks for tombstones that are due.
pub(crate) const TICK: Duration = Duration::from_millis(200);
/// Longest time that a fold, which has found tombstones for an operator, waits for places in the queue.
const ROOM_PATIENCE: Duration = Duration::from_secs(15);
/// Largest number of tombstones that one pass takes out of the queue. The pass handles them, and messages
/// with them, on threads of requests, which should not be kept from requests for much longer than a request
/// takes.
pub(crate) const DUE_COUNT_MAX: usize = 100;
/// Number of records that a scan reads from the engine in one step, without yielding to requests.
pub(crate) const SCAN_PAGE: usize = 16;

/// A tombstone that is to be reaped when it is due, if it is still stored unchanged then.
pub(crate) struct NotedTombstone {
    /// Time when it is due, in microseconds since 1970.
    pub(crate) due_us: u64,
    /// The encoded name of its record.
    pub(crate) encoded: Bytes,
    pub(crate) partition: Partition,
    /// Digest of the stored tombstone: another digest means another record.
    pub(crate) digest: u64,
    /// True if it should have been reaped long ago: then any primary may have it reaped, not only the first
    /// one.
    pub(crate) is_left_behind: bool,
    /// True if it is to be reaped whatever `delete_mode` says. No scan finds it again if it leaves the
    /// queue.
    pub(crate) is_wanted: bool,
    /// True if another cluster has reaped it. The reap is then not queued for other clusters again.
    pub(crate) is_reaped_elsewhere: bool,
}

/// Tombstones by the time when they are due, and by the number of their insertion.
type TombstonesByDue = BTreeMap<(u64, u64), NotedTombstone>;

/// Queued tombstones in the order in which they are due.
#[derive(Default)]
struct TombstoneQueue {
    /// Tombstones that a scan finds again if they leave the queue.
    found: TombstonesByDue,
    /// Tombstones that are to be reaped whatever `delete_mode` says.
    wanted: TombstonesByDue,
    next_number: u64,
    /// Number of tombstones for which places are reserved.
    reserved_count: usize,
}

impl TombstoneQueue {
    /// Number of queued tombstones and of reserved places.
    fn count(&self) -> usize {
        self.found.len() + self.wanted.len() + self.reserved_count
    }

    fn has_room_for(&self, count: usize) -> bool {
        self.count() + count <= QUEUE_COUNT_MAX
    }

    /// Inserts a tombstone, even if the queue is full.
    fn push(&mut self, noted: NotedTombstone) {
        let queued = if noted.is_wanted { &mut self.wanted } else { &mut self.found };
        queued.insert((noted.due_us, self.next_number), noted);
        self.next_number += 1;
    }

    /// Takes the tombstone that is due first out of the queue, if it is due.
    fn pop_due(&mut self, now_us: u64) -> Option<NotedTombstone> {
        let first = |queued: &TombstonesByDue| queued.first_key_value().map(|(place, _)| *place);
        let queued = match (first(&self.found), first(&self.wanted)) {
            (Some(found), Some(wanted)) if found < wanted => &mut self.found,
            (Some(_), None) => &mut self.found,
            (_, Some(_)) | (None, None) => &mut self.wanted,
        };
        let first = queued.first_entry().filter(|first| first.get().due_us <= now_us);
        first.map(OccupiedEntry::remove)
    }
}

/// Reserved places in the queue. They are freed when this is dropped.
pub(crate) struct TombstoneReservation {
    tombstones: Arc<NotedTombstones>,
    count: usize,
}

impl Drop for TombstoneReservation {
    fn drop(&mut self) {
        self.tombstones.queue.lock().reserved_count -= self.count;
    }
}

/// The queue of tombstones, in the order in which they are due, and the state of the scan that fills it.
pub(crate) struct NotedTombstones {
    queue: Mutex<TombstoneQueue>,
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
    pub(crate) fn note(&self, now_us: u64, mode: DeleteMode, at: &RecordAt<'_>, digest: u64) {
        let Some(delay_ms) = mode.delay_ms() else { return };
        let mut queue = self.queue.lock();
        if !queue.has_room_for(1) {
            self.scan.lock().need();
            return;
        }
        queue.push(NotedTombstone {
            due_us: now_us + delay_ms * 1_000,
            encoded: Bytes::copy_from_slice(at.encoded),
            partition: at.partition,
            digest,
            is_left_behind: false,
            is_wanted: false,
            is_reaped_elsewhere: false,
        });
    }

    /// Queues tombstones, given by encoded name, partition and digest, to be reaped as soon as all their
    /// primaries agree, whatever `delete_mode` says. The caller has reserved places for them.
    pub(crate) fn reap_soon(&self, now_us: u64, tombstones: Vec<(Bytes, Partition, u64)>) {
        let mut queue = self.queue.lock();
        for tombstone in tombstones {
            queue.push(wanted(now_us, tombstone, false));
        }
    }

    /// Queues a tombstone that another cluster has reaped, like [`NotedTombstones::reap_soon`]. Its reap is
    /// not queued for other clusters again. The caller has reserved a place for it.
    pub(crate) fn reap_as_elsewhere(&self, now_us: u64, tombstone: (Bytes, Partition, u64)) {
        self.queue.lock().push(wanted(now_us, tombstone, true));
    }

    /// Reserves places for this many tombstones; `None` if the queue does not have them.
    pub(crate) fn try_reserve_places(
        self: &Arc<Self>,
        count: usize,
    ) -> Option<TombstoneReservation> {
        let mut queue = self.queue.lock();
        if !queue.has_room_for(count) {
            return None;
        }
        queue.reserved_count += count;
        Some(TombstoneReservation { tombstones: Arc::clone(self), count })
    }

    /// Waits until the queue has places for this many tombstones, and reserves them.
    ///
    /// # Errors
    ///
    /// `Overload` if the queued tombstones are not reaped soon, for example because a primary is down.
    pub(crate) async fn reserve_places(
        self: &Arc<Self>,
        count: usize,
    ) -> Result<TombstoneReservation, RequestError> {
        let end = Instant::now() + ROOM_PATIENCE;
        loop {
            if let Some(room) = self.try_reserve_places(count) {
                return Ok(room);
            }
            if Instant::now() >= end {
                return Err(RequestError::Overload);
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// Inserts tombstones in the order in which they are due. If the queue is full, drops the rest and
    /// requests a scan.
    pub(crate) fn insert(&self, tombstones: impl Iterator<Item = NotedTombstone>) {
        let mut queue = self.queue.lock();
        for noted in tombstones {
            if !queue.has_room_for(1) {
                self.scan.lock().need();
                break;
            }
            queue.push(noted);
        }
    }

    /// Puts back tombstones that one pass has taken out. Drops none, since no scan would find those that an
    /// operator wants reaped; so the queue may hold [`DUE_COUNT_MAX`] more than its limit.
    pub(crate) fn put_back(&self, tombstones: impl Iterator<Item = NotedTombstone>) {
        let mut queue = self.queue.lock();
        tombstones.for_each(|noted| queue.push(noted));
    }

    /// Notes the newest layout. If it is another one, requests a scan: this node may have become first
    /// primary of other partitions.
    pub(crate) fn note_layout(&self, version: u64) {
        if self.layout_version.swap(version, Ordering::Relaxed) != version {
            self.scan.lock().need();
        }
    }

    /// Returns the next step of the scan. When a scan begins, the caller empties the queue
    /// ([`Self::remove_found`]).
    pub(crate) fn scan_step(&self, monotonic_us: u64) -> ScanStep {
        let queue_count = self.queue.lock().count();
        self.scan.lock().step(monotonic_us, queue_count)
    }

    /// Empties the queue, except for tombstones that no scan would find: a scan begins, and finds the others
    /// again. Yields to requests, since tens of thousands of them are freed.
    pub(crate) fn remove_found(&self) {
        let found = std::mem::take(&mut self.queue.lock().found);
        for (count, tombstone) in found.into_iter().enumerate() {
            drop(tombstone);
            if count % DUE_COUNT_MAX == 0 {
                yield_to_requests();
            }
        }
    }

    /// Takes up to [`DUE_COUNT_MAX`] tombstones that are due out of the queue.
    pub(crate) fn take_due(&self, now_us: u64) -> Vec<NotedTombstone> {
        let mut queue = self.queue.lock();
        std::iter::from_fn(|| queue.pop_due(now_us)).take(DUE_COUNT_MAX).collect()
    }
}

/// A tombstone that is to be reaped whatever `delete_mode` says.
fn wanted(
    due_us: u64,
    (encoded, partition, digest): (Bytes, Partition, u64),
    is_reaped_elsewhere: bool,
) -> NotedTombstone {
    NotedTombstone {
        due_us,
        encoded,
        partition,
        digest,
        is_left_behind: true,
        is_wanted: true,
        is_reaped_elsewhere,
    }
}

#[cfg(test)]
mod tests;
