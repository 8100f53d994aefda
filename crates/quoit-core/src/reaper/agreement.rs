//! Reaping where several nodes hold a record: the agreement of all primaries in two steps.
//!
//! 1. *Hold.* The first primary sends a batch of its tombstones to each other primary. A primary that
//!    stores the tombstone syncs it and agrees. A primary that stores nothing under the name makes a reap
//!    record of the tombstone, on its disk, and agrees. A primary that stores something else, or that
//!    can't read its record, does not agree.
//! 2. *Reap.* The first primary sends the tombstones that all hold, within [`HELD_FOR`] and by the same
//!    version of the control plane's state. Each primary makes the reap record, on its disk, and then
//!    removes the tombstone. The first primary removes its own copies last, and only those that are gone
//!    on all others, so that it tries again what another one failed to remove.
//!
//! The invariant: before the first copy of a tombstone is removed, each primary has the tombstone or a
//! reap record on its disk. Both keep out older copies, so a crash at any point leaves a state from which
//! a later pass continues. No member but the primaries has to be up.
//!
//! Digests do not cover tombstones, so anti-entropy does not find primaries that store something else.
//! The reaper has those records read from all primaries, which repairs them.

use super::{DueTombstones, Reaper};
use crate::bitmap::Bitmap;
use crate::error::RequestError;
use crate::options::ReadOptions;
use crate::placement::{PlacedKey, n_val_of};
use crate::replica::Copy;
use crate::tombstones::NotedTombstone;
use crate::topology::Topology;
use crate::votes::NodeIndex;
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{Lane, Replies, State};
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use quoit_planted::planted;
use quoit_seam::yield_to_requests;
use quoit_store::engine::IoMode;
use quoit_store::error::StoreError;
use quoit_wire::internode::reap::{
    HeldTombstones, HoldTombstones, METHOD_HOLD, METHOD_REAP, Reap, Tombstone,
};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Time that primaries have to answer, in milliseconds.
const CALL_TIMEOUT_MS: u32 = 5_000;
const CALL_TIMEOUT: Duration = Duration::from_millis(CALL_TIMEOUT_MS as u64);
/// Longest time between the start of the first step and the second one.
const HELD_FOR: Duration = Duration::from_secs(30);
/// Time after which a tombstone that could not be reaped is tried again, in microseconds.
const RETRY_DELAY_US: u64 = 10_000_000;
/// Size of the names in a batch, in bytes, beyond which the batch is sent.
const BATCH_BYTES: usize = 128 << 10;
/// Largest number of records of a batch that are read from all primaries because their primaries store
/// different versions. Further records are repaired in a later pass.
const REPAIR_COUNT_MAX: usize = 50;

/// A tombstone that this node asks the other primaries to hold and to reap.
struct Candidate {
    noted: NotedTombstone,
    /// The record's other primaries.
    others: SmallVec<[NodeIndex; 4]>,
    /// The tombstone as it is stored; empty until it has been read.
    tombstone: Bytes,
}

/// Next step for a tombstone that is due.
enum AgreementStep {
    /// This node asks these other primaries now.
    Now(SmallVec<[NodeIndex; 4]>),
    /// Layouts change, or a primary can't be reached or has lost records.
    Later,
    /// Another node is responsible for it.
    Elsewhere,
}

/// The step of the agreement that primaries are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AgreementPhase {
    Hold,
    Reap,
}

/// State of a tombstone on the other primaries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum PrimaryAnswer {
    /// All primaries have carried out the step.
    Agreed,
    /// A primary did not answer.
    Unknown,
    /// A primary stores something else.
    Differs,
}

impl Reaper {
    /// Reaps the tombstones that are due and that all primaries hold. Returns true if no more tombstones
    /// are due, and all that are stored are known.
    pub(super) async fn reap_together(self: &Arc<Self>, delay_ms: Option<u64>) -> bool {
        let state = self.local.state();
        let topology = self.local.topology();
        let DueTombstones { due, is_all } = match self.due_tombstones(delay_ms).await {
            Ok(taken) if taken.due.is_empty() => return taken.is_all,
            Ok(taken) => taken,
            Err(fault) => {
                tracing::warn!(%fault, "reaping put off");
                return true;
            }
        };
        let mut later = Vec::new();
        let (mut batch, mut size_bytes) = (Vec::new(), 0);
        for noted in due {
            match self.next_step(&topology, &state, &noted) {
                AgreementStep::Now(others) => {
                    size_bytes += noted.encoded.len();
                    batch.push(Candidate { noted, others, tombstone: Bytes::new() });
                }
                AgreementStep::Later => later.push(noted),
                AgreementStep::Elsewhere => {}
            }
            if size_bytes >= BATCH_BYTES {
                later.extend(self.reap_batch(&topology, take(&mut batch)).await);
                size_bytes = 0;
            }
        }
        later.extend(self.reap_batch(&topology, batch).await);
        self.reap_later(later);
        is_all
    }

    /// Decides whether this node should have a tombstone reaped now, later, or not at all.
    fn next_step(
        &self,
        topology: &Topology,
        state: &State,
        noted: &NotedTombstone,
    ) -> AgreementStep {
        let Some(n_val) = n_val_of(state, &noted.encoded) else { return AgreementStep::Elsewhere };
        let Some(mut primaries) = topology.settled_primaries(noted.partition, n_val) else {
            return AgreementStep::Later;
        };
        let own_place = primaries.iter().position(|node| Some(*node) == topology.own());
        match own_place {
            // The first primary is responsible. For a tombstone that was left behind, any primary is.
            Some(0) => {}
            Some(_) if noted.is_left_behind => {}
            Some(_) | None => return AgreementStep::Elsewhere,
        }
        primaries.retain(|node| Some(*node) != topology.own());
        AgreementStep::Now(primaries)
    }

    /// Reaps the tombstones of a batch that all primaries hold, and returns the others.
    async fn reap_batch(
        self: &Arc<Self>,
        topology: &Topology,
        batch: Vec<Candidate>,
    ) -> Vec<NotedTombstone> {
        if batch.is_empty() {
            return Vec::new();
        }
        let held_until = Instant::now() + HELD_FOR;
        let batch = match self.still_stored(batch).await {
            Ok(batch) => batch,
            Err(noted) => return noted,
        };
        let opinions = self.ask(topology, &batch, AgreementPhase::Hold).await;
        self.repair_differing(&batch, &opinions).await;
        let (batch, mut later) = part(batch, &opinions);
        // A newer state may have primaries that were not asked. A primary that was asked long ago may
        // have dropped what it held since.
        let newest = self.local.topology();
        if Instant::now() >= held_until || newest.version() != topology.version() {
            later.extend(batch);
            return later.into_iter().map(|candidate| candidate.noted).collect();
        }
        let removed = self.ask(topology, &batch, AgreementPhase::Reap).await;
        let (gone, left) = part(batch, &removed);
        later.extend(left);
        if self.hook.queues_reaps() {
            for Candidate { noted, tombstone, .. } in
                gone.iter().filter(|each| !each.noted.is_reaped_elsewhere)
            {
                self.hook.queue_reaped(noted, tombstone);
            }
        }
        let mut later: Vec<NotedTombstone> =
            later.into_iter().map(|candidate| candidate.noted).collect();
        later.extend(self.reap_own(gone).await);
        later
    }

    /// Reads the records for which primaries store different things from all primaries, which repairs
    /// them.
    async fn repair_differing(&self, batch: &[Candidate], opinions: &[PrimaryAnswer]) {
        let all = ReadOptions {
            r: Some(Quorum::All),
            pr: Some(Quorum::All),
            sloppy_quorum: Some(false),
            timeout_ms: Some(CALL_TIMEOUT_MS),
            ..ReadOptions::default()
        };
        let differ =
            batch.iter().zip(opinions).filter(|(_, opinion)| **opinion == PrimaryAnswer::Differs);
        for (Candidate { noted, .. }, _) in differ.take(REPAIR_COUNT_MAX) {
            let Ok(key) = KeyRef::decode(&noted.encoded) else { continue };
            if let Err(fault) = self.coordinator.refresh_own(key, &all).await {
                tracing::debug!(%fault, "primaries that differ could not be brought together");
                return;
            }
        }
    }

    /// Returns the tombstones of a batch that this node still stores unchanged, with their stored form,
    /// after a sync. If reading or syncing fails, returns them as the error, to be tried later.
    async fn still_stored(
        self: &Arc<Self>,
        batch: Vec<Candidate>,
    ) -> Result<Vec<Candidate>, Vec<NotedTombstone>> {
        let reaper = Arc::clone(self);
        let look = move || {
            let mut here = Vec::with_capacity(batch.len());
            let mut fault = None;
            for mut candidate in batch {
                yield_to_requests();
                match reaper.tombstone_of(&candidate.noted) {
                    Ok(Some(tombstone)) => candidate.tombstone = tombstone,
                    Ok(None) => continue,
                    // A damaged record does not delay the others. A scan finds its tombstone again after it
                    // is healed; one that an operator wants reaped is put back instead, because no scan may
                    // find it.
                    Err(RequestError::Store(StoreError::Corrupt { .. })) => {
                        if candidate.noted.is_wanted {
                            reaper.reap_later(vec![candidate.noted]);
                        }
                        continue;
                    }
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
        self.local.settings.blocking.on_pool(look).await.unwrap_or_else(|_| Ok(Vec::new()))
    }

    /// Returns the stored form of a tombstone, if this node still stores it unchanged.
    pub(super) fn tombstone_of(
        &self,
        noted: &NotedTombstone,
    ) -> Result<Option<Bytes>, RequestError> {
        let Ok(place) = PlacedKey::new(&noted.encoded, noted.partition) else { return Ok(None) };
        let copy = self.replica.fetch_copy(&place.at(), true, IoMode::Wait)?;
        Ok(match copy {
            Some(Copy::Found(digest, tombstone)) if digest == noted.digest => tombstone,
            Some(Copy::Found(..) | Copy::Missing) | None => None,
        })
    }

    /// Asks the other primaries to hold or to reap the tombstones of a batch. Returns one opinion for
    /// each.
    #[expect(clippy::indexing_slicing, reason = "`by_node` has indexes of the batch")]
    async fn ask(
        &self,
        topology: &Topology,
        batch: &[Candidate],
        phase: AgreementPhase,
    ) -> Vec<PrimaryAnswer> {
        let mut by_node: BTreeMap<NodeIndex, Vec<usize>> = BTreeMap::new();
        for (index, candidate) in batch.iter().enumerate() {
            candidate.others.iter().for_each(|node| by_node.entry(*node).or_default().push(index));
        }
        let mut replies = Replies::new();
        for (node, indices) in &by_node {
            let Some(peer) = topology.peer(*node) else { continue };
            let tombstones = indices.iter().map(|index| tombstone(&batch[*index], phase)).collect();
            let layout_version = topology.layout_version();
            // A node to which nothing could be sent counts as one that did not answer.
            let _ = match phase {
                AgreementPhase::Hold => {
                    let hold = HoldTombstones { layout_version, tombstones };
                    peer.send(METHOD_HOLD, &hold, b"", Lane::Large, &replies, *node)
                }
                AgreementPhase::Reap => {
                    let reap = Reap { layout_version, tombstones };
                    peer.send(METHOD_REAP, &reap, b"", Lane::Large, &replies, *node)
                }
            };
        }
        let deadline = Instant::now() + CALL_TIMEOUT;
        let mut answers = BTreeMap::new();
        while let Ok(Some((node, answer))) = timeout_at(deadline, replies.next()).await {
            if let Ok(Ok(answer)) = answer.map(|reply| HeldTombstones::decode(reply.header)) {
                answers.insert(node, answer.agreed);
            }
        }
        let mut opinions = vec![PrimaryAnswer::Agreed; batch.len()];
        for (node, indices) in &by_node {
            for (place, index) in indices.iter().enumerate() {
                let opinion = match answers.get(node) {
                    None if planted!(ReapsOnSilence) => PrimaryAnswer::Agreed,
                    None => PrimaryAnswer::Unknown,
                    Some(bits) if Bitmap::is_set(bits, place) => PrimaryAnswer::Agreed,
                    Some(_) => PrimaryAnswer::Differs,
                };
                opinions[*index] = match planted!(HearsLastPrimary) {
                    true => opinion,
                    false => opinion.max(opinions[*index]),
                };
            }
        }
        opinions
    }

    /// Reaps this node's copies of tombstones that are gone on all other primaries. Returns those that
    /// could not be reaped.
    async fn reap_own(self: &Arc<Self>, batch: Vec<Candidate>) -> Vec<NotedTombstone> {
        let reaper = Arc::clone(self);
        let noted = batch.into_iter().map(|candidate| candidate.noted).collect();
        let reap = move || Ok(reaper.reap_noted(noted));
        self.local.settings.blocking.on_pool(reap).await.unwrap_or_default()
    }

    /// Puts tombstones back into the queue, to be tried again after [`RETRY_DELAY_US`].
    pub(super) fn reap_later(&self, tombstones: Vec<NotedTombstone>) {
        let due_us = self.local.clock.unix_us() + RETRY_DELAY_US;
        self.tombstones
            .put_back(tombstones.into_iter().map(|noted| NotedTombstone { due_us, ..noted }));
    }
}

fn tombstone(candidate: &Candidate, phase: AgreementPhase) -> Tombstone {
    let Candidate { noted, tombstone, .. } = candidate;
    let object = if phase == AgreementPhase::Hold { tombstone.clone() } else { Bytes::new() };
    let partition = u32::from(noted.partition.0);
    Tombstone { key: noted.encoded.clone(), partition, digest: noted.digest, object }
}

/// Splits a batch into the tombstones on which all primaries agree, and the others.
fn part(batch: Vec<Candidate>, opinions: &[PrimaryAnswer]) -> (Vec<Candidate>, Vec<Candidate>) {
    debug_assert_eq!(batch.len(), opinions.len(), "each tombstone has an opinion of its primaries");
    let mut opinions = opinions.iter();
    batch.into_iter().partition(|_| opinions.next() == Some(&PrimaryAnswer::Agreed))
}
