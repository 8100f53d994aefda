//! Reaping where several nodes hold a record.
//!
//! Tombstones are reaped by the batch: one message has a primary hold many, on its disk, a second one has
//! those reaped that all primaries hold. The node that asks reaps its own copies last, so that what a
//! primary failed to remove is tried again. A primary that has nothing instead of a tombstone holds it as a
//! reap record; no other member has to be up. Where a primary holds something else, nobody else would find
//! out, since tombstones are not compared: a read of all primaries brings them together.

use super::Marks;
use super::Reaper;
use crate::blocking::give_way;
use crate::error::RequestError;
use crate::options::ReadOptions;
use crate::placement::{Place, n_val_of};
use crate::replica::Copy;
use crate::tombstones::{DUE_COUNT_MAX, NotedTombstone};
use crate::topology::Topology;
use crate::votes::NodePlace;
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{Lane, Replies, State};
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use quoit_planted::planted;
use quoit_store::engine::Access;
use quoit_wire::internode::reap::{Agreed, Hold, METHOD_HOLD, METHOD_REAP, Reap, Tombstone};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Time that primaries have to say what they hold.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long after primaries were asked to hold tombstones these may be reaped.
const HELD_FOR: Duration = Duration::from_secs(30);
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
    noted: NotedTombstone,
    /// Its other primaries.
    others: SmallVec<[NodePlace; 4]>,
    /// Its stored form.
    tombstone: Bytes,
}

/// Next step for a tombstone that is due.
enum AgreementStep {
    Now(SmallVec<[NodePlace; 4]>),
    /// A primary is missing.
    Later,
    /// Never: another node sees to it.
    Elsewhere,
}

/// The question about tombstones that primaries are asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Hold,
    Reap,
}

/// State of a tombstone on the other primaries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Opinion {
    /// All have done as asked.
    Agreed,
    /// A primary did not answer.
    Unknown,
    /// A primary holds something else.
    Differs,
}

impl Reaper {
    /// Reaps tombstones that are due and that all primaries hold. Says whether these were all that are due.
    pub(super) async fn reap_together(self: &Arc<Self>, delay_ms: Option<u64>) -> bool {
        let state = self.local.state();
        let topology = self.local.topology();
        let due = match self.due_tombstones(delay_ms).await {
            Ok(due) if due.is_empty() => return true,
            Ok(due) => due,
            Err(fault) => {
                tracing::warn!(%fault, "reaping put off");
                return true;
            }
        };
        let is_all = due.len() < DUE_COUNT_MAX;
        let mut later = Vec::new();
        let (mut batch, mut size_bytes) = (Vec::new(), 0);
        for noted in due {
            match self.turn(&topology, &state, &noted) {
                AgreementStep::Now(others) => {
                    size_bytes += noted.encoded.len();
                    batch.push(Candidate { noted, others, tombstone: Bytes::new() });
                }
                AgreementStep::Later => later.push(noted),
                AgreementStep::Elsewhere => {}
            }
            if batch.len() >= BATCH_COUNT || size_bytes >= BATCH_BYTES {
                later.extend(self.reap_batch(&topology, take(&mut batch)).await);
                size_bytes = 0;
            }
        }
        later.extend(self.reap_batch(&topology, batch).await);
        self.reap_later(later);
        is_all
    }

    fn turn(&self, topology: &Topology, state: &State, noted: &NotedTombstone) -> AgreementStep {
        let Some(n_val) = n_val_of(state, &noted.encoded) else { return AgreementStep::Elsewhere };
        let Some(mut primaries) = topology.settled_primaries(noted.partition, n_val) else {
            return AgreementStep::Later;
        };
        let own_place = primaries.iter().position(|node| Some(*node) == topology.own());
        match own_place {
            // The first primary sees to it; one that it has left behind is any primary's business.
            Some(0) => {}
            Some(_) if noted.is_left_behind => {}
            Some(_) | None => return AgreementStep::Elsewhere,
        }
        primaries.retain(|node| Some(*node) != topology.own());
        AgreementStep::Now(primaries)
    }

    /// Reaps those of a batch that all primaries hold, and returns those that have to wait.
    async fn reap_batch(
        self: &Arc<Self>,
        topology: &Topology,
        batch: Vec<Candidate>,
    ) -> Vec<NotedTombstone> {
        if batch.is_empty() {
            return Vec::new();
        }
        let held_until = Instant::now() + HELD_FOR;
        let batch = match self.still_here(batch).await {
            Ok(batch) => batch,
            Err(noted) => return noted,
        };
        let opinions = self.ask(topology, &batch, Phase::Hold).await;
        self.unite(&batch, &opinions).await;
        let (batch, mut later) = part(batch, &opinions);
        // A primary that was not asked holds nothing, and what was held long ago may have been forgotten.
        let newest = self.local.topology();
        if Instant::now() >= held_until || newest.version() != topology.version() {
            later.extend(batch);
            return later.into_iter().map(|candidate| candidate.noted).collect();
        }
        let removed = self.ask(topology, &batch, Phase::Reap).await;
        let (gone, left) = part(batch, &removed);
        later.extend(left);
        if self.hook.queues_reaps() {
            for Candidate { noted, tombstone, .. } in gone.iter().filter(|each| !each.noted.is_told)
            {
                self.hook.queue_reaped(&noted.encoded, tombstone);
            }
        }
        let mut later: Vec<NotedTombstone> =
            later.into_iter().map(|candidate| candidate.noted).collect();
        later.extend(self.reap_own(gone).await);
        later
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
            if let Err(fault) = self.coordinator.refresh_own(key, &all).await {
                tracing::debug!(%fault, "primaries that differ could not be brought together");
                return;
            }
        }
    }

    /// Those that this node still holds as they were noted, on its disk, with the tombstones; or, when it
    /// can't tell, all of them as they were noted.
    async fn still_here(
        self: &Arc<Self>,
        batch: Vec<Candidate>,
    ) -> Result<Vec<Candidate>, Vec<NotedTombstone>> {
        let reaper = Arc::clone(self);
        let look = move || {
            let mut here = Vec::with_capacity(batch.len());
            let mut fault = None;
            for mut candidate in batch {
                give_way();
                match reaper.tombstone_of(&candidate.noted) {
                    Ok(Some(tombstone)) => candidate.tombstone = tombstone,
                    Ok(None) => continue,
                    Err(unreadable) => fault = Some(unreadable),
                }
                here.push(candidate);
            }
            if fault.is_none() && !here.is_empty() && !planted!(AgreesUnsynced) {
                fault = reaper.local.engine.sync().err().map(Into::into);
            }
            Ok(match fault {
                None => Ok(here),
                Some(fault) => {
                    tracing::warn!(%fault, "reaping put off");
                    Err(here.into_iter().map(|candidate| candidate.noted).collect())
                }
            })
        };
        self.local.settings.blocking.aside(look).await.unwrap_or_else(|_| Ok(Vec::new()))
    }

    /// The stored form of a tombstone that is here as it was noted.
    pub(super) fn tombstone_of(
        &self,
        noted: &NotedTombstone,
    ) -> Result<Option<Bytes>, RequestError> {
        let Ok(place) = Place::new(&noted.encoded, noted.partition) else { return Ok(None) };
        let copy = self.replica.fetch_copy(&place.at(), true, Access::Wait)?;
        Ok(match copy {
            Some(Copy::Found(digest, tombstone)) if digest == noted.digest => tombstone,
            Some(Copy::Found(..) | Copy::Missing) | None => None,
        })
    }

    /// Has the other primaries hold tombstones, or reap them.
    async fn ask(&self, topology: &Topology, batch: &[Candidate], phase: Phase) -> Vec<Opinion> {
        let mut by_node: BTreeMap<NodePlace, Vec<usize>> = BTreeMap::new();
        for (index, candidate) in batch.iter().enumerate() {
            candidate.others.iter().for_each(|node| by_node.entry(*node).or_default().push(index));
        }
        let mut replies = Replies::new();
        for (node, indices) in &by_node {
            let Some(peer) = topology.peer(*node) else { continue };
            let tombstones = indices.iter().map(|index| tombstone(&batch[*index], phase)).collect();
            let layout_version = topology.layout_version();
            // A node that can't be asked does not agree.
            let _ = match phase {
                Phase::Hold => {
                    let hold = Hold { layout_version, tombstones };
                    peer.send(METHOD_HOLD, &hold, b"", Lane::Large, &replies, *node)
                }
                Phase::Reap => {
                    let reap = Reap { layout_version, tombstones };
                    peer.send(METHOD_REAP, &reap, b"", Lane::Large, &replies, *node)
                }
            };
        }
        let deadline = Instant::now() + CALL_TIMEOUT;
        let mut answers = BTreeMap::new();
        while let Ok(Some((node, answer))) = timeout_at(deadline, replies.next()).await {
            if let Ok(Ok(answer)) = answer.map(|reply| Agreed::decode(reply.header)) {
                answers.insert(node, answer.agreed);
            }
        }
        let mut opinions = vec![Opinion::Agreed; batch.len()];
        for (node, indices) in &by_node {
            for (place, index) in indices.iter().enumerate() {
                let opinion = match answers.get(node) {
                    None if planted!(ReapsOnSilence) => Opinion::Agreed,
                    None => Opinion::Unknown,
                    Some(marks) if Marks::is_set(marks, place) => Opinion::Agreed,
                    Some(_) => Opinion::Differs,
                };
                opinions[*index] = opinion.max(opinions[*index]);
            }
        }
        opinions
    }

    /// Reaps this node's copies of tombstones that are gone elsewhere, and returns those that stayed.
    async fn reap_own(self: &Arc<Self>, batch: Vec<Candidate>) -> Vec<NotedTombstone> {
        let reaper = Arc::clone(self);
        let noted = batch.into_iter().map(|candidate| candidate.noted).collect();
        let reap = move || Ok(reaper.reap_noted(noted));
        self.local.settings.blocking.aside(reap).await.unwrap_or_default()
    }

    pub(super) fn reap_later(&self, tombstones: Vec<NotedTombstone>) {
        let due_us = self.local.clock.unix_us() + AGAIN_US;
        self.tombstones
            .insert(tombstones.into_iter().map(|noted| NotedTombstone { due_us, ..noted }));
    }
}

fn tombstone(candidate: &Candidate, phase: Phase) -> Tombstone {
    let Candidate { noted, tombstone, .. } = candidate;
    let object = if phase == Phase::Hold { tombstone.clone() } else { Bytes::new() };
    let partition = u32::from(noted.partition.0);
    Tombstone { key: noted.encoded.clone(), partition, digest: noted.digest, object }
}

/// Those on which all agree, and the others.
fn part(batch: Vec<Candidate>, opinions: &[Opinion]) -> (Vec<Candidate>, Vec<Candidate>) {
    let mut opinions = opinions.iter();
    batch.into_iter().partition(|_| opinions.next() == Some(&Opinion::Agreed))
}
