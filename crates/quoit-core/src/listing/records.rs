//! Summaries of the records of a bucket, for folds and full-sync.

use super::scan::{Chunk, READ_COST, ScanScope};
use super::sources::{ListingOrder, Sources, WantedRecords};
use super::{Listings, owned_type};
use crate::error::RequestError;
use crate::placement::PlacedKey;
use bytes::Bytes;
use prost::Message;
use quoit_model::clock::VersionVector;
use quoit_model::context::encode_context;
use quoit_model::data_type::clock_in_riak;
use quoit_model::hash::Partition;
use quoit_model::key::BucketRef;
use quoit_model::object::Object;
use quoit_model::riak_clock::encode_riak_clock;
use quoit_model::riak_object::encode_riak_object;
use quoit_model::segments::Segments;
use quoit_number::length_u32;
use quoit_store::engine::RecordMeta;
use quoit_wire::internode::data::{
    KeySpan, RecordSpan, RecordSummary, Scan, ScanSpan, Scanned, SegmentSpan,
};
use std::sync::Arc;

/// Maximum number of summaries in a chunk. Each record has to be read.
const CHUNK_COUNT: usize = 256;

/// A selection of the records of a bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordRange {
    /// Bucket type.
    pub bucket_type: Bytes,
    /// Bucket.
    pub bucket: Bytes,
    /// First key; empty for the beginning.
    pub first_key: Bytes,
    /// Last key, included; `None` for the end.
    pub last_key: Option<Bytes>,
    /// First and last time of the last write that match, in seconds since 1970; `None` for any time.
    pub modified_secs: Option<(u64, u64)>,
    /// Segments of a hash tree to which the records belong; `None` for any.
    pub segments: Option<Segments>,
}

impl RecordRange {
    /// All records of a bucket.
    #[must_use]
    pub fn all(bucket: BucketRef<'_>) -> Self {
        Self {
            bucket_type: owned_type(bucket),
            bucket: Bytes::copy_from_slice(bucket.bucket),
            first_key: Bytes::new(),
            last_key: None,
            modified_secs: None,
            segments: None,
        }
    }
}

/// Kinds of records that a scan returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordKind {
    All,
    Live,
    Tombstones,
    /// Tombstones; the nodes that hold them also reap them.
    TombstonesToReap,
}

/// A scan of records under way. Dropping it ends it.
pub(crate) struct RecordScan {
    sources: Sources,
}

impl Listings {
    /// Begins a scan of the records of a range. One node that holds a record returns its summary.
    ///
    /// # Errors
    ///
    /// As for [`Listings::list_keys`].
    pub(crate) async fn scan_records(
        self: &Arc<Self>,
        range: &RecordRange,
        kind: RecordKind,
    ) -> Result<RecordScan, RequestError> {
        // The least key above the last one is that key followed by a zero byte.
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
            order: ListingOrder::Arrival,
        };
        Ok(RecordScan { sources: self.scan(wanted).await? })
    }

    /// A chunk of summaries of this node's records, of the given segments or of all.
    pub(super) fn read_records(
        &self,
        scan: &Scan,
        span: &RecordSpan,
        segments: Option<&Segments>,
    ) -> Result<Scanned, RequestError> {
        let scope = ScanScope::of(self, scan)?;
        let keys = span.keys.clone().unwrap_or_default();
        let modified = span.modified_from..=span.modified_to.unwrap_or(u64::MAX);
        let mut to_reap = Vec::new();
        let mut take = |chunk: &mut Chunk, encoded: &Bytes, key: &[u8], meta: &RecordMeta| {
            if span.tombstones_only && !meta.tombstone {
                return Ok(());
            }
            if segments.is_some_and(|segments| !segments.has(scope.bucket, key)) {
                return Ok(());
            }
            chunk.looked_at_count += READ_COST;
            let partition = scope.partition(encoded);
            let Some((digest, mut summary)) = self.summary(encoded, partition, span.riak_form)?
            else {
                return Ok(());
            };
            if !modified.contains(&summary.modified_secs) {
                return Ok(());
            }
            summary.key = encoded.slice_ref(key);
            chunk.push(summary.encode_to_vec().into());
            if span.reap && summary.tombstone {
                to_reap.push((encoded.clone(), partition, digest));
            }
            Ok(())
        };
        let scanned = self.each_key(scan, &keys, &scope, Chunk::new(scan), &mut take)?;
        self.tombstones.reap_soon(self.local.clock.unix_us(), to_reap);
        Ok(scanned)
    }

    /// The digest of a record and its summary; `None` if the record has gone. A damaged record is left
    /// out: reads and background verification repair it.
    fn summary(
        &self,
        encoded: &Bytes,
        partition: Partition,
        riak_form: bool,
    ) -> Result<Option<(u64, RecordSummary)>, RequestError> {
        let place = PlacedKey::new(encoded, partition)?;
        let Some(outline) = self.local.records.outline(&place.at())? else { return Ok(None) };
        let clock = &outline.clock;
        // A large set or map is not assembled only to find its size in Riak's form.
        let size_bytes = match &outline.object {
            Some(object) if riak_form => riak_size_of(object),
            Some(_) | None => outline.size_bytes,
        };
        let summary = RecordSummary {
            key: Bytes::new(),
            riak_clock: if riak_form { riak_clock_of(clock) } else { Bytes::new() },
            clock: encode_context(clock),
            sibling_count: length_u32(outline.sibling_count),
            size_bytes,
            modified_secs: outline.last_modified_us / 1_000_000,
            tombstone: outline.meta.tombstone,
        };
        Ok(Some((outline.meta.digest, summary)))
    }
}

fn riak_clock_of(clock: &VersionVector) -> Bytes {
    let mut term = Vec::new();
    encode_riak_clock(&clock_in_riak(clock), &mut term);
    term.into()
}

/// Bytes of an object in Riak's stored form.
fn riak_size_of(object: &Object) -> u64 {
    let mut stored = Vec::new();
    encode_riak_object(object, &mut stored);
    stored.len() as u64
}

impl RecordScan {
    /// Summaries of the next records; `None` at the end. Chunks are never empty.
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
