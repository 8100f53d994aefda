//! Makes two copies of a large set or map equal by the ranges of items that they differ in.
//!
//! Both copies have to lie in pages; all else is sent whole, the general way. Why nothing is lost or comes
//! back is said where ranges are merged ([`PagedObject::take_ranges`]).
//!
//! [`PagedObject::take_ranges`]: quoit_model::data_type::pages::PagedObject::take_ranges

use super::regions::{no_ranges, ranges_in_field, read_compared, read_region, region_message};
use crate::blocking::Blocking;
use crate::calls::call_while_up;
use crate::error::RequestError;
use crate::records::{Records, TakenRanges};
use crate::replica::Place;
use crate::service::{Refusal, refuse};
use crate::store::{ReplicatedStore, decode};
use crate::transfer::hand::TransferError;
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{CallError, IncomingRequest, Lane, Peer, Reply, Responder};
use quoit_model::data_type::FieldName;
use quoit_model::data_type::pages::{
    HashRange, RangeCopy, RangeWalk, Region, SENT_RANGE_COUNT_MAX,
};
use quoit_model::hash::Partition;
use quoit_store::engine::RecordAt;
use quoit_store::error::StoreError;
use quoit_wire::internode::ranges::{
    CompareRanges, METHOD_COMPARE_RANGES, METHOD_READ_RANGES, METHOD_TAKE_RANGES, RangesCompared,
    RangesOf, RangesRead, RangesTaken, ReadRanges, TakeRanges,
};
use quoit_wire::internode::{VERSION_INNER_RANGES, VERSION_RANGES};
use std::sync::Arc;
use std::time::Duration;

/// Time that the other node has for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Large fields of a record that are compared by ranges of their own; further ones are sent whole.
const LARGE_FIELD_COUNT_MAX: usize = 64;

/// How often copies are compared that change meanwhile, before they are sent whole.
const ATTEMPT_COUNT: usize = 3;

/// Result of an attempt.
enum Tried {
    /// Both copies have what either had.
    United,
    /// They have changed meanwhile.
    Stale,
    /// They can only be sent whole.
    NeedsWhole,
}

/// This node's copy of a record, in pages or not.
#[derive(Clone)]
struct OwnCopy {
    records: Arc<Records>,
    blocking: Blocking,
    key: Bytes,
    partition: Partition,
}

impl OwnCopy {
    /// Does something to the copy that may read a lot, where that disturbs nobody.
    async fn aside<T: Send + 'static>(
        &self,
        step: impl FnOnce(&Records, &RecordAt<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, RequestError> {
        let own = self.clone();
        let on_copy = move || {
            let place = Place::new(&own.key, own.partition)?;
            Ok(step(&own.records, &place.at())?)
        };
        self.blocking.aside(on_copy).await
    }
}

/// This node's copy and another node's.
struct ComparedCopies<'p> {
    own: OwnCopy,
    peer: &'p Peer,
    layout_version: u64,
    /// Bytes of the messages, without their frames.
    byte_count: u64,
}

impl ComparedCopies<'_> {
    fn of(&self, region: &Region) -> RangesOf {
        let (key, partition) = (self.own.key.clone(), u32::from(self.own.partition.0));
        region_message(key, partition, self.layout_version, region)
    }

    /// Ranges to be compared: those of one field, or of the record.
    fn of_field(&self, path: &[FieldName], ranges: Vec<HashRange>) -> RangesOf {
        if path.is_empty() {
            return self.of(&Region::from(ranges));
        }
        let fields = vec![ranges_in_field(path, &ranges)];
        RangesOf { fields, ..self.of(&Region::default()) }
    }

    async fn call<A: Message + Default>(
        &mut self,
        method: u16,
        header: &impl Message,
        payload: &[u8],
    ) -> Result<(A, Bytes), TransferError> {
        let call = call_while_up(self.peer, method, header, payload, Lane::Large, ANSWER_TIMEOUT);
        let Reply { header: answer, payload: items, .. } =
            call.await.map_err(|fault| TransferError::Call { to: self.peer.name(), fault })?;
        let byte_count = header.encoded_len() + payload.len() + answer.len() + items.len();
        self.byte_count += byte_count as u64;
        Ok((A::decode(answer).map_err(|_| self.no_answer())?, items))
    }

    fn no_answer(&self) -> TransferError {
        TransferError::Answer { to: self.peer.name() }
    }

    /// Finds the region in which the copies differ; `None` when they are better sent whole.
    async fn differing(&mut self) -> Result<Option<Region>, TransferError> {
        let (mut region, mut paths) = (Region::default(), vec![Vec::new()]);
        let mut left_count = LARGE_FIELD_COUNT_MAX;
        while let Some(path) = paths.pop() {
            let Some(ranges) = self.differing_in(&path).await? else {
                if path.is_empty() {
                    return Ok(None);
                }
                // The field is sent whole.
                continue;
            };
            region.narrow(&path, ranges.clone());
            if left_count > 0 && !ranges.is_empty() && self.peer.speaks(VERSION_INNER_RANGES) {
                let within = move |records: &Records, at: &RecordAt<'_>| {
                    records.large_fields(at, &path, &ranges, left_count)
                };
                let Some(large) = self.own.aside(within).await? else { return Ok(None) };
                left_count -= large.len();
                paths.extend(large);
            }
        }
        Ok((region.range_count() <= SENT_RANGE_COUNT_MAX).then_some(region))
    }

    /// The ranges of a field that the copies differ in, or of the record where there is no path; `None` when
    /// all of it is better sent.
    async fn differing_in(
        &mut self,
        path: &[FieldName],
    ) -> Result<Option<Vec<HashRange>>, TransferError> {
        let field = path.to_vec();
        let all = self.own.aside(move |records, at| records.range_figures(at, &field, &[])).await?;
        let Some((item_count, _)) = all else { return Ok(None) };
        let mut walk = RangeWalk::new(item_count);
        loop {
            let asked = walk.ask();
            if asked.is_empty() {
                return Ok(Some(walk.into_found()));
            }
            let (field, ranges) = (path.to_vec(), asked.clone());
            let own = self.own.aside(move |records, at| records.range_figures(at, &field, &ranges));
            let Some((_, own)) = own.await? else { return Ok(None) };
            let digests = own.iter().map(|figures| figures.digest).collect();
            let compare = CompareRanges { of: self.of_field(path, asked.clone()), digests };
            let (compared, _) = self.call(METHOD_COMPARE_RANGES, &compare, b"").await?;
            let RangesCompared { differing, item_counts } = compared;
            if differing.len() != item_counts.len() {
                return Err(self.no_answer());
            }
            for (place, item_count) in differing.into_iter().zip(item_counts) {
                let (Some(range), Some(own)) = (asked.get(place as usize), own.get(place as usize))
                else {
                    return Err(self.no_answer());
                };
                if !walk.differs(*range, item_count.max(own.item_count)) {
                    return Ok(None);
                }
            }
        }
    }

    /// Reads what the other copy has in a region.
    async fn read_theirs(&mut self, region: &Region) -> Result<RangeCopy, TransferError> {
        let read = ReadRanges { of: self.of(region) };
        let (RangesRead { rest }, items) = self.call(METHOD_READ_RANGES, &read, b"").await?;
        let object = decode(&items).map_err(|_| self.no_answer())?;
        Ok(RangeCopy { object, rest })
    }
}

impl ReplicatedStore {
    /// Makes this node's copy of a record and another node's equal, if both lie in pages. Answers how many
    /// bytes were sent for it; `None` when they have to be sent whole.
    ///
    /// # Errors
    ///
    /// When the other node does not answer, or this node's storage fails.
    pub(crate) async fn unite_by_ranges(
        &self,
        peer: &Peer,
        partition: Partition,
        key: &Bytes,
    ) -> Result<Option<u64>, TransferError> {
        if !peer.speaks(VERSION_RANGES) {
            return Ok(None);
        }
        let own = OwnCopy {
            records: Arc::clone(&self.records),
            blocking: self.settings.blocking,
            key: key.clone(),
            partition,
        };
        let layout_version = self.control.read().layouts().newest().version();
        let mut copies = ComparedCopies { own, peer, layout_version, byte_count: 0 };
        for _ in 0..ATTEMPT_COUNT {
            match self.try_ranges(&mut copies).await {
                Ok(Tried::United) => return Ok(Some(copies.byte_count)),
                Ok(Tried::Stale) => {}
                Ok(Tried::NeedsWhole) => break,
                // It has no copy in pages, or knows a newer layout, or can't read its pages, or not soon.
                Err(TransferError::Call {
                    fault:
                        CallError::Refused { .. }
                        | CallError::Timeout { .. }
                        | CallError::TooBusy { .. },
                    ..
                }) => break,
                // A copy that is damaged here is replaced by the whole of the other one.
                Err(TransferError::Own(fault)) => {
                    tracing::debug!(%fault, "a copy could not be compared by ranges");
                    break;
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(None)
    }

    async fn try_ranges(&self, copies: &mut ComparedCopies<'_>) -> Result<Tried, TransferError> {
        let Some(region) = copies.differing().await? else { return Ok(Tried::NeedsWhole) };
        let theirs = copies.read_theirs(&region).await?;
        let Ok(their_clock) = theirs.object.causal_clock() else { return Err(copies.no_answer()) };
        let taking = region.clone();
        let taken = copies.own.aside(move |records, at| records.take_ranges(at, &taking, &theirs));
        match taken.await? {
            TakenRanges::Stale => return Ok(Tried::Stale),
            TakenRanges::NeedsWhole => return Ok(Tried::NeedsWhole),
            TakenRanges::Known => {}
            TakenRanges::Written(_) => self.note_taken_ranges(&copies.own),
        }
        let reading = region.clone();
        let own = copies.own.aside(move |records, at| records.read_ranges(at, &reading)).await?;
        let Some(own) = own else { return Ok(Tried::NeedsWhole) };
        let clock = own.object.causal_clock();
        let clock = clock.map_err(|fault| RequestError::Damaged(fault.to_string()))?;
        if their_clock.covers(&clock) {
            return Ok(Tried::United);
        }
        let mut sent = Vec::new();
        own.object.encode_into(&mut sent);
        let take = TakeRanges { of: copies.of(&region), rest: own.rest };
        let (taken, _) = copies.call(METHOD_TAKE_RANGES, &take, &sent).await?;
        let RangesTaken { is_stale } = taken;
        Ok(if is_stale { Tried::Stale } else { Tried::United })
    }

    fn note_taken_ranges(&self, own: &OwnCopy) {
        self.note_written(own.partition, &own.key);
    }

    /// The copy that a request is about.
    fn copy_of(&self, of: &RangesOf) -> Result<OwnCopy, Refusal> {
        let partition = self.place(&of.key, of.partition)?.at().partition;
        let (records, blocking) = (Arc::clone(&self.records), self.settings.blocking);
        Ok(OwnCopy { records, blocking, key: of.key.clone(), partition })
    }

    /// The copy, and the region of it, that a request is about.
    fn asked_for(&self, of: &RangesOf) -> Result<(OwnCopy, Region), Refusal> {
        let region = read_region(of).ok_or_else(no_ranges)?;
        Ok((self.copy_of(of)?, region))
    }

    pub(crate) fn serve_compare_ranges(
        self: Arc<Self>,
        request: &IncomingRequest,
        reply: Responder,
    ) {
        let asked = self.read_header(request, |asked: &CompareRanges| asked.of.layout_version);
        let asked = asked.and_then(|asked| {
            let (path, ranges) = read_compared(&asked.of).ok_or_else(no_ranges)?;
            match asked.digests.len() == ranges.len() {
                true => Ok((self.copy_of(&asked.of)?, path, ranges, asked.digests)),
                false => Err(Refusal::Malformed("not a digest for each range".to_owned())),
            }
        });
        let (own, path, ranges, digests) = match asked {
            Ok(asked) => asked,
            Err(refusal) => return refuse(reply, &refusal),
        };
        tokio::spawn(async move {
            let figures = own.aside(move |records, at| records.range_figures(at, &path, &ranges));
            match figures.await {
                Ok(Some((_, figures))) => {
                    let mut compared = RangesCompared::default();
                    for ((place, own), theirs) in (0..).zip(figures).zip(digests) {
                        if own.digest != theirs {
                            compared.differing.push(place);
                            compared.item_counts.push(own.item_count);
                        }
                    }
                    reply.send(&compared, b"");
                }
                Ok(None) => refuse(reply, &Refusal::NeedsWhole),
                Err(fault) => refuse(reply, &fault.into()),
            }
        });
    }

    pub(crate) fn serve_read_ranges(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        let asked = self.read_header(request, |asked: &ReadRanges| asked.of.layout_version);
        let (own, region) = match asked.and_then(|asked| self.asked_for(&asked.of)) {
            Ok(asked) => asked,
            Err(refusal) => return refuse(reply, &refusal),
        };
        tokio::spawn(async move {
            match own.aside(move |records, at| records.read_ranges(at, &region)).await {
                Ok(Some(RangeCopy { object, rest })) => {
                    let mut items = Vec::new();
                    object.encode_into(&mut items);
                    reply.send(&RangesRead { rest }, &items[..]);
                }
                Ok(None) => refuse(reply, &Refusal::NeedsWhole),
                Err(fault) => refuse(reply, &fault.into()),
            }
        });
    }

    pub(crate) fn serve_take_ranges(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        if !self.transfers.throttle.takes() {
            return refuse(reply, &Refusal::SwitchedOff);
        }
        let asked = self.read_header(request, |asked: &TakeRanges| asked.of.layout_version);
        let asked = asked.and_then(|asked| {
            let of_copy = self.asked_for(&asked.of)?;
            let object = decode(&request.payload);
            let object = object.map_err(|fault| Refusal::Malformed(fault.to_string()))?;
            Ok((of_copy, RangeCopy { object, rest: asked.rest }))
        });
        let ((own, region), theirs) = match asked {
            Ok(asked) => asked,
            Err(refusal) => return refuse(reply, &refusal),
        };
        tokio::spawn(async move {
            let taken = own.aside(move |records, at| records.take_ranges(at, &region, &theirs));
            let is_stale = match taken.await {
                Ok(TakenRanges::Written(ticket)) => {
                    self.note_taken_ranges(&own);
                    match self.synced(ticket).await {
                        Ok(()) => false,
                        Err(fault) => return refuse(reply, &fault.into()),
                    }
                }
                Ok(TakenRanges::Known) => false,
                Ok(TakenRanges::Stale) => true,
                Ok(TakenRanges::NeedsWhole) => return refuse(reply, &Refusal::NeedsWhole),
                Err(fault) => return refuse(reply, &fault.into()),
            };
            reply.send(&RangesTaken { is_stale }, b"");
        });
    }
}
