//! Reaping: tombstones that all primaries have are removed.
//!
//! A tombstone is due some time after it was written (`delete_mode`). Those written while the node runs
//! wait in a queue; what does not fit the queue, and what was there when the node started, is found by a
//! scan of the index for tombstones. A record is removed only if it is still the very tombstone that was
//! noted, decided in one step with the removal.
//!
//! Where there are several nodes, the first primary of a record has it reaped, once only one layout is live
//! and all primaries hold the tombstone on their disks. Each keeps a reap record of it. Only that node
//! queues the tombstone. One that is left behind nevertheless, because the first primary never had it or
//! was another one then, or because a removal went with a machine's power, any primary has reaped that
//! finds it in a scan.

mod agreement;
mod alone;
mod marks;
mod retirement;
mod scan;
mod serve;
mod waits;

pub use retirement::ReapRecordsHeldUp;
pub use waits::TombstonesHeldUp;

use crate::error::RequestError;
use crate::settings::DeleteMode;
use crate::store::ReplicatedStore;
use crate::stored::decode;
use bytes::Bytes;
use marks::Marks;
use parking_lot::Mutex;
use quoit_model::hash::Partition;
use quoit_store::engine::{Record, RecordAt};
use retirement::Retirement;
use scan::{LEFT_BEHIND_US, ScanStep, TombstoneScan};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Tombstones that wait in memory; further ones are found by the next scan.
const QUEUE_COUNT_MAX: usize = 100_000;
/// How often the reaper looks for what is due.
const TICK: Duration = Duration::from_millis(200);
/// How often it does so where several nodes have to agree: the price of a pass is shared by all that has
/// come due meanwhile.
const TICK_TOGETHER: Duration = Duration::from_secs(2);
/// How long a fold waits until some of the tombstones that it has found are reaped.
const ROOM_PATIENCE: Duration = Duration::from_secs(15);
/// Tombstones that are taken out of the queue at once; the others follow with the next tick.
const DUE_COUNT_MAX: usize = 5_000;
/// Records that a scan takes from the engine at once.
const SCAN_PAGE: usize = 250;
/// How long a scan works before tombstones that are due have their turn.
const SCAN_US: u64 = 100_000;

/// A tombstone that will be reaped if it is still there when it is due.
struct NotedTombstone {
    due_us: u64,
    encoded: Bytes,
    partition: Partition,
    digest: u64,
    /// Whether it should be gone long since: this node need not be its first primary.
    is_left_behind: bool,
    /// Whether an operator wants it reaped: no scan finds it again.
    is_wanted: bool,
    /// Whether another cluster has reaped it, and is not told so.
    is_told: bool,
}

/// The queue of noted tombstones, by the time when they are due.
pub(crate) struct Reaper {
    queue: Mutex<VecDeque<NotedTombstone>>,
    /// May be taken while the queue is locked, but not the other way round.
    scan: Mutex<TombstoneScan>,
    /// The layout by which this node knows what it is first primary of.
    layout_version: AtomicU64,
    pub(crate) retirement: Retirement,
    /// When this process began. Of what was due before, the first primary may be done with.
    started_us: u64,
}

impl Reaper {
    /// The reaper of a process that begins now, by its wall clock.
    pub(crate) fn new(started_us: u64) -> Self {
        Self {
            queue: Mutex::default(),
            scan: Mutex::new(TombstoneScan::new()),
            layout_version: AtomicU64::new(0),
            started_us,
            retirement: Retirement::default(),
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

    /// As [`Reaper::reap_soon`], of a tombstone that another cluster has reaped: its reap here is not queued
    /// for others.
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
    fn insert(&self, tombstones: impl Iterator<Item = NotedTombstone>) {
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
    fn note_layout(&self, version: u64) {
        if self.layout_version.swap(version, Ordering::Relaxed) != version {
            self.scan.lock().need();
        }
    }

    /// The next step of the scan. It finds all that is queued again, so the queue is emptied when it begins.
    fn scan_step(&self, monotonic_us: u64) -> ScanStep {
        let queue_count = self.queue.lock().len();
        let step = self.scan.lock().step(monotonic_us, queue_count);
        if step == ScanStep::Begin {
            self.queue.lock().retain(|noted| noted.is_wanted);
        }
        step
    }

    fn take_due(&self, now_us: u64) -> Vec<NotedTombstone> {
        let mut queue = self.queue.lock();
        let some = queue.iter().take(DUE_COUNT_MAX);
        let due_count = some.take_while(|noted| noted.due_us <= now_us).count();
        queue.drain(..due_count).collect()
    }
}

impl ReplicatedStore {
    pub(crate) async fn run_reaper(self: Arc<Self>) {
        tokio::join!(biased; self.run_reaping(), self.run_retirement());
    }

    async fn run_reaping(self: &Arc<Self>) {
        let delay_ms = self.local.settings.delete_mode.delay_ms();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut next_together = Instant::now();
        loop {
            ticks.tick().await;
            let topology = self.local.topology();
            self.reaper.note_layout(topology.newest_layout());
            if !topology.is_alone() {
                if Instant::now() >= next_together {
                    let begun = Instant::now();
                    let is_all = self.reap_together(delay_ms).await;
                    next_together = if is_all { begun + TICK_TOGETHER } else { begun };
                }
                continue;
            }
            if let Err(fault) = self.reap_step(delay_ms).await {
                tracing::warn!(%fault, "reaping put off");
            }
        }
    }

    /// Tombstones that are due, out of the queue, and before that, where it is time, those that nobody has
    /// noted into it.
    async fn due_tombstones(
        self: &Arc<Self>,
        delay_ms: Option<u64>,
    ) -> Result<Vec<NotedTombstone>, RequestError> {
        let now_us = self.local.clock.unix_us();
        if let Some(delay_ms) = delay_ms {
            self.scan_tombstones(delay_ms).await?;
        }
        Ok(self.reaper.take_due(now_us))
    }

    fn scan_again(&self, fault: RequestError) -> RequestError {
        self.reaper.scan.lock().need();
        fault
    }

    /// Looks for tombstones where the last scan has stopped, a page at a time: others wait for the same
    /// threads.
    async fn scan_tombstones(self: &Arc<Self>, delay_ms: u64) -> Result<(), RequestError> {
        let ring_size = self.local.ring_size();
        let end_us = self.local.clock.monotonic_us() + SCAN_US;
        while self.local.clock.monotonic_us() < end_us {
            let place = match self.reaper.scan_step(self.local.clock.monotonic_us()) {
                ScanStep::Begin => continue,
                ScanStep::Read(place) => place,
                ScanStep::Wait => break,
            };
            let store = Arc::clone(self);
            let scan = move || {
                let page =
                    store.local.engine.fold(place.partition, place.identity, SCAN_PAGE, true)?;
                store.note_scanned(place.partition, delay_ms, page.entries);
                Ok(page.next)
            };
            let next = self.local.settings.blocking.aside(scan).await?;
            self.reaper.scan.lock().has_read(place, next, ring_size);
        }
        Ok(())
    }

    fn note_scanned(&self, partition: Partition, delay_ms: u64, entries: Vec<(Bytes, Record)>) {
        let now_us = self.local.clock.unix_us();
        let is_first_primary = self.local.topology_now().is_first_primary(partition);
        let noted = |(encoded, record): (Bytes, Record)| {
            let object = decode(&record.value).ok()?;
            let due_us = object.last_modified_us() + delay_ms * 1_000;
            let is_left_behind =
                due_us + LEFT_BEHIND_US < now_us || due_us < self.reaper.started_us;
            let digest = record.meta.digest;
            let noted = NotedTombstone {
                due_us,
                encoded,
                partition,
                digest,
                is_left_behind,
                is_wanted: false,
                is_told: false,
            };
            (is_first_primary || is_left_behind).then_some(noted)
        };
        self.reaper.insert(entries.into_iter().filter_map(noted));
    }
}
