//! Summaries of the records of a bucket, for folds.

use super::Listings;
use super::scan::{Chunk, Held, READ_COST};
use super::sources::{Order, Sources, WantedRecords};
use crate::error::RequestError;
use crate::placement::Place;
use crate::records::{clock_of, size_of};
use bytes::Bytes;
use prost::Message;
use quoit_model::clock::VersionVector;
use quoit_model::context::encode_context;
use quoit_model::data_type::clock_in_riak;
use quoit_model::data_type::pages::PagedObject;
use quoit_model::hash::Partition;
use quoit_model::object::Object;
use quoit_model::riak_clock::encode_riak_clock;
use quoit_model::riak_object::encode_riak_object;
use quoit_model::segments::Segments;
use quoit_store::engine::{Access, Fetch, Record, RecordMeta};
use quoit_wire::internode::data::{
    KeySpan, RecordSpan, RecordSummary, Scan, ScanSpan, Scanned, SegmentSpan,
};
use std::sync::Arc;

/// Records of which a chunk tells at most: each has to be read.
const CHUNK_COUNT: usize = 256;

/// Records of a bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordRange {
    /// Bucket type.
    pub bucket_type: Bytes,
    /// Bucket.
    pub bucket: Bytes,
    /// The first key; empty: from the beginning.
    pub first_key: Bytes,
    /// The last key, included; `None`: to the end.
    pub last_key: Option<Bytes>,
    /// When it was last written, seconds since 1970: the first and the last one that count; `None`: always.
    pub modified_secs: Option<(u64, u64)>,
    /// Of which segments of a hash tree they are; `None`: of any.
    pub segments: Option<Segments>,
}

impl RecordRange {
    /// All records of a bucket.
    #[must_use]
    pub fn all(bucket_type: Bytes, bucket: Bytes) -> Self {
        let first_key = Bytes::new();
        Self { bucket_type, bucket, first_key, last_key: None, modified_secs: None, segments: None }
    }
}

/// Which records of a range are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordKind {
    All,
    Live,
    Tombstones,
    /// Tombstones, and those who have them are to reap them.
    TombstonesToReap,
}

/// A walk through records under way. Dropping it ends it.
pub(crate) struct RecordScan {
    sources: Sources,
}

impl Listings {
    /// Begins to go through the records of a range, each told of by one node that has it.
    ///
    /// # Errors
    ///
    /// As for [`Listings::list_keys`].
    pub(crate) async fn scan_records(
        self: &Arc<Self>,
        range: &RecordRange,
        kind: RecordKind,
    ) -> Result<RecordScan, RequestError> {
        // The first key after the last one is that with a zero byte behind it.
        let end = |last: &Bytes| [&last[..], &[0]].concat().into();
        let tombstones_only = matches!(kind, RecordKind::Tombstones | RecordKind::TombstonesToReap);
        let keys = KeySpan {
            from: range.first_key.clone(),
            end: range.last_key.as_ref().map(end),
            with_tombstones: kind != RecordKind::Live,
        };
        let span = RecordSpan {
            keys: Some(keys),
            modified_from: range.modified_secs.map_or(0, |(from, _)| from),
            modified_to: range.modified_secs.map(|(_, to)| to),
            tombstones_only,
            reap: kind == RecordKind::TombstonesToReap,
            riak_form: kind != RecordKind::Live,
        };
        let span = match &range.segments {
            None => ScanSpan::Records(span),
            Some(segments) => ScanSpan::Segments(SegmentSpan {
                records: Some(span),
                segment_count: segments.segment_count(),
                segments: segments.numbers().to_vec(),
            }),
        };
        let wanted = WantedRecords {
            bucket_type: range.bucket_type.clone(),
            bucket: range.bucket.clone(),
            span,
            pattern: None,
            after: None,
            partitions: None,
            order: Order::Arrival,
        };
        Ok(RecordScan { sources: self.scan(wanted).await? })
    }

    /// A chunk of what this node knows of its records, of some segments or all.
    pub(super) fn read_records(
        &self,
        scan: &Scan,
        span: &RecordSpan,
        segments: Option<&Segments>,
    ) -> Result<Scanned, RequestError> {
        let held = Held::of(self, scan)?;
        let keys = span.keys.clone().unwrap_or_default();
        let modified = span.modified_from..=span.modified_to.unwrap_or(u64::MAX);
        let mut to_reap = Vec::new();
        let mut take = |chunk: &mut Chunk, encoded: &Bytes, key: &[u8], meta: &RecordMeta| {
            if span.tombstones_only && !meta.tombstone {
                return Ok(());
            }
            if segments.is_some_and(|segments| !segments.has(held.bucket, key)) {
                return Ok(());
            }
            chunk.looked_at_count += READ_COST;
            let partition = held.partition(encoded);
            let Some((record, mut summary)) = self.summary(encoded, partition, span.riak_form)?
            else {
                return Ok(());
            };
            if !modified.contains(&summary.modified_secs) {
                return Ok(());
            }
            summary.key = encoded.slice_ref(key);
            chunk.push(summary.encode_to_vec().into());
            if span.reap && summary.tombstone {
                to_reap.push((encoded.clone(), partition, record.meta.digest));
            }
            Ok(())
        };
        let scanned = self.each_key(scan, &keys, &held, Chunk::new(scan), &mut take)?;
        self.tombstones.reap_soon(self.local.clock.unix_us(), to_reap);
        Ok(scanned)
    }

    /// A record and what is to be told of it; `None` when it has gone. One that is damaged is left out: reads
    /// and background verification see to it.
    fn summary(
        &self,
        encoded: &Bytes,
        partition: Partition,
        riak_form: bool,
    ) -> Result<Option<(Record, RecordSummary)>, RequestError> {
        let place = Place::new(encoded, partition)?;
        let Fetch::Found(record) = self.local.engine.get(&place.at(), Access::Wait)? else {
            return Ok(None);
        };
        let is_paged = PagedObject::is_one(&record.value);
        let object = match is_paged {
            true => PagedObject::decode(&record.value).ok().map(|paged| paged.object().clone()),
            false => Object::decode(&record.value).ok(),
        };
        let Some(object) = object else { return Ok(None) };
        let clock = clock_of(&record);
        // A record in pages is not put together for its size alone.
        let size_bytes = match riak_form && !is_paged {
            true => riak_size_of(&object),
            false => size_of(&record),
        };
        let summary = RecordSummary {
            key: Bytes::new(),
            riak_clock: if riak_form { riak_clock_of(&clock) } else { Bytes::new() },
            clock: encode_context(&clock),
            sibling_count: object.siblings.len() as u32,
            size_bytes,
            modified_secs: object.last_modified_us() / 1_000_000,
            tombstone: record.meta.tombstone,
        };
        Ok(Some((record, summary)))
    }
}

fn riak_clock_of(clock: &VersionVector) -> Bytes {
    let mut term = Vec::new();
    encode_riak_clock(&clock_in_riak(clock), &mut term);
    term.into()
}

/// Bytes of an object as a Riak node stores it.
fn riak_size_of(object: &Object) -> u64 {
    let mut stored = Vec::new();
    encode_riak_object(object, &mut stored);
    stored.len() as u64
}

impl RecordScan {
    /// The summaries of the next records; `None` at the end. Chunks are never empty.
    ///
    /// # Errors
    ///
    /// As for [`KeyListing::next`](super::KeyListing::next).
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<RecordSummary>>, RequestError> {
        let Some(chunk) = self.sources.next(CHUNK_COUNT).await? else { return Ok(None) };
        let summaries = chunk.into_iter().filter_map(|each| RecordSummary::decode(each).ok());
        Ok(Some(summaries.collect()))
    }
}
