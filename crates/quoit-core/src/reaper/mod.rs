//! Reaping: removing tombstones that every primary has on its disk.
//!
//! A tombstone is due some time after it was written (`delete_mode`). The reaper learns of tombstones in
//! two ways: those that are written while the node runs wait in a queue; those that did not fit into the
//! queue, or were there when the node started, are found by a scan of the index ([`crate::tombstones`]).
//! The reaper removes a record only if it still is the tombstone that was queued. The check and the
//! removal are one step.
//!
//! On a cluster of several nodes, the first primary of a record queues its tombstone, and has it reaped
//! in two steps ([`agreement`]): all primaries hold the tombstone on their disks, then each makes a reap
//! record of it and removes it. This needs a single live layout and all primaries, but no other member.
//!
//! A tombstone can be left behind: the first primary never had it, another node was first primary at the
//! time, a power failure undid a removal, or a node that held it as a stray has become a primary after the
//! other primaries had reaped it. Any primary whose scan finds a tombstone that should be gone
//! long since has it reaped.
//!
//! Reap records keep older copies of the deleted records out until [`retirement`] finds that none can
//! arrive any more. `docs/design/reaping.md` has the argument.

mod agreement;
mod blockers;
mod retirement;
mod serve;
mod single_node;

pub use blockers::ReapingBlockers;
pub use retirement::ReapRecordBlockers;
pub use single_node::ReapPass;

use crate::coordinator::Coordinator;
use crate::delivery::RecordDelivery;
use crate::error::RequestError;
use crate::local_node::LocalNode;
use crate::queues::SourceQueues;
use crate::replica::Replica;
use crate::stored::decode;
use crate::tombstones::{
    DUE_COUNT_MAX, LEFT_BEHIND_US, NotedTombstone, NotedTombstones, SCAN_PAGE, ScanStep, TICK,
};
use crate::write_hook::WriteHook;
use bytes::Bytes;
use quoit_model::hash::Partition;
use quoit_store::engine::Record;
use retirement::Retirement;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Interval between passes if several nodes have to agree. The tombstones that have come due meanwhile share
/// the cost of a pass.
const TICK_TOGETHER: Duration = Duration::from_secs(2);
/// Factor by which the pause after a full pass is longer than the pass: the threads that reap would otherwise
/// keep processors busy for minutes, and requests would wait for their turns.
const PAUSE_FACTOR: u32 = 2;
/// Minimum pause after a full pass.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Longest time that a scan runs before tombstones that are due are reaped, in microseconds.
const SCAN_US: u64 = 100_000;

/// Tombstones that a pass has taken out of the queue.
struct DueTombstones {
    due: Vec<NotedTombstone>,
    /// True if no others are due and the scan can't go on before some are reaped.
    is_all: bool,
}

/// Removes tombstones that all primaries have, and reap records that nothing needs any more.
pub struct Reaper {
    local: Arc<LocalNode>,
    replica: Arc<Replica>,
    coordinator: Arc<Coordinator>,
    hook: Arc<WriteHook>,
    source_queues: Arc<SourceQueues>,
    tombstones: Arc<NotedTombstones>,
    delivery: Arc<RecordDelivery>,
    retirement: Retirement,
}

impl Reaper {
    pub(crate) fn new(
        coordinator: &Arc<Coordinator>,
        source_queues: &Arc<SourceQueues>,
        tombstones: &Arc<NotedTombstones>,
        delivery: &Arc<RecordDelivery>,
    ) -> Self {
        Self {
            local: Arc::clone(&coordinator.local),
            replica: Arc::clone(&coordinator.replica),
            coordinator: Arc::clone(coordinator),
            hook: Arc::clone(&coordinator.hook),
            source_queues: Arc::clone(source_queues),
            tombstones: Arc::clone(tombstones),
            delivery: Arc::clone(delivery),
            retirement: Retirement::default(),
        }
    }

    pub(crate) async fn run(self: Arc<Self>) {
        tokio::join!(biased; self.run_reaping(), self.run_retirement());
    }

    async fn run_reaping(self: &Arc<Self>) {
        let delay_ms = self.local.settings.delete_mode.delay_ms();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut next_together = Instant::now();
        let mut is_all = true;
        let mut pause = Duration::ZERO;
        loop {
            if is_all {
                ticks.tick().await;
            } else {
                sleep(pause).await;
            }
            let begun = Instant::now();
            let topology = self.local.topology();
            self.tombstones.note_layout(topology.newest_layout());
            if topology.is_alone() {
                is_all = match self.reap_step(delay_ms).await {
                    Ok(pass) => pass.is_all,
                    Err(fault) => {
                        tracing::warn!(%fault, "reaping put off");
                        true
                    }
                };
            } else if !is_all || begun >= next_together {
                next_together = begun + TICK_TOGETHER;
                is_all = self.reap_together(delay_ms).await;
            }
            pause = (begun.elapsed() * PAUSE_FACTOR).max(PAUSE_MIN);
        }
    }

    /// Takes tombstones that are due out of the queue. Before that, unless `delay_ms` is `None`, continues
    /// the scan for tombstones that are not queued.
    async fn due_tombstones(
        self: &Arc<Self>,
        delay_ms: Option<u64>,
    ) -> Result<DueTombstones, RequestError> {
        let now_us = self.local.clock.unix_us();
        let is_scanned = match delay_ms {
            Some(delay_ms) => self.scan_tombstones(delay_ms).await?,
            None => true,
        };
        let due = self.tombstones.take_due(now_us);
        let is_all = is_scanned && due.len() < DUE_COUNT_MAX;
        Ok(DueTombstones { due, is_all })
    }

    /// Requests a scan, which finds the tombstones that an error has left.
    fn scan_again(&self, fault: RequestError) -> RequestError {
        self.tombstones.scan.lock().need();
        fault
    }

    /// Continues the scan for tombstones where it stopped, for at most [`SCAN_US`]. It reads one page in
    /// a step, because other work waits for the same threads. Returns false if it could go on at once.
    async fn scan_tombstones(self: &Arc<Self>, delay_ms: u64) -> Result<bool, RequestError> {
        let ring_size = self.local.ring_size();
        let end_us = self.local.clock.monotonic_us() + SCAN_US;
        while self.local.clock.monotonic_us() < end_us {
            let place = match self.tombstones.scan_step(self.local.clock.monotonic_us()) {
                ScanStep::Begin => {
                    let tombstones = Arc::clone(&self.tombstones);
                    let remove = move || {
                        tombstones.remove_found();
                        Ok(())
                    };
                    self.local.settings.blocking.on_pool(remove).await?;
                    continue;
                }
                ScanStep::Read(place) => place,
                ScanStep::Wait => return Ok(true),
            };
            let reaper = Arc::clone(self);
            let scan = move || {
                let page =
                    reaper.local.engine.fold(place.partition, place.identity, SCAN_PAGE, true)?;
                reaper.note_scanned(place.partition, delay_ms, page.entries);
                Ok(page.next)
            };
            let next = self.local.settings.blocking.on_pool(scan).await?;
            self.tombstones.scan.lock().has_read(place, next, ring_size);
        }
        Ok(false)
    }

    /// Queues the tombstones of a scanned page for which this node is responsible: as their first
    /// primary, or because they were left behind.
    fn note_scanned(&self, partition: Partition, delay_ms: u64, entries: Vec<(Bytes, Record)>) {
        let now_us = self.local.clock.unix_us();
        let is_first_primary = self.local.topology_now().is_first_primary(partition);
        let noted = |(encoded, record): (Bytes, Record)| {
            let object = decode(&record.value).ok()?;
            let due_us = object.last_modified_us() + delay_ms * 1_000;
            let is_left_behind =
                due_us + LEFT_BEHIND_US < now_us || due_us < self.tombstones.started_us;
            let digest = record.meta.digest;
            let noted = NotedTombstone {
                due_us,
                encoded,
                partition,
                digest,
                is_left_behind,
                is_wanted: false,
                is_reaped_elsewhere: false,
            };
            (is_first_primary || is_left_behind).then_some(noted)
        };
        self.tombstones.insert(entries.into_iter().filter_map(noted));
    }
}
