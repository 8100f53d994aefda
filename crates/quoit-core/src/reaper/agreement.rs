//! Reaping where several nodes hold a record.
//!
//! Tombstones are reaped by the batch: one message asks a primary about many, a second one has those
//! removed on which all primaries agree. Who asks removes its own copies last, so that what a primary
//! failed to remove is tried again. Where a primary has missed one of several tombstones, nobody else would
//! find out, since tombstones are not compared: a read of all primaries brings them together.

use super::{Marks, Noted};
use crate::options::ReadOptions;
use crate::replica::Place;
use crate::store::ReplicatedStore;
use crate::topology::Topology;
use crate::transfer::n_val_of;
use crate::votes::NodePlace;
use prost::Message;
use quoit_cluster::{Lane, Replies};
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use quoit_wire::internode::reap::{METHOD_REAP, Reap, Reaped, Tombstone};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Time that primaries have to say what they hold.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// When a tombstone that could not be reaped is looked at again.
const AGAIN_US: u64 = 10_000_000;
/// Tombstones asked about at once.
const BATCH_COUNT: usize = 500;
/// Bytes of their names, about.
const BATCH_BYTES: usize = 128 << 10;
/// Records of a batch that are read from all primaries, because they hold different things. The others have
/// their turn later.
const UNITED_COUNT: usize = 50;

/// A tombstone that this node may have reaped.
struct Candidate {
    noted: Noted,
    /// Its other primaries.
    others: SmallVec<[NodePlace; 4]>,
}

/// What is to be done with a tombstone that is due.
enum Turn {
    Now(SmallVec<[NodePlace; 4]>),
    /// Somebody is missing, or may have what it deleted.
    Later,
    /// Never: another node sees to it.
    Elsewhere,
}

/// What the other primaries make of a tombstone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Opinion {
    /// All hold it, or nothing.
    Agreed,
    /// Somebody said nothing.
    Unknown,
    /// Somebody holds something else.
    Differs,
}

impl ReplicatedStore {
    /// Reaps tombstones that are due and that all primaries hold, if nobody has strays of their partition.
    pub(super) async fn reap_together(self: &Arc<Self>, delay_ms: Option<u64>) {
        let topology = self.topology();
        self.reaper.graves.forget(self.clock.monotonic_us());
        let due = match self.due_tombstones(delay_ms).await {
            Ok(due) if due.is_empty() => return,
            Ok(due) => due,
            Err(fault) => {
                tracing::warn!(%fault, "reaping put off");
                return;
            }
        };
        // What a stand-in keeps of a deleted record would come back without the tombstone.
        let Some(strays) = self.strays_anywhere().await else { return self.reap_later(due) };
        let mut later = Vec::new();
        let (mut batch, mut size_bytes) = (Vec::new(), 0);
        for noted in due {
            match self.turn(&topology, &noted, &strays) {
                Turn::Now(others) => {
                    size_bytes += noted.encoded.len();
                    batch.push(Candidate { noted, others });
                }
                Turn::Later => later.push(noted),
                Turn::Elsewhere => {}
            }
            if batch.len() >= BATCH_COUNT || size_bytes >= BATCH_BYTES {
                later.extend(self.reap_batch(&topology, take(&mut batch)).await);
                size_bytes = 0;
            }
        }
        later.extend(self.reap_batch(&topology, batch).await);
        self.reap_later(later);
    }

    fn turn(&self, topology: &Topology, noted: &Noted, strays: &BTreeSet<Partition>) -> Turn {
        if strays.contains(&noted.partition) {
            return Turn::Later;
        }
        let state = self.control.read();
        let Some(n_val) = n_val_of(&state, &noted.encoded) else { return Turn::Elsewhere };
        let Some(mut primaries) = topology.settled_primaries(noted.partition, n_val) else {
            return Turn::Later;
        };
        let own_place = primaries.iter().position(|node| Some(*node) == topology.own());
        match own_place {
            // The first primary sees to it; one that it has left behind is any primary's business.
            Some(0) => {}
            Some(_) if noted.is_left_behind => {}
            Some(_) | None => return Turn::Elsewhere,
        }
        primaries.retain(|node| Some(*node) != topology.own());
        Turn::Now(primaries)
    }

    /// Reaps those of a batch on which all agree, and returns those that have to wait.
    async fn reap_batch(
        self: &Arc<Self>,
        topology: &Topology,
        batch: Vec<Candidate>,
    ) -> Vec<Noted> {
        let batch = self.still_here(batch).await;
        let opinions = self.ask(topology, &batch, false).await;
        self.unite(&batch, &opinions).await;
        let (batch, mut later) = part(batch, &opinions);
        let removed = self.ask(topology, &batch, true).await;
        let (gone, left) = part(batch, &removed);
        later.extend(left);
        later.extend(self.reap_own(gone).await);
        later.into_iter().map(|candidate| candidate.noted).collect()
    }

    /// Lets all primaries have what each of them has of those records of which they hold different things.
    async fn unite(&self, batch: &[Candidate], opinions: &[Opinion]) {
        let all = ReadOptions {
            r: Some(Quorum::All),
            pr: Some(Quorum::All),
            sloppy_quorum: Some(false),
            timeout_ms: Some(CALL_TIMEOUT.as_millis() as u32),
            ..ReadOptions::default()
        };
        let differ =
            batch.iter().zip(opinions).filter(|(_, opinion)| **opinion == Opinion::Differs);
        for (Candidate { noted, .. }, _) in differ.take(UNITED_COUNT) {
            let Ok(key) = KeyRef::decode(&noted.encoded) else { continue };
            if let Err(fault) = self.refresh_own(key, &all).await {
                tracing::debug!(%fault, "primaries that differ could not be brought together");
                return;
            }
        }
    }

    /// Those that this node still holds as they were noted.
    async fn still_here(self: &Arc<Self>, mut batch: Vec<Candidate>) -> Vec<Candidate> {
        let store = Arc::clone(self);
        let look = move || {
            batch.retain(|candidate| store.holds(&candidate.noted));
            Ok(batch)
        };
        self.settings.blocking.behind(look).await.unwrap_or_default()
    }

    /// Whether a tombstone is here as it was noted.
    fn holds(&self, noted: &Noted) -> bool {
        let Ok(place) = Place::new(&noted.encoded, noted.partition) else { return false };
        let head = self.engine.head(&place.at());
        head.is_ok_and(|head| head.is_some_and(|meta| meta.digest == noted.digest))
    }

    /// Asks the other primaries about tombstones, or has them removed there.
    async fn ask(&self, topology: &Topology, batch: &[Candidate], remove: bool) -> Vec<Opinion> {
        let mut by_node: BTreeMap<NodePlace, Vec<usize>> = BTreeMap::new();
        for (index, candidate) in batch.iter().enumerate() {
            candidate.others.iter().for_each(|node| by_node.entry(*node).or_default().push(index));
        }
        let mut replies = Replies::new();
        for (node, indices) in &by_node {
            let Some(peer) = topology.peer(*node) else { continue };
            let tombstones = indices.iter().map(|index| tombstone(&batch[*index].noted)).collect();
            let reap = Reap { layout_version: topology.layout_version(), remove, tombstones };
            // Who can't be asked does not agree.
            let _ = peer.send(METHOD_REAP, &reap, b"", Lane::Large, &replies, *node);
        }
        let deadline = Instant::now() + CALL_TIMEOUT;
        let mut answers = BTreeMap::new();
        while let Ok(Some((node, answer))) = timeout_at(deadline, replies.next()).await {
            if let Ok(Ok(reaped)) = answer.map(|reply| Reaped::decode(reply.header)) {
                answers.insert(node, reaped.agreed);
            }
        }
        let mut opinions = vec![Opinion::Agreed; batch.len()];
        for (node, indices) in &by_node {
            for (place, index) in indices.iter().enumerate() {
                let opinion = match answers.get(node) {
                    None => Opinion::Unknown,
                    Some(marks) if Marks::is_set(marks, place) => Opinion::Agreed,
                    Some(_) => Opinion::Differs,
                };
                opinions[*index] = opinion.max(opinions[*index]);
            }
        }
        opinions
    }

    /// Removes this node's copies of tombstones that are gone elsewhere, and returns those that stayed.
    async fn reap_own(self: &Arc<Self>, batch: Vec<Candidate>) -> Vec<Candidate> {
        let store = Arc::clone(self);
        let reap = move || {
            let failed = |candidate: &Candidate| match store.reap(&candidate.noted) {
                // There may be no room to remember it.
                Ok(reaped) => !reaped && store.holds(&candidate.noted),
                Err(fault) => {
                    tracing::warn!(%fault, "reaping put off");
                    true
                }
            };
            Ok(batch.into_iter().filter(failed).collect())
        };
        self.settings.blocking.behind(reap).await.unwrap_or_default()
    }

    fn reap_later(&self, tombstones: Vec<Noted>) {
        let due_us = self.clock.unix_us() + AGAIN_US;
        self.reaper.insert(tombstones.into_iter().map(|noted| Noted { due_us, ..noted }));
    }
}

fn tombstone(noted: &Noted) -> Tombstone {
    let partition = u32::from(noted.partition.0);
    Tombstone { key: noted.encoded.clone(), partition, digest: noted.digest }
}

/// Those on which all agree, and the others.
fn part(batch: Vec<Candidate>, opinions: &[Opinion]) -> (Vec<Candidate>, Vec<Candidate>) {
    let mut opinions = opinions.iter();
    batch.into_iter().partition(|_| opinions.next() == Some(&Opinion::Agreed))
}
