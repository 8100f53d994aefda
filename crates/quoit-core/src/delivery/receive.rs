//! Receives records: answers offers, and takes deliveries.
//!
//! The sender removes strays and counts copies as done after these answers. So an answer leaves only after a
//! sync: of the records that this node did not want, which may have been accepted but not synced, and of
//! those that it has merged. A delivery is merged record by record. If it fails in the middle, the sender
//! offers all of it again later, and merging a record again changes nothing.

use super::RecordDelivery;
use super::hand::meta_of;
use crate::bitmap::Bitmap;
use crate::error::RequestError;
use crate::reap_records::ReapRecord;
use crate::refusal::{Refusal, refuse};
use crate::replica::{ApplyOutcome, Replicated};
use bytes::Bytes;
use quoit_cluster::{IncomingRequest, Responder};
use quoit_model::object::Object;
use quoit_number::length_u32;
use quoit_planted::planted;
use quoit_store::engine::{IoMode, RecordAt, Ticket};
use quoit_store::error::StoreError;
use quoit_wire::internode::data::MergeRule;
use quoit_wire::internode::transfer::{Deliver, Delivered, Offer, Offered};
use std::sync::Arc;

impl RecordDelivery {
    pub(crate) fn serve_offer(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        if !self.throttle.takes() {
            return refuse(reply, &Refusal::SwitchedOff);
        }
        let offer = match self.local.read_header(request, |offer: &Offer| offer.layout_version) {
            Ok(offer) => offer,
            Err(refusal) => return refuse(reply, &refusal),
        };
        let pressure_percent = self.yielding.receives(offer.is_minimum_rate);
        tokio::spawn(async move {
            let blocking = self.local.settings.blocking;
            match blocking.at_low_priority(move || Ok(self.wanted(&offer))).await {
                Ok(Ok(wanted)) => {
                    let wanted = wanted.into_bytes();
                    reply.send(&Offered { wanted, pressure_percent }, b"");
                }
                Ok(Err(refusal)) => refuse(reply, &refusal),
                Err(fault) => refuse(reply, &fault.into()),
            }
        });
    }

    /// Returns a bit for each offered record, set if this node lacks it, has another version that does
    /// not supersede it, or can't read its own. The records without a bit are synced.
    fn wanted(&self, offer: &Offer) -> Result<Bitmap, Refusal> {
        if offer.keys.len() != offer.digests.len() {
            return Err(Refusal::Malformed("an offer has a digest for each key".to_owned()));
        }
        let mut wanted = Bitmap::none(offer.keys.len());
        let mut known_count = 0_u32;
        for (index, (key, digest)) in offer.keys.iter().zip(&offer.digests).enumerate() {
            let place = self.local.place(key, offer.partition)?;
            let head = match self.local.engine.head(&place.at()) {
                // A record that can't be read counts as lacking; the delivery heals it.
                Err(StoreError::Corrupt { .. }) => None,
                head => head.map_err(RequestError::from)?,
            };
            let is_same = head.is_some_and(|meta| meta.digest == *digest);
            let clock = offer.clocks.get(index).filter(|clock| head.is_some() && !clock.is_empty());
            if is_same || clock.is_some_and(|clock| self.has_superseded(&place.at(), clock)) {
                known_count += 1;
            } else {
                wanted.set(index);
            }
        }
        debug_assert_eq!(
            wanted.count() + known_count,
            length_u32(offer.keys.len()),
            "an offered record is known here or wanted"
        );
        if known_count > 0 {
            self.local.engine.sync().map_err(RequestError::from)?;
        }
        Ok(wanted)
    }

    /// True if this node's copy supersedes an object with that clock. False if that can't be decided.
    fn has_superseded(&self, at: &RecordAt<'_>, clock: &Bytes) -> bool {
        let Ok(clock) = Object::decode_clock(clock) else { return false };
        let Some(object) = self.local.records.object_at_hand(at, IoMode::Wait) else {
            return false;
        };
        let supersedes = |own: Object| own.supersedes(&clock) || planted!(TakesAnyForSuperseded);
        Object::decode(&object).is_ok_and(supersedes)
    }

    pub(crate) fn serve_deliver(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        if !self.throttle.takes() {
            return refuse(reply, &Refusal::SwitchedOff);
        }
        let deliver =
            match self.local.read_header(request, |deliver: &Deliver| deliver.layout_version) {
                Ok(deliver) => deliver,
                Err(refusal) => return refuse(reply, &refusal),
            };
        let delivered =
            Delivered { pressure_percent: self.yielding.receives(deliver.is_minimum_rate) };
        let (from, objects) = (request.from, request.payload.clone());
        tokio::spawn(async move {
            let taker = Arc::clone(&self);
            let take = move || Ok(taker.take_delivered(&deliver, objects));
            let taken = match self.local.settings.blocking.at_low_priority(take).await {
                Ok(taken) => taken,
                Err(fault) => Err(fault.into()),
            };
            let TakenRecords { ticket, covered_by } = match taken {
                Ok(taken) => taken,
                Err(refusal) => return refuse(reply, &refusal),
            };
            match ticket {
                None => reply.send(&delivered, b""),
                Some(_) if planted!(TakesTransfersUnsynced) => reply.send(&delivered, b""),
                Some(ticket) => match self.local.synced(ticket).await {
                    Ok(()) => reply.send(&delivered, b""),
                    Err(fault) => return refuse(reply, &fault.into()),
                },
            }
            self.send_missed_reap_records(from, covered_by).await;
        });
    }

    /// Merges delivered records into this node's copies.
    fn take_delivered(
        &self,
        deliver: &Deliver,
        mut objects: Bytes,
    ) -> Result<TakenRecords, Refusal> {
        let mut taken = TakenRecords::default();
        for record in &deliver.records {
            let size_bytes = record.size_bytes as usize;
            if size_bytes > objects.len() {
                return Err(Refusal::Malformed("delivered objects are cut off".to_owned()));
            }
            let object = objects.split_to(size_bytes);
            let replicated = Replicated {
                meta: meta_of(record),
                rule: MergeRule::try_from(record.rule).unwrap_or(MergeRule::Causal),
                object,
            };
            let place = self.local.place(&record.key, deliver.partition)?;
            let outcome =
                self.replica.merge_into_copy(&place.at(), &replicated, true, IoMode::Wait)?;
            taken.covered_by.extend(self.replica.covered_by(&place.at(), outcome)?);
            if let Some(ApplyOutcome::Written(ticket, _)) = outcome {
                let joined = |last| self.local.engine.joined(last, ticket);
                taken.ticket = Some(taken.ticket.map_or(ticket, joined));
            }
        }
        Ok(taken)
    }
}

/// Delivered records that were merged.
#[derive(Default)]
struct TakenRecords {
    /// Ticket whose sync covers all writes.
    ticket: Option<Ticket>,
    /// Reap records because of which delivered values were rejected.
    covered_by: Vec<ReapRecord>,
}
