//! Answers questions of members and of other clusters about ranges of this node's large sets and maps,
//! and takes the ranges that members send.

use super::AntiEntropy;
use super::other_cluster::RangesQuestion;
use super::ranges::OwnCopy;
use super::regions::{no_ranges, read_compared, read_region};
use crate::error::RequestError;
use crate::placement::{object_props, record_at};
use crate::records::TakenRanges;
use crate::refusal::{Refusal, refuse};
use crate::stored::decode;
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{IncomingRequest, Responder};
use quoit_model::data_type::FieldName;
use quoit_model::data_type::pages::{HashRange, RangeCopy, Region};
use quoit_model::key::KeyRef;
use quoit_wire::internode::ranges::{
    CompareRanges, RangesCompared, RangesRead, RangesTaken, ReadRanges, RecordRanges, TakeRanges,
};
use std::sync::Arc;

/// Returns which of the ranges differ from the digests of another copy; `None` if this copy is not in
/// pages.
async fn compared(
    own: &OwnCopy,
    path: Vec<FieldName>,
    ranges: Vec<HashRange>,
    digests: Vec<u64>,
) -> Result<Option<RangesCompared>, RequestError> {
    let figures = own.on_pool(move |records, at| records.range_figures(at, &path, &ranges));
    let Some((_, figures)) = figures.await? else { return Ok(None) };
    debug_assert_eq!(figures.len(), digests.len(), "each range has figures and a digest");
    let mut compared = RangesCompared::default();
    for ((place, own), theirs) in (0..).zip(figures).zip(digests) {
        if own.digest != theirs {
            compared.differing.push(place);
            compared.item_counts.push(own.item_count);
        }
    }
    Ok(Some(compared))
}

/// Returns the items of a region as an object in stored form; `None` if the copy is not in pages.
async fn read_items(
    own: &OwnCopy,
    region: Region,
) -> Result<Option<(RangesRead, Bytes)>, RequestError> {
    let read = own.on_pool(move |records, at| records.read_ranges(at, &region)).await?;
    Ok(read.map(|RangeCopy { object, rest }| {
        let mut items = Vec::new();
        object.encode_into(&mut items);
        (RangesRead { rest }, items.into())
    }))
}

impl AntiEntropy {
    /// Answers a node of another cluster about ranges of this node's copy of a record; `None` if this node
    /// has no copy in pages. Question and answer have the same form as between members.
    ///
    /// # Errors
    ///
    /// If the question is malformed, the bucket type is not known here, or the engine fails.
    pub async fn answer_ranges_question(
        &self,
        question: RangesQuestion,
        asked: Bytes,
    ) -> Result<Option<(Bytes, Bytes)>, RequestError> {
        let malformed = || RequestError::Vetoed("a question that names no ranges".to_owned());
        match question {
            RangesQuestion::Compare => {
                let CompareRanges { of, digests } =
                    CompareRanges::decode(asked).map_err(|_| malformed())?;
                let (path, ranges) = read_compared(&of).ok_or_else(malformed)?;
                if digests.len() != ranges.len() {
                    return Err(malformed());
                }
                let compared = compared(&self.own_copy_of(&of.key)?, path, ranges, digests).await?;
                Ok(compared.map(|compared| (compared.encode_to_vec().into(), Bytes::new())))
            }
            RangesQuestion::Read => {
                let ReadRanges { of } = ReadRanges::decode(asked).map_err(|_| malformed())?;
                let region = read_region(&of).ok_or_else(malformed)?;
                let read = read_items(&self.own_copy_of(&of.key)?, region).await?;
                Ok(read.map(|(read, items)| (read.encode_to_vec().into(), items)))
            }
        }
    }

    fn own_copy_of(&self, encoded: &Bytes) -> Result<OwnCopy, RequestError> {
        let key = KeyRef::decode(encoded)?;
        let partition = {
            let state = self.local.control.read();
            let props = object_props(&state, key.bucket)?;
            record_at(&state, props, key, encoded).partition
        };
        let (records, blocking) = (Arc::clone(&self.local.records), self.local.settings.blocking);
        Ok(OwnCopy { records, blocking, key: encoded.clone(), partition })
    }
}

impl AntiEntropy {
    /// Returns the copy that a request is about.
    fn copy_of(&self, of: &RecordRanges) -> Result<OwnCopy, Refusal> {
        let partition = self.local.place(&of.key, of.partition)?.at().partition;
        let (records, blocking) = (Arc::clone(&self.local.records), self.local.settings.blocking);
        Ok(OwnCopy { records, blocking, key: of.key.clone(), partition })
    }

    /// Returns the copy that a request is about, and the region.
    fn asked_for(&self, of: &RecordRanges) -> Result<(OwnCopy, Region), Refusal> {
        let region = read_region(of).ok_or_else(no_ranges)?;
        Ok((self.copy_of(of)?, region))
    }

    pub(crate) fn serve_compare_ranges(
        self: Arc<Self>,
        request: &IncomingRequest,
        reply: Responder,
    ) {
        let asked =
            self.local.read_header(request, |asked: &CompareRanges| asked.of.layout_version);
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
            match compared(&own, path, ranges, digests).await {
                Ok(Some(compared)) => reply.send(&compared, b""),
                Ok(None) => refuse(reply, &Refusal::NeedsWhole),
                Err(fault) => refuse(reply, &fault.into()),
            }
        });
    }

    pub(crate) fn serve_read_ranges(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        let asked = self.local.read_header(request, |asked: &ReadRanges| asked.of.layout_version);
        let (own, region) = match asked.and_then(|asked| self.asked_for(&asked.of)) {
            Ok(asked) => asked,
            Err(refusal) => return refuse(reply, &refusal),
        };
        tokio::spawn(async move {
            match read_items(&own, region).await {
                Ok(Some((read, items))) => reply.send(&read, &items[..]),
                Ok(None) => refuse(reply, &Refusal::NeedsWhole),
                Err(fault) => refuse(reply, &fault.into()),
            }
        });
    }

    pub(crate) fn serve_take_ranges(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        if !self.delivery.throttle.takes() {
            return refuse(reply, &Refusal::SwitchedOff);
        }
        let asked = self.local.read_header(request, |asked: &TakeRanges| asked.of.layout_version);
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
            let taken = own.on_pool(move |records, at| records.take_ranges(at, &region, &theirs));
            let is_stale = match taken.await {
                Ok(TakenRanges::Written(ticket)) => {
                    self.replica.note_taken_ranges(&own);
                    match self.local.synced(ticket).await {
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
