//! Reaping where several nodes hold a record.

use super::{Noted, QUEUE_COUNT_MAX};
use crate::calls::call_while_up;
use crate::error::RequestError;
use crate::replica::{Copy, Place};
use crate::store::ReplicatedStore;
use crate::topology::{Reach, Topology};
use crate::votes::NodePlace;
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{Lane, Peer};
use quoit_wire::internode::data::{Fetch, Fetched, METHOD_FETCH, METHOD_REAP, Reap, Want};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time that a primary has to say what it holds.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// When a tombstone that could not be reaped is looked at again.
const AGAIN_US: u64 = 10_000_000;

/// What became of a tombstone that was due.
enum Fate {
    /// Reaped, changed meanwhile, or another node's business.
    Settled,
    /// Somebody is missing or behind.
    Later,
}

impl ReplicatedStore {
    /// Reaps tombstones that are due and that all primaries hold, if nobody has strays of their partition.
    pub(super) async fn reap_together(self: &Arc<Self>, delay_ms: u64) {
        let store = Arc::clone(self);
        let due = move || Ok(store.due_tombstones(delay_ms)?);
        let due = match self.settings.blocking.aside(due).await {
            Ok(due) => due,
            Err(fault) => {
                tracing::warn!(%fault, "reaping put off");
                return;
            }
        };
        if due.is_empty() {
            return;
        }
        // What a stand-in keeps of a deleted record would come back without the tombstone.
        let Some(strays) = self.strays_anywhere().await else { return self.reap_later(due) };
        let mut later = Vec::new();
        for noted in due {
            if strays.contains(&noted.partition) {
                later.push(noted);
                continue;
            }
            match self.reap_agreed(&noted).await {
                Ok(Fate::Settled) => {}
                Ok(Fate::Later) => later.push(noted),
                Err(fault) => {
                    tracing::warn!(%fault, "reaping put off");
                    later.push(noted);
                }
            }
        }
        self.reap_later(later);
    }

    fn reap_later(&self, tombstones: Vec<Noted>) {
        let due_us = self.clock.unix_us() + AGAIN_US;
        let mut queue = self.reaper.queue.lock();
        for noted in tombstones {
            if queue.len() >= QUEUE_COUNT_MAX {
                self.reaper.scan_needed.store(true, Ordering::Relaxed);
                return;
            }
            let place = queue.partition_point(|queued| queued.due_us <= due_us);
            queue.insert(place, Noted { due_us, ..noted });
        }
    }

    async fn reap_agreed(&self, noted: &Noted) -> Result<Fate, RequestError> {
        let topology = self.topology();
        let Ok(place) = Place::new(&noted.encoded, noted.partition) else {
            return Ok(Fate::Settled);
        };
        let at = place.at();
        let Ok((_, n_val)) = self.partition_of(at.key) else { return Ok(Fate::Settled) };
        let Some(primaries) = topology.settled_primaries(noted.partition, n_val) else {
            return Ok(Fate::Later);
        };
        if primaries.first().copied() != topology.own() {
            return Ok(Fate::Settled);
        }
        match self.own_copy(&at, false)? {
            Copy::Found(digest, _) if digest == noted.digest => {}
            _ => return Ok(Fate::Settled),
        }
        for node in &primaries {
            if let Reach::Peer(peer) = &topology.node(*node).reach
                && !agrees(peer, &topology, noted).await
            {
                return Ok(Fate::Later);
            }
        }
        for node in &primaries {
            self.reap_on(&topology, *node, noted).await?;
        }
        Ok(Fate::Settled)
    }

    async fn reap_on(
        &self,
        topology: &Topology,
        node: NodePlace,
        noted: &Noted,
    ) -> Result<(), RequestError> {
        match &topology.node(node).reach {
            Reach::Own => {
                self.settings.blocking.in_place(|| self.reap(noted))?;
            }
            Reach::Peer(peer) => {
                let reap = Reap {
                    key: noted.encoded.clone(),
                    partition: u32::from(noted.partition.0),
                    digest: noted.digest,
                    layout_version: topology.layout_version(),
                };
                // A tombstone that stays behind does no harm, and is found by that node's next scan.
                let call = call_while_up(peer, METHOD_REAP, &reap, b"", Lane::Small, CALL_TIMEOUT);
                let _ = call.await;
            }
            Reach::Unknown => {}
        }
        Ok(())
    }
}

/// Whether a primary holds the tombstone or nothing.
async fn agrees(peer: &Peer, topology: &Topology, noted: &Noted) -> bool {
    let fetch = Fetch {
        key: Bytes::clone(&noted.encoded),
        partition: u32::from(noted.partition.0),
        layout_version: topology.layout_version(),
        want: Want::Digest.into(),
    };
    let call = call_while_up(peer, METHOD_FETCH, &fetch, b"", Lane::Small, CALL_TIMEOUT);
    match call.await.map(|reply| Fetched::decode(reply.header)) {
        Ok(Ok(fetched)) => !fetched.found || fetched.digest == noted.digest,
        Ok(Err(_)) | Err(_) => false,
    }
}
