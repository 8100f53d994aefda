//! Makes two copies of a large set or map equal by sending only the ranges of items in which they differ.
//!
//! Both nodes must store the record in pages; otherwise the whole record is sent.
//!
//! 1. This node finds the ranges of item hashes in which the copies differ, by digests of ever smaller
//!    ranges, for the record and for its large fields.
//! 2. It reads the other copy's items in these ranges, and merges them into its own copy.
//! 3. It sends its own items in these ranges to the other node, unless the other copy has seen all of
//!    them. A copy in another cluster is only read.
//!
//! If a copy has changed between the steps, the attempt counts as stale and is repeated, up to
//! [`ATTEMPT_COUNT`] attempts in all. [`PagedObject::take_ranges`] explains why no item is lost and no
//! removed item comes back.
//!
//! [`PagedObject::take_ranges`]: quoit_model::data_type::pages::PagedObject::take_ranges

use super::other_cluster::{OtherClusterCopy, RangesQuestion};
use super::regions::{ranges_in_field, region_message};
use crate::blocking::Blocking;
use crate::calls::call_while_up;
use crate::delivery::hand::TransferError;
use crate::error::RequestError;
use crate::placement::PlacedKey;
use crate::records::{Records, TakenRanges};
use crate::replica::Replica;
use crate::stored::decode;
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{CallError, Lane, Peer, Reply};
use quoit_model::data_type::FieldName;
use quoit_model::data_type::pages::{
    HashRange, RangeCopy, RangeWalk, Region, SENT_RANGE_COUNT_MAX,
};
use quoit_model::hash::Partition;
use quoit_store::engine::{RecordAt, Ticket};
use quoit_store::error::StoreError;
use quoit_wire::internode::ranges::{
    CompareRanges, METHOD_COMPARE_RANGES, METHOD_READ_RANGES, METHOD_TAKE_RANGES, RangesCompared,
    RangesRead, RangesTaken, ReadRanges, RecordRanges, TakeRanges,
};
use std::sync::Arc;
use std::time::Duration;

/// Timeout for the other node's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Largest number of a record's large fields that are compared by ranges of their own. Further ones are
/// sent whole.
const LARGE_FIELD_COUNT_MAX: usize = 64;

/// Largest number of attempts while the copies change. After that, the record is sent whole.
const ATTEMPT_COUNT: usize = 3;

/// Result of an attempt.
enum AttemptResult {
    /// The copies are merged: each has everything that either had, removals included. A copy in another
    /// cluster is unchanged.
    United,
    /// A copy has changed meanwhile.
    Stale,
    /// The record has to be sent whole.
    NeedsWhole,
}

/// This node's copy of a record, in pages or not.
#[derive(Clone)]
pub(super) struct OwnCopy {
    pub(super) records: Arc<Records>,
    pub(super) blocking: Blocking,
    pub(super) key: Bytes,
    pub(super) partition: Partition,
}

impl OwnCopy {
    /// Runs a step on the copy that may read a lot, on another thread ([`Blocking::on_pool`]).
    pub(super) async fn on_pool<T: Send + 'static>(
        &self,
        step: impl FnOnce(&Records, &RecordAt<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, RequestError> {
        let own = self.clone();
        let on_copy = move || {
            let place = PlacedKey::new(&own.key, own.partition)?;
            Ok(step(&own.records, &place.at())?)
        };
        self.blocking.on_pool(on_copy).await
    }
}

/// The node that has the other copy.
enum Counterpart<'p> {
    /// A member of this cluster.
    Member { peer: &'p Peer, layout_version: u64 },
    /// A node of another cluster. Its copy is only read.
    Elsewhere(&'p mut dyn OtherClusterCopy),
}

impl Counterpart<'_> {
    fn name(&self) -> Arc<str> {
        match self {
            Self::Member { peer, .. } => peer.name(),
            Self::Elsewhere(_) => "another cluster".into(),
        }
    }
}

/// Two copies that are being compared: this node's and another node's.
struct ComparedCopies<'p> {
    own: OwnCopy,
    with: Counterpart<'p>,
    /// The last write to this node's copy, if any.
    written: Option<Ticket>,
    /// Bytes of the messages, without their frames.
    byte_count: u64,
}

impl ComparedCopies<'_> {
    fn of(&self, region: &Region) -> RecordRanges {
        let (key, partition) = (self.own.key.clone(), u32::from(self.own.partition.0));
        let layout_version = match self.with {
            Counterpart::Member { layout_version, .. } => layout_version,
            Counterpart::Elsewhere(_) => 0,
        };
        region_message(key, partition, layout_version, region)
    }

    /// Returns the message part that names ranges of one field, or of the record if the path is empty.
    fn of_field(&self, path: &[FieldName], ranges: Vec<HashRange>) -> RecordRanges {
        if path.is_empty() {
            return self.of(&Region::from(ranges));
        }
        let fields = vec![ranges_in_field(path, &ranges)];
        RecordRanges { fields, ..self.of(&Region::default()) }
    }

    async fn call<A: Message + Default>(
        &mut self,
        method: u16,
        header: &impl Message,
        payload: &[u8],
    ) -> Result<(A, Bytes), TransferError> {
        let (answer, items) = match &mut self.with {
            Counterpart::Member { peer, .. } => {
                let call =
                    call_while_up(peer, method, header, payload, Lane::Large, ANSWER_TIMEOUT);
                let Reply { header, payload, .. } =
                    call.await.map_err(|fault| TransferError::Call { to: peer.name(), fault })?;
                (header, payload)
            }
            Counterpart::Elsewhere(copy) => {
                let question = match method {
                    METHOD_COMPARE_RANGES => RangesQuestion::Compare,
                    _ => RangesQuestion::Read,
                };
                let answer = copy.ask(question, header.encode_to_vec().into()).await;
                let nothing = || RequestError::Remote("it has no such copy in pages".to_owned());
                answer.ok_or_else(|| TransferError::Own(nothing()))?
            }
        };
        let byte_count = header.encoded_len() + payload.len() + answer.len() + items.len();
        self.byte_count += byte_count as u64;
        Ok((A::decode(answer).map_err(|_| self.invalid_answer())?, items))
    }

    fn invalid_answer(&self) -> TransferError {
        TransferError::Answer { to: self.with.name() }
    }

    /// Finds the region in which the copies differ; `None` if the record is better sent whole.
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
            if left_count > 0 && !ranges.is_empty() {
                let within = move |records: &Records, at: &RecordAt<'_>| {
                    records.large_fields(at, &path, &ranges, left_count)
                };
                let Some(large) = self.own.on_pool(within).await? else { return Ok(None) };
                debug_assert!(large.len() <= left_count, "no more fields than asked for are found");
                left_count -= large.len();
                paths.extend(large);
            }
        }
        Ok((region.range_count() <= SENT_RANGE_COUNT_MAX).then_some(region))
    }

    /// Returns the ranges of a field, or of the record if the path is empty, in which the copies differ;
    /// `None` if the whole field or record should be sent instead.
    async fn differing_in(
        &mut self,
        path: &[FieldName],
    ) -> Result<Option<Vec<HashRange>>, TransferError> {
        let field = path.to_vec();
        let all =
            self.own.on_pool(move |records, at| records.range_figures(at, &field, &[])).await?;
        let Some((item_count, _)) = all else { return Ok(None) };
        let mut walk = RangeWalk::new(item_count);
        loop {
            let asked = walk.ask();
            if asked.is_empty() {
                return Ok(Some(walk.into_found()));
            }
            let (field, ranges) = (path.to_vec(), asked.clone());
            let own =
                self.own.on_pool(move |records, at| records.range_figures(at, &field, &ranges));
            let Some((_, own)) = own.await? else { return Ok(None) };
            debug_assert_eq!(own.len(), asked.len(), "each range has figures");
            let digests = own.iter().map(|figures| figures.digest).collect();
            let compare = CompareRanges { of: self.of_field(path, asked.clone()), digests };
            let (compared, _) = self.call(METHOD_COMPARE_RANGES, &compare, b"").await?;
            let RangesCompared { differing, item_counts } = compared;
            if differing.len() != item_counts.len() {
                return Err(self.invalid_answer());
            }
            for (place, item_count) in differing.into_iter().zip(item_counts) {
                let (Some(range), Some(own)) = (asked.get(place as usize), own.get(place as usize))
                else {
                    return Err(self.invalid_answer());
                };
                if !walk.differs(*range, item_count.max(own.item_count)) {
                    return Ok(None);
                }
            }
        }
    }

    /// Reads the other copy's items in a region.
    async fn read_theirs(&mut self, region: &Region) -> Result<RangeCopy, TransferError> {
        let read = ReadRanges { of: self.of(region) };
        let (RangesRead { rest }, items) = self.call(METHOD_READ_RANGES, &read, b"").await?;
        let object = decode(&items).map_err(|_| self.invalid_answer())?;
        Ok(RangeCopy { object, rest })
    }
}

impl Replica {
    /// Makes this node's copy of a record and another node's equal, if both are in pages. Returns the
    /// number of bytes that this took; `None` if the record has to be sent whole.
    ///
    /// # Errors
    ///
    /// If the connection to the other node fails, or its answer is invalid. Refusals, timeouts and errors
    /// of this node's storage return `None`.
    pub(crate) async fn merge_by_ranges(
        &self,
        peer: &Peer,
        partition: Partition,
        key: &Bytes,
    ) -> Result<Option<u64>, TransferError> {
        let layout_version = self.local.control.read().layouts().newest().version();
        let mut copies =
            self.copies_beside(Counterpart::Member { peer, layout_version }, partition, key);
        self.merge_copies(&mut copies).await
    }

    /// Merges another cluster's copy of a record into this node's copy, if both are in pages. Returns the
    /// write, or `Some(None)` if this node's copy lacked nothing; `None` if the record has to be sent whole.
    ///
    /// # Errors
    ///
    /// If the answer of the other cluster is invalid.
    pub(crate) async fn merge_from_other_cluster(
        &self,
        copy: &mut dyn OtherClusterCopy,
        partition: Partition,
        key: &Bytes,
    ) -> Result<Option<Option<Ticket>>, TransferError> {
        let mut copies = self.copies_beside(Counterpart::Elsewhere(copy), partition, key);
        let united = self.merge_copies(&mut copies).await?;
        Ok(united.map(|_| copies.written))
    }

    fn copies_beside<'p>(
        &self,
        with: Counterpart<'p>,
        partition: Partition,
        key: &Bytes,
    ) -> ComparedCopies<'p> {
        let (records, blocking) = (Arc::clone(&self.local.records), self.local.settings.blocking);
        let own = OwnCopy { records, blocking, key: key.clone(), partition };
        ComparedCopies { own, with, written: None, byte_count: 0 }
    }

    /// Makes two copies equal in several attempts; `None` if the record has to be sent whole.
    async fn merge_copies(
        &self,
        copies: &mut ComparedCopies<'_>,
    ) -> Result<Option<u64>, TransferError> {
        for _ in 0..ATTEMPT_COUNT {
            match self.try_ranges(copies).await {
                Ok(AttemptResult::United) => return Ok(Some(copies.byte_count)),
                Ok(AttemptResult::Stale) => {}
                Ok(AttemptResult::NeedsWhole) => break,
                // The other node has no copy in pages, knows a newer layout, can't read its pages, or
                // does not answer in time.
                Err(TransferError::Call {
                    fault:
                        CallError::Refused { .. }
                        | CallError::Timeout { .. }
                        | CallError::TooBusy { .. },
                    ..
                }) => break,
                // If this node's copy is damaged, the other node's whole copy replaces it.
                Err(TransferError::Own(fault)) => {
                    tracing::debug!(%fault, "a copy could not be compared by ranges");
                    break;
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(None)
    }

    /// Makes one attempt to make two copies equal.
    async fn try_ranges(
        &self,
        copies: &mut ComparedCopies<'_>,
    ) -> Result<AttemptResult, TransferError> {
        let Some(region) = copies.differing().await? else { return Ok(AttemptResult::NeedsWhole) };
        let theirs = copies.read_theirs(&region).await?;
        let Ok(their_clock) = theirs.object.causal_clock() else {
            return Err(copies.invalid_answer());
        };
        if matches!(copies.with, Counterpart::Elsewhere(_)) {
            self.local.check_context(&theirs.object.clock)?;
        }
        let taking = region.clone();
        let taken =
            copies.own.on_pool(move |records, at| records.take_ranges(at, &taking, &theirs));
        match taken.await? {
            TakenRanges::Stale => return Ok(AttemptResult::Stale),
            TakenRanges::NeedsWhole => return Ok(AttemptResult::NeedsWhole),
            TakenRanges::Known => {}
            TakenRanges::Written(ticket) => {
                copies.written = Some(ticket);
                self.note_taken_ranges(&copies.own);
            }
        }
        if matches!(copies.with, Counterpart::Elsewhere(_)) {
            return Ok(AttemptResult::United);
        }
        let reading = region.clone();
        let own = copies.own.on_pool(move |records, at| records.read_ranges(at, &reading)).await?;
        let Some(own) = own else { return Ok(AttemptResult::NeedsWhole) };
        let clock = own.object.causal_clock();
        let clock = clock.map_err(|fault| RequestError::Damaged(fault.to_string()))?;
        if their_clock.covers(&clock) {
            return Ok(AttemptResult::United);
        }
        let mut sent = Vec::new();
        own.object.encode_into(&mut sent);
        let take = TakeRanges { of: copies.of(&region), rest: own.rest };
        let (taken, _) = copies.call(METHOD_TAKE_RANGES, &take, &sent).await?;
        let RangesTaken { is_stale } = taken;
        Ok(if is_stale { AttemptResult::Stale } else { AttemptResult::United })
    }

    pub(super) fn note_taken_ranges(&self, own: &OwnCopy) {
        self.note_written(own.partition, &own.key);
    }
}
