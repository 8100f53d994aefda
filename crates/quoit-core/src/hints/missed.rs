//! Notes what nodes have missed, and keeps the notes on disk.

use super::Hints;
use crate::local_node::LocalNode;
use crate::placement::Place;
use crate::topology::Topology;
use crate::votes::NodePlace;
use bytes::Bytes;
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_planted::planted;
use quoit_store::error::StoreError;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// How long notes are gathered before they are written together.
const GATHER: Duration = Duration::from_millis(100);
/// When writing is tried again after the disk has refused.
const AGAIN: Duration = Duration::from_secs(1);

/// Writes that primaries have missed, noted by their coordinator. Shared; every method takes `&self`.
pub(crate) struct MissedWrites {
    local: Arc<LocalNode>,
    hints: Arc<Hints>,
}

impl MissedWrites {
    pub(crate) const fn new(local: Arc<LocalNode>, hints: Arc<Hints>) -> Self {
        Self { local, hints }
    }

    /// The keeper of notes, for calls that may fail when nobody waits for them any more.
    pub(crate) fn late(&self) -> Arc<Hints> {
        Arc::clone(&self.hints)
    }

    /// Notes that primaries have missed a write of which this node has a copy. `has_reached` tells who
    /// has the write or may have it yet.
    ///
    /// Where this node is no primary itself, or one of those reached is none, nothing has to be noted: that
    /// node hands its copy to all primaries. Nor is it where this node has not written its own copy, as when
    /// it became a primary while an object from another cluster was on its way: a hint leads to that copy.
    pub(crate) fn note(
        &self,
        topology: &Topology,
        key: &Bytes,
        partition: Partition,
        n_val: u32,
        reached: &[NodePlace],
    ) {
        let primaries = topology.primaries(partition, n_val);
        let is_primary = |node: &NodePlace| primaries.contains(node);
        let has_copy = topology.own().is_some_and(|own| is_primary(&own) && reached.contains(&own));
        if !has_copy || !reached.iter().all(is_primary) || planted!(DropsHints) {
            return;
        }
        let Ok(place) = Place::new(key, partition) else { return };
        let reference = (partition, place.at().identity);
        for node in primaries.iter().filter(|node| !reached.contains(node)) {
            self.hints.note(topology.node(*node).id, reference);
        }
    }

    /// Writes hints to disk, and looks at calls that have failed late, until the task is dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.hints.wanted.notified().await;
            sleep(GATHER).await;
            self.note_late();
            let hints = Arc::clone(&self.hints);
            let flush = move || Ok(hints.flush()?);
            if let Err(fault) = self.local.settings.blocking.aside(flush).await {
                tracing::warn!(%fault, "hints are not on disk");
                sleep(AGAIN).await;
                self.hints.wanted.notify_one();
            }
        }
    }

    /// Makes hints of writes that failed when no request waited for them any more. Which primaries failed is
    /// not known, so all of them are offered the record.
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

    /// It is not known which node has missed what.
    fn note_all_missed(&self, topology: &Topology, own: NodePlace) {
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

    /// Writes hints that are not on disk yet: before the process ends.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        self.note_late();
        self.hints.flush()
    }
}
