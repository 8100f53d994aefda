//! Serves the two steps of [`super::agreement`] on a primary, and takes over reap records.
//!
//! An agreement says that the tombstone or a reap record is on this node's disk, even if the power fails
//! right after the answer: other primaries remove their tombstones because of it. Both steps can be repeated
//! at will, and nothing is kept in memory between them.

use super::Reaper;
use crate::bitmap::Bitmap;
use crate::error::RequestError;
use crate::placement::PlacedKey;
use crate::reap_records::ReapRecord;
use crate::refusal::{Refusal, refuse};
use crate::replica::Copy;
use crate::stored::decode;
use crate::tombstones::NotedTombstone;
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{IncomingRequest, Responder};
use quoit_model::hash::Partition;
use quoit_planted::planted;
use quoit_seam::yield_to_requests;
use quoit_store::engine::{IoMode, RecordAt};
use quoit_store::error::StoreError;
use quoit_wire::internode::reap::{
    HeldTombstones, HoldTombstones, Reap, ReapedTaken, TakeReaped, Tombstone,
};
use std::sync::Arc;

impl Reaper {
    pub(crate) fn serve_hold(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        match self.read_settled_header(request, |hold: &HoldTombstones| hold.layout_version) {
            Ok(hold) => self.serve_tombstones(reply, move |reaper| reaper.held(&hold.tombstones)),
            Err(refusal) => refuse(reply, &refusal),
        }
    }

    pub(crate) fn serve_reap(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        match self.read_settled_header(request, |reap: &Reap| reap.layout_version) {
            Ok(reap) => self.serve_tombstones(reply, move |reaper| reaper.reaped(&reap.tombstones)),
            Err(refusal) => refuse(reply, &refusal),
        }
    }

    /// Reads a request's header like
    /// [`LocalNode::read_header`](crate::local_node::LocalNode::read_header). Refuses while several
    /// layouts are live here: the asking node may not know of new primaries, and these would keep the
    /// tombstone after all others have reaped it.
    fn read_settled_header<M: Message + Default>(
        &self,
        request: &IncomingRequest,
        layout_version: impl Fn(&M) -> u64,
    ) -> Result<M, Refusal> {
        let header = self.local.read_header(request, layout_version)?;
        if self.local.topology().is_moving() { Err(Refusal::StaleLayout) } else { Ok(header) }
    }

    /// Runs a step of the agreement on another thread, and answers which tombstones it has dealt with.
    fn serve_tombstones(
        self: Arc<Self>,
        reply: Responder,
        step: impl FnOnce(&Self) -> Result<Bitmap, Refusal> + Send + 'static,
    ) {
        let blocking = self.local.settings.blocking;
        tokio::spawn(async move {
            match blocking.on_pool(move || Ok(step(&self))).await {
                Ok(Ok(agreed)) => reply.send(&HeldTombstones { agreed: agreed.into_bytes() }, b""),
                Ok(Err(refusal)) => refuse(reply, &refusal),
                Err(fault) => refuse(reply, &fault.into()),
            }
        });
    }

    /// Holds tombstones: syncs those that are stored here, and makes reap records of those in whose place
    /// nothing is stored. Returns which are held. For the others, something else is stored, or the record
    /// can't be read.
    fn held(&self, tombstones: &[Tombstone]) -> Result<Bitmap, Refusal> {
        let mut held = Bitmap::none(tombstones.len());
        let mut lacking = Vec::new();
        for (index, tombstone) in tombstones.iter().enumerate() {
            yield_to_requests();
            let place = self.local.place(&tombstone.key, tombstone.partition)?;
            let at = place.at();
            match self.local.engine.head(&at) {
                // A damaged record is not held until it is healed, and does not hold up others.
                Err(StoreError::Corrupt { .. }) => {}
                Err(fault) => return Err(RequestError::from(fault).into()),
                Ok(Some(meta)) if meta.digest == tombstone.digest => held.set(index),
                Ok(Some(_)) if planted!(ReapsOnDifference) => held.set(index),
                Ok(Some(_)) => {}
                Ok(None) if planted!(AgreesEmptyHanded) => held.set(index),
                Ok(None) => {
                    lacking.push((index, reap_record(&at, tombstone.object.clone())?));
                }
            }
        }
        // The other primaries remove the tombstone because this node says that it holds it. A power
        // failure must not lose it here.
        if !held.is_empty() && !planted!(AgreesUnsynced) {
            self.local.engine.sync().map_err(RequestError::from)?;
        }
        for (index, _) in &lacking {
            held.set(*index);
        }
        self.replica.make_reap_records(lacking.into_iter().map(|(_, record)| record).collect())?;
        Ok(held)
    }

    /// Reaps tombstones that all primaries hold. Returns which of them are gone.
    fn reaped(&self, tombstones: &[Tombstone]) -> Result<Bitmap, Refusal> {
        let places = tombstones.iter().map(|each| {
            self.local.place(&each.key, each.partition).map(|place| (place, each.digest))
        });
        let places: Vec<_> = places.collect::<Result<_, Refusal>>()?;
        Ok(self.reap_all(&places)?)
    }

    /// Makes reap records of the tombstones that are stored unchanged, syncs them, and then removes the
    /// tombstones. Returns for each place whether nothing is stored there any more.
    fn reap_all(&self, places: &[(PlacedKey<'_>, u64)]) -> Result<Bitmap, RequestError> {
        let mut gone = Bitmap::none(places.len());
        let (mut records, mut there) = (Vec::new(), Vec::new());
        for (index, (place, digest)) in places.iter().enumerate() {
            yield_to_requests();
            let at = place.at();
            match self.replica.fetch_copy(&at, true, IoMode::Wait) {
                Err(RequestError::Store(StoreError::Corrupt { .. })) => {}
                Err(fault) => return Err(fault),
                Ok(Some(Copy::Found(stored, Some(tombstone)))) if stored == *digest => {
                    records.push(reap_record(&at, tombstone)?);
                    there.push((index, at, *digest));
                }
                Ok(Some(Copy::Found(..))) => {}
                Ok(Some(Copy::Missing) | None) => gone.set(index),
            }
        }
        debug_assert_eq!(records.len(), there.len(), "what is removed has a reap record before");
        self.replica.add_reap_records(records)?;
        for (index, at, digest) in there {
            yield_to_requests();
            if self.replica.reap_copy(&at, digest)? {
                gone.set(index);
            }
        }
        Ok(gone)
    }

    /// Reaps queued tombstones like [`Self::reap_all`]. Returns those that are left.
    pub(super) fn reap_noted(&self, noted: Vec<NotedTombstone>) -> Vec<NotedTombstone> {
        let places = noted.iter().map(|each| {
            PlacedKey::new(&each.encoded, each.partition).map(|place| (place, each.digest))
        });
        let places: Result<Vec<_>, _> = places.collect();
        let gone =
            match places.map_err(RequestError::from).and_then(|places| self.reap_all(&places)) {
                Ok(gone) => gone.into_bytes(),
                Err(fault) => {
                    tracing::warn!(%fault, "reaping put off");
                    return noted;
                }
            };
        let mut index = 0..;
        let is_left =
            |_: &NotedTombstone| index.next().is_some_and(|index| !Bitmap::is_set(&gone, index));
        noted.into_iter().filter(is_left).collect()
    }

    /// Takes over reap records that another node hands to this one as a primary of their partition.
    pub(crate) fn serve_take_reaped(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        let take = match self.local.read_header(request, |take: &TakeReaped| take.layout_version) {
            Ok(take) => take,
            Err(refusal) => return refuse(reply, &refusal),
        };
        let blocking = self.local.settings.blocking;
        tokio::spawn(async move {
            match blocking.at_low_priority(move || Ok(self.take_reaped(&take))).await {
                Ok(Ok(())) => reply.send(&ReapedTaken {}, b""),
                Ok(Err(refusal)) => refuse(reply, &refusal),
                Err(fault) => refuse(reply, &fault.into()),
            }
        });
    }

    fn take_reaped(&self, take: &TakeReaped) -> Result<(), Refusal> {
        let mut records = Vec::with_capacity(take.records.len());
        for record in &take.records {
            let place = self.local.place(&record.key, record.partition)?;
            records.push(reap_record(&place.at(), record.object.clone())?);
        }
        Ok(self.replica.make_reap_records(records)?)
    }
}

/// Makes the reap record of a tombstone.
///
/// # Errors
///
/// If the tombstone can't be decoded.
pub(super) fn reap_record(at: &RecordAt<'_>, tombstone: Bytes) -> Result<ReapRecord, RequestError> {
    // A reap record must be readable to keep an older copy out.
    decode(&tombstone)?;
    let (partition, identity): (Partition, _) = (at.partition, at.identity);
    Ok(ReapRecord { partition, identity, name: Bytes::copy_from_slice(at.encoded), tombstone })
}
