//! The engine, built on one ordered map for each partition.

use super::indexes::MemoryIndexes;
use super::listing::{list_keys, live_keys};
use super::stripe::{Bounds, MemoryStripe, cost_bytes};
use super::transact::{OpenTransaction, TransactionResult};
use crate::buckets::{BucketList, Keys, KnownKey};
use crate::compare::{Digests, HashRange, LeafPage, Scope};
use crate::engine::{
    Applied, BatchWrite, BeforeImage, ChangeFn, Compare, DataLocation, Decision, EngineStats,
    Fetch, InPlaceRead, IndexPage, Interrupted, Interruption, IoMode, KeyPage, KeyRange,
    Maintenance, PointAccess, Record, RecordAt, RecordMeta, RecordPage, RecordRef, ScanAccess,
    SizeBound, Ticket, TransactionFn, listing_place,
};
use crate::error::StoreError;
use crate::index::Tag;
use crate::index_activity::IndexActivity;
use crate::index_page::places_of;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use quoit_model::hash::{Identity, Partition, RingSize};
use quoit_model::key::BucketRef;
use quoit_model::secondary_index::{IndexPosition, IndexRange};
use quoit_seam::Clock;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};

/// Bounds of a memory engine. By default it has no bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemorySettings {
    /// Maximum memory of the records of one partition, in bytes. Beyond it, the least recently used records
    /// are evicted. A record counts with its value, twice its key, its index entries, and 320 bytes.
    /// Reading it, writing it, or asking for its digest counts as use. Pieces count too, and are evicted
    /// with their record.
    pub partition_bytes_max: Option<u64>,
    /// Number of seconds after its last write at which a record expires; it expires earlier if its metadata
    /// says so. Pieces expire with their record.
    pub ttl_secs: Option<u32>,
}

/// The memory engine. See the module's documentation. Reads and writes cost the lock of a partition and two
/// or three searches in ordered maps. A write copies the key, and copies the value only if its buffer is
/// much larger.
pub struct MemoryEngine {
    stripes: Vec<Mutex<MemoryStripe>>,
    indexes: Arc<MemoryIndexes>,
    buckets: Arc<BucketList>,
    settings: MemorySettings,
    clock: Arc<dyn Clock>,
    last_ticket: AtomicU64,
    closed: AtomicBool,
}

impl MemoryEngine {
    /// An empty engine for a ring.
    #[must_use]
    pub fn new(settings: MemorySettings, ring_size: RingSize, clock: Arc<dyn Clock>) -> Self {
        let MemorySettings { partition_bytes_max: bytes_max, ttl_secs } = settings;
        let indexes = Arc::new(MemoryIndexes::default());
        let bounds = Bounds { bytes_max, ttl_secs };
        let buckets = Arc::new(BucketList::default());
        let stripe = |partition| {
            let (indexes, buckets) = (Arc::clone(&indexes), Arc::clone(&buckets));
            Mutex::new(MemoryStripe::new(Partition(partition), bounds, indexes, buckets))
        };
        Self {
            stripes: (0..ring_size.get()).map(stripe).collect(),
            indexes,
            buckets,
            settings,
            clock,
            last_ticket: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    fn open(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) { Err(StoreError::Closed) } else { Ok(()) }
    }

    /// Locks a partition. Panics if the ring has no such partition.
    #[expect(
        clippy::indexing_slicing,
        reason = "callers compute the number from a placement; others panic, as documented"
    )]
    fn stripe(&self, partition: Partition) -> Result<MutexGuard<'_, MemoryStripe>, StoreError> {
        self.open()?;
        Ok(self.stripes[usize::from(partition.0)].lock())
    }

    fn next_ticket(&self) -> Ticket {
        Ticket(self.last_ticket.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The encoded index entries of a new record. Fails if the record is too large.
    fn checked(
        &self,
        at: &RecordAt<'_>,
        meta: &RecordMeta,
        value: &[u8],
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let places = places_of(at.key, meta, value)?;
        let size_bytes = cost_bytes(at.encoded, value.len(), &places);
        match self.settings.partition_bytes_max {
            Some(limit_bytes) if size_bytes > limit_bytes => {
                Err(StoreError::TooLarge { size_bytes, limit_bytes })
            }
            _ => Ok(places),
        }
    }
}

/// The value in a buffer with at most an eighth of spare capacity. Buffers grow by doubling while values
/// are written into them, and a buffer in which a value was compressed has the uncompressed size. Such a
/// value is copied, because shrinking its buffer in place would leave holes that are too small for the next
/// value.
fn fitted(value: Vec<u8>) -> Bytes {
    if value.capacity() - value.len() > value.len() / 8 {
        Bytes::copy_from_slice(&value)
    } else {
        Bytes::from(value)
    }
}

impl PointAccess for MemoryEngine {
    fn get(&self, at: &RecordAt<'_>, _: IoMode) -> Result<Fetch, StoreError> {
        let mut stripe = self.stripe(at.partition)?;
        let found = stripe.get(at, self.clock.unix_secs());
        let Some(record) = found.map(Cow::into_owned) else { return Ok(Fetch::Missing) };
        stripe.touch(at);
        Ok(Fetch::Found(record))
    }

    fn show(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
        look: &mut dyn FnMut(&RecordRef<'_>),
    ) -> Result<InPlaceRead, StoreError> {
        Ok(match self.get(at, access)? {
            Fetch::Missing => InPlaceRead::Missing,
            Fetch::Found(record) => {
                look(&RecordRef::shared(&record));
                InPlaceRead::Found
            }
            Fetch::WouldBlock => InPlaceRead::WouldBlock,
        })
    }

    fn head(&self, at: &RecordAt<'_>) -> Result<Option<RecordMeta>, StoreError> {
        let mut stripe = self.stripe(at.partition)?;
        let Some(meta) = stripe.get(at, self.clock.unix_secs()).map(|record| record.meta) else {
            return Ok(None);
        };
        // A replica answers a read of another node by its digest, so this counts as use.
        stripe.touch(at);
        Ok(Some(meta))
    }

    fn size_bound(&self, at: &RecordAt<'_>, _: IoMode) -> SizeBound {
        let Ok(stripe) = self.stripe(at.partition) else { return SizeBound::Unknown };
        let record = stripe.get(at, self.clock.unix_secs());
        SizeBound::of(record.map(|record| record.value.len() as u64))
    }

    fn update(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        _: IoMode,
        change: &mut ChangeFn<'_>,
    ) -> Result<Applied, StoreError> {
        let mut stripe = self.stripe(at.partition)?;
        let now_secs = self.clock.unix_secs();
        stripe.end(at.identity, at.encoded, now_secs);
        let record = match before {
            BeforeImage::Read | BeforeImage::Front => stripe.get(at, now_secs),
            BeforeImage::Skip => None,
        };
        let mut value = Vec::new();
        let record = record.as_deref().map(RecordRef::shared);
        match change(record.as_ref(), &mut value) {
            Decision::Keep => {
                stripe.touch(at);
                return Ok(Applied::Kept);
            }
            Decision::Put(meta) => {
                let places = self.checked(at, &meta, &value)?;
                stripe.put(at, Record { meta, value: fitted(value) }, places, now_secs);
            }
            Decision::Remove => stripe.remove_asked(at.identity, at.encoded),
        }
        stripe.settle(now_secs);
        Ok(Applied::Written(self.next_ticket()))
    }

    fn transact(
        &self,
        partition: Partition,
        _: IoMode,
        body: &mut TransactionFn<'_>,
    ) -> Result<Applied, StoreError> {
        let mut stripe = self.stripe(partition)?;
        let now_secs = self.clock.unix_secs();
        let mut open = OpenTransaction::new(partition, &stripe, now_secs);
        match body(&mut open) {
            Ok(()) => {}
            Err(Interrupted(Interruption::Failed(error))) => return Err(error),
            Err(Interrupted(Interruption::NeedsWait)) => return Ok(Applied::WouldBlock),
        }
        let TransactionResult { writes, reads } = open.into_result();
        for name in &reads {
            // An expired record is removed with its pieces before anything is stored in its place.
            if stripe.end(name.identity(), name.encoded(), now_secs) {
                continue;
            }
            stripe.touch(&name.at(partition));
        }
        if writes.is_empty() {
            return Ok(Applied::Kept);
        }
        let mut places = Vec::with_capacity(writes.len());
        for (name, record) in &writes {
            places.push(match record {
                Some(record) => self.checked(&name.at(partition), &record.meta, &record.value)?,
                None => Vec::new(),
            });
        }
        for ((name, record), places) in writes.into_iter().zip(places) {
            match record {
                Some(record) => stripe.put(&name.at(partition), record, places, now_secs),
                None => stripe.remove_asked(name.identity(), name.encoded()),
            }
        }
        stripe.settle(now_secs);
        Ok(Applied::Written(self.next_ticket()))
    }

    fn batch(&self, writes: &[BatchWrite<'_>]) -> Result<Ticket, StoreError> {
        self.open()?;
        let mut partitions = BTreeMap::new();
        let mut places = Vec::with_capacity(writes.len());
        for write in writes {
            let (BatchWrite::Put { at, .. } | BatchWrite::Remove { at }) = write;
            partitions.insert(at.partition, None);
            places.push(match write {
                BatchWrite::Put { meta, value, .. } => self.checked(at, meta, value)?,
                BatchWrite::Remove { .. } => Vec::new(),
            });
        }
        // In the order of partitions, so that two batches cannot deadlock.
        for (partition, stripe) in &mut partitions {
            *stripe = Some(self.stripe(*partition)?);
        }
        let now_secs = self.clock.unix_secs();
        for (write, places) in writes.iter().zip(places) {
            let (BatchWrite::Put { at, .. } | BatchWrite::Remove { at }) = write;
            let stripe = partitions.get_mut(&at.partition).and_then(Option::as_mut);
            let stripe = stripe.expect("all partitions of the batch are locked");
            match write {
                BatchWrite::Put { meta, value, .. } => {
                    let record = Record { meta: *meta, value: Bytes::copy_from_slice(value) };
                    stripe.put(at, record, places, now_secs);
                }
                BatchWrite::Remove { .. } => stripe.remove_asked(at.identity, at.encoded),
            }
        }
        partitions.values_mut().flatten().for_each(|stripe| stripe.settle(now_secs));
        Ok(self.next_ticket())
    }

    fn poll_durable(&self, ticket: Ticket, _: &Waker) -> Poll<Result<(), StoreError>> {
        debug_assert!(
            ticket.0 <= self.last_ticket.load(Ordering::Relaxed),
            "tickets are polled after they were given"
        );
        Poll::Ready(Ok(()))
    }
}

impl ScanAccess for MemoryEngine {
    fn list_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<KeyPage, StoreError> {
        self.open()?;
        let after = listing_place(after)?;
        Ok(list_keys(&self.stripes, range, after, limit, self.clock.unix_secs()))
    }

    fn query_index(
        &self,
        range: &IndexRange<'_>,
        partitions: &dyn Fn(Partition) -> bool,
        after: Option<&IndexPosition>,
        limit: usize,
    ) -> Result<IndexPage, StoreError> {
        self.open()?;
        let span = range.span(after);
        Ok(self.indexes.query(&span, partitions, limit, self.clock.unix_secs()))
    }

    fn list_buckets(
        &self,
        bucket_type: &[u8],
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        self.open()?;
        self.buckets.list(self, bucket_type, after, limit)
    }

    fn fold(
        &self,
        partition: Partition,
        from: Identity,
        limit: usize,
        tombstones_only: bool,
    ) -> Result<RecordPage, StoreError> {
        let stripe = self.stripe(partition)?;
        let now_secs = self.clock.unix_secs();
        let (entries, next) = stripe.fold(from, limit, now_secs, tombstones_only);
        Ok(RecordPage { entries, next, ..RecordPage::default() })
    }

    fn compared(&self) -> Option<&dyn Compare> {
        (self.settings == MemorySettings::default()).then_some(self)
    }
}

impl Maintenance for MemoryEngine {
    fn drop_partition(&self, partition: Partition) -> Result<Ticket, StoreError> {
        self.stripe(partition)?.clear();
        Ok(self.next_ticket())
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.open()
    }

    fn stats(&self) -> EngineStats {
        let mut stats = EngineStats::default();
        for stripe in &self.stripes {
            let mut stripe = stripe.lock();
            stripe.sweep(self.clock.unix_secs(), usize::MAX);
            stats.key_count += stripe.summary().key_count();
            stats.tombstone_count += stripe.summary().tombstone_count;
            stats.index_bytes += stripe.bytes();
        }
        stats
    }

    fn index_activity(&self) -> IndexActivity {
        self.indexes.counters.activity()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.closed.store(true, Ordering::Release);
        Ok(())
    }
}

impl Keys for MemoryEngine {
    fn live_place(&self, known_key: &KnownKey) -> Result<Option<DataLocation>, StoreError> {
        let stripe = self.stripe(known_key.partition)?;
        // This lookup does not count as use, so it does not keep the record from being evicted.
        let known =
            known_key.at(|at| stripe.get(at, self.clock.unix_secs()).map(|known| known.meta));
        Ok(known.map(|_| known_key.place))
    }

    fn live_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<KnownKey>, StoreError> {
        Ok(live_keys(&self.stripes, range, after, limit, self.clock.unix_secs()))
    }
}

impl Compare for MemoryEngine {
    fn digests(&self, partition: Partition, hour_min: u32) -> Result<Digests, StoreError> {
        Ok(self.stripe(partition)?.summary().digests(hour_min))
    }

    fn range_digests(
        &self,
        partition: Partition,
        scope: Scope,
        ranges: &[HashRange],
    ) -> Result<Vec<u64>, StoreError> {
        let stripe = self.stripe(partition)?;
        Ok(ranges.iter().map(|range| stripe.range_digest(scope, *range)).collect())
    }

    fn leaves(
        &self,
        partition: Partition,
        scope: Scope,
        range: HashRange,
        from: Tag,
        limit: usize,
    ) -> Result<LeafPage, StoreError> {
        Ok(LeafPage::of(self.stripe(partition)?.leaves(scope, range, from), limit))
    }

    fn tagged(
        &self,
        partition: Partition,
        tags: &[Tag],
    ) -> Result<Vec<(Bytes, Record)>, StoreError> {
        let stripe = self.stripe(partition)?;
        let now_secs = self.clock.unix_secs();
        Ok(tags.iter().flat_map(|tag| stripe.tagged(*tag, now_secs)).collect())
    }
}
