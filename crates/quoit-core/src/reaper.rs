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
mod serve;
mod waits;

pub use retirement::ReapRecordsHeldUp;
pub use waits::TombstonesHeldUp;

use crate::coordinator::Coordinator;
use crate::delivery::Deliveries;
use crate::error::RequestError;
use crate::local_node::LocalNode;
use crate::queues::SourceQueues;
use crate::replica::Replica;
use crate::stored::decode;
use crate::tombstones::{
    LEFT_BEHIND_US, NotedTombstone, NotedTombstones, SCAN_PAGE, ScanStep, TICK,
};
use crate::write_hook::WriteHook;
use bytes::Bytes;
use marks::Marks;
use quoit_model::hash::Partition;
use quoit_store::engine::Record;
use retirement::Retirement;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often it does so where several nodes have to agree: the price of a pass is shared by all that has
/// come due meanwhile.
const TICK_TOGETHER: Duration = Duration::from_secs(2);
/// How long a scan works before tombstones that are due have their turn.
const SCAN_US: u64 = 100_000;

/// Has tombstones and reap records removed that nothing needs any more.
pub struct Reaper {
    local: Arc<LocalNode>,
    replica: Arc<Replica>,
    coordinator: Arc<Coordinator>,
    hook: Arc<WriteHook>,
    source_queues: Arc<SourceQueues>,
    tombstones: Arc<NotedTombstones>,
    delivery: Arc<Deliveries>,
    retirement: Retirement,
}

impl Reaper {
    pub(crate) fn new(
        coordinator: &Arc<Coordinator>,
        source_queues: &Arc<SourceQueues>,
        tombstones: &Arc<NotedTombstones>,
        delivery: &Arc<Deliveries>,
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
        loop {
            ticks.tick().await;
            let topology = self.local.topology();
            self.tombstones.note_layout(topology.newest_layout());
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
        Ok(self.tombstones.take_due(now_us))
    }

    fn scan_again(&self, fault: RequestError) -> RequestError {
        self.tombstones.scan.lock().need();
        fault
    }

    /// Looks for tombstones where the last scan has stopped, a page at a time: others wait for the same
    /// threads.
    async fn scan_tombstones(self: &Arc<Self>, delay_ms: u64) -> Result<(), RequestError> {
        let ring_size = self.local.ring_size();
        let end_us = self.local.clock.monotonic_us() + SCAN_US;
        while self.local.clock.monotonic_us() < end_us {
            let place = match self.tombstones.scan_step(self.local.clock.monotonic_us()) {
                ScanStep::Begin => continue,
                ScanStep::Read(place) => place,
                ScanStep::Wait => break,
            };
            let reaper = Arc::clone(self);
            let scan = move || {
                let page =
                    reaper.local.engine.fold(place.partition, place.identity, SCAN_PAGE, true)?;
                reaper.note_scanned(place.partition, delay_ms, page.entries);
                Ok(page.next)
            };
            let next = self.local.settings.blocking.aside(scan).await?;
            self.tombstones.scan.lock().has_read(place, next, ring_size);
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
                due_us + LEFT_BEHIND_US < now_us || due_us < self.tombstones.started_us;
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
        self.tombstones.insert(entries.into_iter().filter_map(noted));
    }
}
