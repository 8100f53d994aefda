//! Scans of a node's own copies, which give chunks of keys or of index entries.

use super::Listings;
use super::pattern::Pattern;
use crate::error::RequestError;
use crate::partition_set::PartitionSet;
use crate::placement::bucket_props;
use crate::stats::Counter;
use bytes::Bytes;
use quoit_model::hash::{KeyHash, Partition, PlacementRule};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::secondary_index::{IndexPosition, IndexRange};
use quoit_model::segments::Segments;
use quoit_planted::planted;
use quoit_seam::yield_to_requests;
use quoit_store::engine::{KeyPage, KeyRange, RecordMeta, RecordPlace};
use quoit_wire::internode::data::{KeySpan, Scan, ScanSpan, Scanned, TermSpan};
use std::sync::Arc;

/// Maximum number of positions in a chunk.
pub(super) const CHUNK_COUNT: usize = 1_000;
/// Number of bytes after which a chunk ends, whatever its count. The last position may exceed it.
pub(super) const CHUNK_BYTES: usize = 1024 * 1024;
/// Number of positions that are read from the engine at once. The longest ones, of 64 KiB each, take 16
/// MiB.
const READ_COUNT: usize = 256;
/// Number of positions that are visited for a chunk. A chunk without matches then reports the position that
/// the scan has reached, so that the coordinator does not consider the node down.
pub(super) const LOOKED_AT_COUNT_MAX: usize = 32 * CHUNK_COUNT;
/// Cost of reading a record, as a number of keys that are passed over.
pub(super) const READ_COST: usize = 32;

/// A chunk that is being filled.
pub(super) struct Chunk {
    scanned: Scanned,
    count_max: usize,
    /// Number of keys that were visited, limited by [`LOOKED_AT_COUNT_MAX`].
    pub(super) looked_at_count: usize,
    bytes: usize,
}

/// A function that may add a key to a chunk. Gets the encoded name, the key itself, and the engine's
/// metadata of the record.
pub(super) type TakeKey<'f> =
    dyn FnMut(&mut Chunk, &Bytes, &[u8], &RecordMeta) -> Result<(), RequestError> + 'f;

impl Chunk {
    pub(super) fn new(scan: &Scan) -> Self {
        let count_max = (scan.count_max as usize).clamp(1, CHUNK_COUNT);
        Self { scanned: Scanned::default(), count_max, looked_at_count: 0, bytes: 0 }
    }

    pub(super) fn push(&mut self, position: Bytes) {
        self.bytes += position.len();
        self.scanned.positions.push(position);
    }

    /// True if no further key fits, not even one that was read already.
    const fn has_ended(&self) -> bool {
        self.bytes >= CHUNK_BYTES
    }

    /// Number of positions to read next.
    fn read_count(&self) -> usize {
        debug_assert!(
            self.scanned.positions.len() <= self.count_max,
            "a chunk has no more positions than were asked for"
        );
        (self.count_max - self.scanned.positions.len()).clamp(1, READ_COUNT)
    }

    fn is_full(&self) -> bool {
        self.scanned.positions.len() >= self.count_max
            || self.has_ended()
            || self.looked_at_count >= LOOKED_AT_COUNT_MAX
    }
}

/// True for queries of a part of a bucket, which a client waits for; false for scans of a whole bucket.
fn is_query(scan: &Scan) -> bool {
    match &scan.span {
        Some(ScanSpan::Terms(_)) => true,
        Some(ScanSpan::Keys(span)) => {
            let is_all = span.from.is_empty() && span.end.is_none();
            !is_all || (scan.count_max as usize) < CHUNK_COUNT
        }
        _ => false,
    }
}

/// True if the scan runs scripts.
fn runs_scripts(scan: &Scan) -> bool {
    match &scan.span {
        Some(ScanSpan::Maps(span)) => span.work.as_ref().is_some_and(|work| work.has_scripts),
        _ => false,
    }
}

/// True if the scan has tombstones reaped.
fn reaps(scan: &Scan) -> bool {
    match &scan.span {
        Some(ScanSpan::Records(span)) => span.reap,
        Some(ScanSpan::Segments(span)) => span.records.as_ref().is_some_and(|span| span.reap),
        _ => false,
    }
}

impl Listings {
    /// Reads a chunk of this node's records. Returns `None` if the request's layout is not live any more, or
    /// a bucket's n_val was lowered in the meantime.
    ///
    /// # Errors
    ///
    /// Malformed requests, unknown bucket types, engine faults.
    pub(crate) async fn local_scan(
        self: &Arc<Self>,
        scan: Scan,
    ) -> Result<Option<Scanned>, RequestError> {
        let _room = match reaps(&scan) {
            true => Some(self.tombstones.reserve_places(CHUNK_COUNT).await?),
            false => None,
        };
        if self.local.lacks_records_of(&PartitionSet::from_bytes(&scan.partitions)) {
            return Ok(None);
        }
        let (layout_version, state_version) = (scan.layout_version, scan.state_version);
        let listings = Arc::clone(self);
        let is_query = is_query(&scan) || runs_scripts(&scan);
        let blocking = self.local.settings.blocking;
        let read = move || listings.read_span(&scan);
        let scanned = match is_query {
            true => blocking.on_pool(read).await?,
            // Scans of whole buckets yield to other requests. Scans with scripts do not run here:
            // scripts have threads of their own, and would block the few threads of this pool.
            false => blocking.at_low_priority(read).await?,
        };
        let scanned = self.local.if_still_live(scanned, layout_version);
        Ok(scanned.filter(|_| !self.local.has_fewer_replicas_since(state_version)))
    }

    fn read_span(&self, scan: &Scan) -> Result<Scanned, RequestError> {
        let pattern = scan.pattern.as_deref().map(Pattern::new).transpose();
        let pattern = pattern.map_err(|fault| RequestError::Remote(fault.to_string()))?;
        match &scan.span {
            Some(ScanSpan::Keys(span)) => self.read_keys(scan, span, pattern.as_ref()),
            Some(ScanSpan::Terms(span)) => self.read_terms(scan, span, pattern.as_ref()),
            Some(ScanSpan::Records(span)) => self.read_records(scan, span, None),
            Some(ScanSpan::Segments(span)) => {
                let segments = Segments::of_count(span.segment_count, span.segments.clone());
                let records = span.records.clone().unwrap_or_default();
                self.read_records(scan, &records, Some(&segments))
            }
            Some(ScanSpan::Maps(span)) => self.read_maps(scan, span),
            None => Err(RequestError::Remote("a scan of nothing".to_owned())),
        }
    }

    fn read_keys(
        &self,
        scan: &Scan,
        span: &KeySpan,
        pattern: Option<&Pattern>,
    ) -> Result<Scanned, RequestError> {
        let scope = ScanScope::of(self, scan)?;
        self.each_key(scan, span, &scope, Chunk::new(scan), &mut |chunk, encoded, key, _| {
            if pattern.is_none_or(|pattern| pattern.is_in(key)) {
                chunk.push(encoded.slice_ref(key));
            }
            Ok(())
        })
    }

    /// Passes the keys of a span to `take` until the chunk is full.
    pub(super) fn each_key(
        &self,
        scan: &Scan,
        span: &KeySpan,
        scope: &ScanScope<'_>,
        mut chunk: Chunk,
        take: &mut TakeKey<'_>,
    ) -> Result<Scanned, RequestError> {
        let bucket = scope.bucket;
        let range = key_range(bucket, span);
        let mut after = place_after(scope, scan)?;
        loop {
            let KeyPage { entries, next } =
                self.local.engine.list_keys(range, after.as_deref(), chunk.read_count())?;
            chunk.looked_at_count += entries.len();
            for (encoded, meta) in entries {
                let Ok(KeyRef { key, .. }) = KeyRef::decode(&encoded) else { continue };
                let is_wanted = span.end.as_deref().is_none_or(|end| key < end)
                    && (span.with_tombstones || !meta.tombstone)
                    && scope.has(&encoded);
                if is_wanted {
                    take(&mut chunk, &encoded, key, &meta)?;
                }
                if chunk.has_ended() {
                    chunk.scanned.next = Some(encoded.slice_ref(key));
                    return Ok(chunk.scanned);
                }
            }
            if next.is_none() || chunk.is_full() {
                let place = |next: Bytes| Some(next.slice_ref(KeyRef::decode(&next).ok()?.key));
                chunk.scanned.next = next.and_then(place);
                return Ok(chunk.scanned);
            }
            after = next;
            yield_to_requests();
        }
    }

    fn read_terms(
        &self,
        scan: &Scan,
        span: &TermSpan,
        pattern: Option<&Pattern>,
    ) -> Result<Scanned, RequestError> {
        self.local.stats.count(Counter::IndexReads);
        let scope = ScanScope::of(self, scan)?;
        let bucket = scope.bucket;
        let (min, max) = (position(&span.min)?.term(), position(&span.max)?.term());
        let range = IndexRange { bucket, field: &span.field, min: &min, max: &max };
        let mut after = scan.after.as_ref().map(position).transpose()?;
        let mut chunk = Chunk::new(scan);
        loop {
            let mut page = self.local.engine.query_index(
                &range,
                &|partition| scope.partitions.contains(partition),
                after.as_ref(),
                chunk.read_count(),
            )?;
            // The engine has also visited entries of other partitions.
            chunk.looked_at_count += page.entries.len().max(READ_COUNT);
            if planted!(QueriesShort) {
                page.entries.pop();
            }
            for entry in page.entries {
                let is_wanted = pattern.is_none_or(|pattern| pattern.is_in(&term_bytes(&entry)));
                if is_wanted {
                    chunk.push(entry.as_bytes().clone());
                }
            }
            if page.next.is_none() || chunk.is_full() {
                chunk.scanned.next = page.next.map(|next| next.as_bytes().clone());
                return Ok(chunk.scanned);
            }
            after = page.next;
            yield_to_requests();
        }
    }
}

/// Scope of a scan: its bucket, and the partitions that this node is asked for.
pub(super) struct ScanScope<'s> {
    listings: &'s Listings,
    pub(super) bucket: BucketRef<'s>,
    rule: PlacementRule,
    partitions: PartitionSet,
    has_all: bool,
}

impl<'s> ScanScope<'s> {
    pub(super) fn of(listings: &'s Listings, scan: &'s Scan) -> Result<Self, RequestError> {
        let bucket = BucketRef { bucket_type: &scan.bucket_type, bucket: &scan.bucket };
        let rule = bucket_props(&listings.local.control.read(), bucket)?.chash_keyfun;
        let partitions = PartitionSet::from_bytes(&scan.partitions);
        let has_all = partitions == PartitionSet::all(listings.local.ring_size().get());
        Ok(Self { listings, bucket, rule, partitions, has_all })
    }

    fn has(&self, encoded: &[u8]) -> bool {
        self.has_all || self.partitions.contains(self.partition(encoded)) || planted!(ListsTwice)
    }

    /// Place of a record; `None` if its partition is not part of the scan.
    pub(super) fn place_in_scope(&self, encoded: &[u8]) -> Option<RecordPlace> {
        let hash = KeyHash::of(encoded, self.bucket, self.rule);
        let partition = self.listings.local.ring_size().partition(hash.placement);
        let has = self.has_all || self.partitions.contains(partition) || planted!(ListsTwice);
        has.then_some(RecordPlace { identity: hash.identity, partition })
    }

    pub(super) fn partition(&self, encoded: &[u8]) -> Partition {
        let placement = KeyHash::of(encoded, self.bucket, self.rule).placement;
        self.listings.local.ring_size().partition(placement)
    }
}

/// Encoded name of the key after which the scan continues.
pub(super) fn place_after(
    scope: &ScanScope<'_>,
    scan: &Scan,
) -> Result<Option<Bytes>, RequestError> {
    let Some(key) = scan.after.as_deref() else { return Ok(None) };
    let key = scope.bucket.key(key);
    key.check()?;
    Ok(Some(Bytes::copy_from_slice(&key.encoded())))
}

pub(super) fn key_range<'a>(bucket: BucketRef<'a>, span: &'a KeySpan) -> KeyRange<'a> {
    if span.from.is_empty() && span.end.is_none() {
        return KeyRange::Bucket(bucket);
    }
    // The engine's range includes the end; the callers leave it out.
    KeyRange::Between(bucket, &span.from, span.end.as_deref())
}

fn position(bytes: &Bytes) -> Result<IndexPosition, RequestError> {
    IndexPosition::from_bytes(bytes.clone())
        .map_err(|fault| RequestError::Remote(fault.to_string()))
}

/// The bytes of a term that patterns are matched against.
fn term_bytes(entry: &IndexPosition) -> Bytes {
    match entry.term() {
        quoit_model::object::IndexTerm::Binary(term) => term,
        quoit_model::object::IndexTerm::Integer(number) => Bytes::from(number.to_string()),
    }
}
