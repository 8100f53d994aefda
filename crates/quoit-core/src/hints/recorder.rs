//! Notes the writes that primaries have missed as hints, and writes the hints to disk.

use super::Hints;
use crate::local_node::LocalNode;
use crate::placement::PlacedKey;
use crate::topology::Topology;
use crate::votes::NodeIndex;
use bytes::Bytes;
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_planted::planted;
use quoit_store::error::StoreError;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Time for which hints are gathered before they are written together.
const GATHER: Duration = Duration::from_millis(100);
/// Time until the next attempt after the disk failed.
const AGAIN: Duration = Duration::from_secs(1);

/// Notes the writes that primaries have missed, for the coordinator. Shared; every method takes `&self`.
pub(crate) struct HintRecorder {
    local: Arc<LocalNode>,
    hints: Arc<Hints>,
}

impl HintRecorder {
    pub(crate) const fn new(local: Arc<LocalNode>, hints: Arc<Hints>) -> Self {
        Self { local, hints }
    }

    /// Returns the hints as the receiver of late faults: of calls that fail after their write was
    /// answered.
    pub(crate) fn late(&self) -> Arc<Hints> {
        Arc::clone(&self.hints)
    }

    /// Notes a hint for each primary that a write has not reached. `reached` are the nodes that have the
    /// write, or may still get it from a call that is open.
    ///
    /// Notes nothing in two cases:
    ///
    /// - This node is not a primary, or one of the nodes reached is not. The write is a stray there, and
    ///   that node hands it to all primaries.
    /// - This node has not written its own copy, for example because it became a primary while an object
    ///   from another cluster was under way. A hint must lead to a copy of the record.
    pub(crate) fn note(
        &self,
        topology: &Topology,
        key: &Bytes,
        partition: Partition,
        n_val: u32,
        reached: &[NodeIndex],
    ) {
        let primaries = topology.primaries(partition, n_val);
        let is_primary = |node: &NodeIndex| primaries.contains(node);
        let has_copy = topology.own().is_some_and(|own| is_primary(&own) && reached.contains(&own));
        if !has_copy || !reached.iter().all(is_primary) || planted!(DropsHints) {
            return;
        }
        let Ok(place) = PlacedKey::new(key, partition) else { return };
        let reference = (partition, place.at().identity);
        for node in primaries.iter().filter(|node| !reached.contains(node)) {
            self.hints.note(topology.node(*node).id, reference);
        }
    }

    /// Makes hints of late failures and writes hints to disk, until the task is dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.hints.wanted.notified().await;
            sleep(GATHER).await;
            self.note_late();
            let hints = Arc::clone(&self.hints);
            let flush = move || Ok(hints.flush()?);
            if let Err(fault) = self.local.settings.blocking.on_pool(flush).await {
                tracing::warn!(%fault, "hints are not on disk");
                sleep(AGAIN).await;
                self.hints.wanted.notify_one();
            }
        }
    }

    /// Makes hints of calls that failed after their write was answered. The failure does not say which
    /// primary it was, so all of them are offered the record.
    fn note_late(&self) {
        let (keys, overflow) = self.hints.take_late();
        let topology = self.local.topology_now();
        let own = topology.own().filter(|_| !planted!(DropsLateHints));
        let Some(own) = own else { return };
        for encoded in keys {
            let Ok(key) = KeyRef::decode(&encoded) else { continue };
            let Ok((partition, n_val)) = self.local.partition_of(key) else { continue };
            self.note(&topology, &encoded, partition, n_val, &[own]);
        }
        if overflow {
            self.note_all_missed(&topology, own);
        }
    }

    /// Notes all partitions of this node as missed by their other primaries, when late failures were
    /// dropped.
    fn note_all_missed(&self, topology: &Topology, own: NodeIndex) {
        let n_val = self.local.n_val_max();
        for partition in (0..self.local.ring_size().get()).map(Partition) {
            let primaries = topology.primaries(partition, n_val);
            if !primaries.contains(&own) {
                continue;
            }
            for node in primaries.into_iter().filter(|node| *node != own) {
                self.hints.note_whole(topology.node(node).id, partition);
            }
        }
    }

    /// Writes hints that are not on disk yet, before the process ends.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        self.note_late();
        self.hints.flush()
    }
}
