//! Records of a bucket that a phase of a MapReduce job maps, each at a node that has it.

use super::map_node::NodeMapper;
use super::scan::{Chunk, Held, READ_COST, SCRIPT_COST};
use super::sources::{Order, Sources, WantedRecords};
use crate::error::RequestError;
use crate::map_work::NodeWork;
use crate::replica::Place;
use crate::stats::{LongRequest, UnderWay};
use crate::store::{ReplicatedStore, object_props};
use bytes::Bytes;
use prost::Message;
use quoit_mapreduce::{BucketName, Input, KeyFilter};
use quoit_model::etf::{Limits, Term};
use quoit_model::key::BucketRef;
use quoit_store::engine::RecordMeta;
use quoit_wire::internode::data::{KeySpan, Scan, ScanSpan, Scanned};
use quoit_wire::internode::maps::{MapOutput, MapOutputKind, MapSpan, MapWork};
use std::sync::Arc;

/// Outputs that are taken at once.
const OUTPUT_COUNT: usize = 1_000;

/// A walk through the records of a bucket that maps them, under way. Dropping it ends it.
pub(crate) struct MapScan {
    sources: Sources,
    _under_way: UnderWay,
}

impl ReplicatedStore {
    /// Begins to map the records of a bucket, or those whose keys a filter accepts, tombstones included.
    ///
    /// # Errors
    ///
    /// As for [`ReplicatedStore::list_keys`].
    pub(crate) async fn scan_maps(
        self: &Arc<Self>,
        name: &BucketName,
        filter: Option<&KeyFilter>,
        work: &MapWork,
    ) -> Result<MapScan, RequestError> {
        let filter = filter.map(|filter| {
            let mut encoded = Vec::new();
            filter.to_term().encode_into(&mut encoded);
            encoded.into()
        });
        let keys = KeySpan { with_tombstones: true, ..KeySpan::default() };
        let span = MapSpan { keys: Some(keys), work: Some(work.clone()), filter };
        let wanted = WantedRecords {
            bucket_type: name.bucket_type.clone(),
            bucket: name.bucket.clone(),
            span: ScanSpan::Maps(span),
            pattern: None,
            after: None,
            partitions: None,
            order: Order::Arrival,
        };
        let under_way = UnderWay::begin(self, LongRequest::Listing);
        let sources = under_way.begun(self.scan(wanted).await)?;
        Ok(MapScan { sources, _under_way: under_way })
    }

    /// Maps a chunk of this node's records.
    pub(super) fn read_maps(&self, scan: &Scan, span: &MapSpan) -> Result<Scanned, RequestError> {
        let held = Held::of(self, scan)?;
        let work = NodeWork::of_wire(span.work.clone().unwrap_or_default())?;
        let filter = span.filter.as_ref().map(filter_of).transpose()?;
        let keys = span.keys.clone().unwrap_or_default();
        let (bucket_type, bucket) = (&scan.bucket_type, &scan.bucket);
        let state = self.control.read();
        let props = object_props(&state, BucketRef { bucket_type, bucket })?;
        let cost = if work.sent.has_scripts { SCRIPT_COST } else { READ_COST };
        let mut mapper = NodeMapper::open(self, &work);
        let mut take = |chunk: &mut Chunk, encoded: &Bytes, key: &[u8], _: &RecordMeta| {
            if let Some(filter) = &filter {
                match filter.accepts(&encoded.slice_ref(key)) {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(fault) => mapper.fail_filter(fault.to_string()),
                }
            }
            if !mapper.has_failed() {
                let place = Place::new(encoded, held.partition(encoded))?;
                mapper.map(props, &place.at(), || {
                    let key = Bytes::copy_from_slice(key);
                    Input::new(bucket_type.clone(), bucket.clone(), key)
                })?;
            }
            chunk.looked_at_count += cost;
            chunk.hold(mapper.read_bytes(), mapper.has_failed());
            Ok(())
        };
        let mut scanned = self.each_key(scan, &keys, &held, Chunk::new(scan), &mut take)?;
        scanned.positions = mapper.finish();
        Ok(scanned)
    }
}

fn filter_of(encoded: &Bytes) -> Result<KeyFilter, RequestError> {
    let bad = |fault: String| RequestError::Remote(format!("a key filter that is none: {fault}"));
    let term = Term::decode(encoded, &Limits::STORED).map_err(|fault| bad(fault.to_string()))?;
    KeyFilter::from_term(&term).map_err(|fault| bad(fault.to_string()))
}

impl MapScan {
    /// The outputs of the next records, and what else is to be known of them; `None` at the end. Chunks are
    /// never empty.
    ///
    /// # Errors
    ///
    /// As for [`KeyListing::next`](super::KeyListing::next), and answers of other nodes that make no sense.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<MapOutputKind>>, RequestError> {
        let Some(outputs) = self.sources.next(OUTPUT_COUNT).await? else { return Ok(None) };
        let decoded = outputs.into_iter().map(|output| {
            let output = MapOutput::decode(output).ok().and_then(|output| output.kind);
            output.ok_or_else(|| RequestError::Remote("an output of a phase is none".to_owned()))
        });
        decoded.collect::<Result<_, _>>().map(Some)
    }
}
