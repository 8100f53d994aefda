//! Map phases over whole buckets: every node maps its own records while it scans them.

use super::Listings;
use super::map_node::NodeMapper;
use super::scan::{
    CHUNK_BYTES, CHUNK_COUNT, LOOKED_AT_COUNT_MAX, ScanScope, key_range, place_after,
};
use super::sources::{ListingOrder, Sources, WantedRecords};
use crate::error::RequestError;
use crate::map_work::NodeWork;
use crate::placement::{PlacedKey, object_props};
use crate::records::is_object;
use crate::stats::{LongRequest, LongRequestGuard};
use bytes::Bytes;
use prost::Message;
use quoit_mapreduce::{BucketName, Input, KeyFilter};
use quoit_model::etf::{Limits, Term};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::key_bounds::KeyBounds;
use quoit_model::props::BucketProps;
use quoit_seam::yield_to_requests;
use quoit_store::engine::{RecordMeta, RecordPlace, RecordVisitor, RecordWalk, VisitedRecord};
use quoit_wire::internode::data::{KeySpan, Scan, ScanSpan, Scanned};
use quoit_wire::internode::maps::{MapOutput, MapOutputKind, MapSpan, MapWork};
use std::sync::Arc;

/// Limit on the records of a chunk that scripts map, so that the chunk ends well before the coordinator
/// gives up.
const SCRIPT_COUNT_MAX: usize = 64;
/// Number of outputs that are taken at once.
const OUTPUT_COUNT: usize = 1_000;

/// A scan that maps the records of a bucket. Dropping it ends it.
pub(crate) struct MapScan {
    sources: Sources,
    _under_way: LongRequestGuard,
}

/// Records of a bucket that are to be mapped.
pub(crate) struct MapSelection<'f> {
    /// Range of their keys.
    pub(crate) bounds: KeyBounds,
    /// Filter that keys have to pass; `None` for all keys.
    pub(crate) filter: Option<&'f KeyFilter>,
    pub(crate) with_tombstones: bool,
}

impl Listings {
    /// Begins to map records of a bucket.
    ///
    /// # Errors
    ///
    /// As for [`Listings::list_keys`].
    pub(crate) async fn scan_maps(
        self: &Arc<Self>,
        name: &BucketName,
        wanted: MapSelection<'_>,
        work: &MapWork,
    ) -> Result<MapScan, RequestError> {
        let MapSelection { bounds, filter, with_tombstones } = wanted;
        let filter = filter.map(|filter| {
            let mut encoded = Vec::new();
            filter.to_term().encode_into(&mut encoded);
            encoded.into()
        });
        let KeyBounds { from, end } = bounds;
        let keys = KeySpan { from, end, with_tombstones };
        let span = MapSpan { keys: Some(keys), work: Some(work.clone()), filter };
        let wanted = WantedRecords {
            bucket_type: name.bucket_type.clone(),
            bucket: name.bucket.clone(),
            span: ScanSpan::Maps(span),
            pattern: None,
            after: None,
            partitions: None,
            order: ListingOrder::Arrival,
        };
        let under_way = LongRequestGuard::begin(&self.local.stats, LongRequest::Listing);
        let sources = under_way.begun(self.scan(wanted).await)?;
        Ok(MapScan { sources, _under_way: under_way })
    }

    /// Maps a chunk of this node's records.
    pub(super) fn read_maps(&self, scan: &Scan, span: &MapSpan) -> Result<Scanned, RequestError> {
        let scope = ScanScope::of(self, scan)?;
        let work = NodeWork::of_wire(span.work.clone().unwrap_or_default())?;
        let filter = span.filter.as_ref().map(filter_of).transpose()?;
        let keys = span.keys.clone().unwrap_or_default();
        let state = self.local.control.read();
        let props = object_props(&state, scope.bucket)?;
        let mut mapper = NodeMapper::open(self, &work);
        let (range, mut after) = (key_range(scope.bucket, &keys), place_after(&scope, scan)?);
        let count_max = if work.sent.has_scripts { SCRIPT_COUNT_MAX } else { CHUNK_COUNT };
        let mut passed_count = 0;
        loop {
            let input_count = mapper.input_count();
            let walk = RecordWalk {
                range,
                after: after.as_deref(),
                count_max: count_max - input_count,
                bytes_max: (CHUNK_BYTES - mapper.read_bytes()) as u64,
            };
            let mut visitor = MapVisitor {
                mapper: &mut mapper,
                scope: &scope,
                props,
                keys: &keys,
                filter: filter.as_ref(),
                looked_at_count: 0,
                deferred_names: Vec::new(),
                fault: Ok(()),
            };
            let next = self.local.engine.visit_records(walk, &mut visitor)?;
            passed_count += visitor.looked_at_count;
            visitor.finish()?;
            let is_full = mapper.input_count() >= count_max
                || mapper.read_bytes() >= CHUNK_BYTES
                || passed_count >= LOOKED_AT_COUNT_MAX
                || mapper.has_failed();
            if next.is_none() || is_full {
                let place = |next: Bytes| Some(next.slice_ref(KeyRef::decode(&next).ok()?.key));
                return Ok(Scanned { next: next.and_then(place), positions: mapper.finish() });
            }
            after = next;
            yield_to_requests();
        }
    }
}

/// Maps the records that a walk shows.
struct MapVisitor<'v, 'w> {
    mapper: &'v mut NodeMapper<'w>,
    scope: &'v ScanScope<'v>,
    props: &'v BucketProps,
    keys: &'v KeySpan,
    filter: Option<&'v KeyFilter>,
    /// Number of keys that were visited, wanted or not.
    looked_at_count: usize,
    /// Encoded names of records that need more than the visited record: records in pages, damaged
    /// records, and all records if this node can't run the script.
    deferred_names: Vec<Bytes>,
    /// First fault.
    fault: Result<(), RequestError>,
}

impl RecordVisitor for MapVisitor<'_, '_> {
    fn wants(&mut self, encoded: &[u8], meta: &RecordMeta) -> Option<RecordPlace> {
        self.looked_at_count += 1;
        let key = KeyRef::decode(encoded).ok()?.key;
        let is_within = self.keys.end.as_deref().is_none_or(|end| key < end);
        if self.mapper.has_failed() || !is_within || meta.tombstone && !self.keys.with_tombstones {
            return None;
        }
        let place = self.scope.place_in_scope(encoded)?;
        match self.filter.map(|filter| filter.accepts(&Bytes::copy_from_slice(key))) {
            None | Some(Ok(true)) => Some(place),
            Some(Ok(false)) => None,
            Some(Err(fault)) => {
                self.mapper.fail_filter(fault.to_string());
                None
            }
        }
    }

    fn visit(&mut self, encoded: &[u8], record: VisitedRecord<'_>) {
        match record {
            _ if self.mapper.has_failed() || self.fault.is_err() => {}
            VisitedRecord::Found(record)
                if !self.mapper.leaves_all() && is_object(record.value) =>
            {
                let input = || input_of(self.scope.bucket, encoded);
                self.fault = self.mapper.take(self.props, record, input);
            }
            _ => self.deferred_names.push(Bytes::copy_from_slice(encoded)),
        }
    }
}

impl MapVisitor<'_, '_> {
    /// Maps the deferred records. The walk has ended, so the engine may be called again.
    fn finish(self) -> Result<(), RequestError> {
        self.fault?;
        for encoded in self.deferred_names {
            let place = PlacedKey::new(&encoded, self.scope.partition(&encoded))?;
            self.mapper.map(self.props, &place.at(), || input_of(self.scope.bucket, &encoded))?;
        }
        Ok(())
    }
}

fn input_of(bucket: BucketRef<'_>, encoded: &[u8]) -> Input {
    let key = KeyRef::decode(encoded)
        .map_or_else(|_| Bytes::new(), |key| Bytes::copy_from_slice(key.key));
    let [bucket_type, bucket] = [bucket.bucket_type, bucket.bucket].map(Bytes::copy_from_slice);
    Input::new(BucketName { bucket_type, bucket }, key)
}

fn filter_of(encoded: &Bytes) -> Result<KeyFilter, RequestError> {
    let bad = |fault: String| RequestError::Remote(format!("a key filter can't be read: {fault}"));
    let term = Term::decode(encoded, &Limits::STORED).map_err(|fault| bad(fault.to_string()))?;
    KeyFilter::from_term(&term).map_err(|fault| bad(fault.to_string()))
}

impl MapScan {
    /// Outputs, counts and failures of the next records; `None` at the end. Chunks are never empty.
    ///
    /// # Errors
    ///
    /// As for [`KeyListing::next`](super::KeyListing::next), and answers of other nodes that can't be
    /// read.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<MapOutputKind>>, RequestError> {
        let Some(outputs) = self.sources.next(OUTPUT_COUNT).await? else { return Ok(None) };
        let decoded = outputs.into_iter().map(|output| {
            let output = MapOutput::decode(output).ok().and_then(|output| output.kind);
            output.ok_or_else(|| {
                RequestError::Remote("an output of a phase can't be read".to_owned())
            })
        });
        decoded.collect::<Result<_, _>>().map(Some)
    }
}
