//! The records of one partition.

use super::indexes::{MemoryIndexes, entries_cost_bytes};
use crate::buckets::BucketList;
use crate::compare::{HashRange, Leaf, Scope, class_place, compared_digest, contribution};
use crate::engine::{DataLocation, Record, RecordAt, RecordMeta};
use crate::expired::after_expiry;
use crate::index::{PartitionSummary, RecordContribution, Tag};
use crate::index_page::places_of;
use bytes::Bytes;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::{BucketRef, KeyRef};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// Estimated memory of a record in bytes, in addition to its value and twice its encoded key.
pub(super) const RECORD_OVERHEAD_BYTES: u64 = 320;

/// Maximum number of hashes that a fold looks at before it returns (the page's limit, if that is more),
/// because the partition is locked meanwhile.
const FOLDED_MAX: usize = 1_024;

/// Number of records up to which the contents of a partition are checked, in builds with assertions.
const CHECKED_RECORDS: usize = 16;

/// Maximum number of expired records that a write removes.
const SWEPT_PER_WRITE: usize = 4;

/// A record's name as a sort key: bucket type, bucket, key.
pub(super) type RecordName = (Bytes, Bytes, Bytes);

/// The sort key of a name. Copies the name.
pub(super) fn name_of(key: KeyRef<'_>) -> RecordName {
    (
        Bytes::copy_from_slice(key.bucket.bucket_type),
        Bytes::copy_from_slice(key.bucket.bucket),
        Bytes::copy_from_slice(key.key),
    )
}

/// The name of a sort key.
pub(super) fn key_of(name: &RecordName) -> KeyRef<'_> {
    BucketRef { bucket_type: &name.0, bucket: &name.1 }.key(&name.2)
}

/// Estimated memory of a record with its index entries, in bytes.
pub(super) fn cost_bytes(encoded: &[u8], value_size: usize, places: &[Vec<u8>]) -> u64 {
    let record_bytes = 2 * encoded.len() as u64 + value_size as u64 + RECORD_OVERHEAD_BYTES;
    record_bytes + entries_cost_bytes(places)
}

fn leaf_of(identity: Identity, meta: &RecordMeta) -> Leaf {
    Leaf { tag: Tag::of(identity), digest: compared_digest(meta), tombstone: meta.tombstone }
}

fn share_of(identity: Identity, meta: &RecordMeta) -> RecordContribution {
    RecordContribution::new(meta.n_val_class, &leaf_of(identity, meta), meta.expires_at_secs != 0)
}

/// A record, and its keys in the other maps.
struct StripeRecord {
    encoded: Bytes,
    record: Record,
    /// Time at which the record expires, in seconds since 1970, because of its metadata or the engine's
    /// TTL; 0 = never.
    ends_at_secs: u32,
    /// Its key in the order of use.
    used: u64,
}

impl StripeRecord {
    /// The encoded index entries of the record.
    fn places(&self) -> Vec<Vec<u8>> {
        let key = KeyRef::decode(&self.encoded).expect("stored keys are encoded keys");
        // Encoding them cannot fail: it succeeded when the record was stored.
        places_of(key, &self.record.meta, &self.record.value).unwrap_or_default()
    }

    /// The record, or the tombstone that replaces it after its expiry.
    fn shown(&self, now_secs: u64) -> Option<Cow<'_, Record>> {
        match self.has_ended(now_secs) {
            true => self.left(now_secs).map(Cow::Owned),
            false => Some(Cow::Borrowed(&self.record)),
        }
    }

    /// The tombstone that replaces the record after the time of expiry in its metadata. `None` before, if
    /// nothing replaces it, or if the record is only past the engine's TTL.
    fn left(&self, now_secs: u64) -> Option<Record> {
        let expires_at_secs = self.record.meta.expires_at_secs;
        let has_expired = expires_at_secs != 0 && u64::from(expires_at_secs) <= now_secs;
        if has_expired { after_expiry(&self.record) } else { None }
    }

    fn has_ended(&self, now_secs: u64) -> bool {
        self.ends_at_secs != 0 && u64::from(self.ends_at_secs) <= now_secs
    }
}

/// A record that was removed.
#[derive(Default)]
struct RemovedRecord {
    /// Its encoded index entries, which have not been removed yet.
    places: Vec<Vec<u8>>,
    /// True if the record existed and never expires.
    was_live: bool,
}

/// Bounds of a partition.
#[derive(Clone, Copy, Default)]
pub(super) struct Bounds {
    pub(super) bytes_max: Option<u64>,
    pub(super) ttl_secs: Option<u32>,
}

/// The records of one partition. The maps always have the same records.
pub(super) struct MemoryStripe {
    partition: Partition,
    bounds: Bounds,
    /// The secondary indexes of all partitions.
    indexes: Arc<MemoryIndexes>,
    /// The list of buckets of all partitions.
    buckets: Arc<BucketList>,
    records: BTreeMap<Identity, Vec<StripeRecord>>,
    names: BTreeMap<RecordName, Identity>,
    /// Records by their last use, without pieces. Empty if memory is not bounded.
    uses: BTreeMap<u64, (Identity, Bytes)>,
    next_use: u64,
    /// Records that expire, by time.
    ends: BTreeSet<(u32, Identity, Bytes)>,
    bytes: u64,
    summary: PartitionSummary,
}

impl MemoryStripe {
    pub(super) fn new(
        partition: Partition,
        bounds: Bounds,
        indexes: Arc<MemoryIndexes>,
        buckets: Arc<BucketList>,
    ) -> Self {
        Self {
            partition,
            bounds,
            indexes,
            buckets,
            records: BTreeMap::new(),
            names: BTreeMap::new(),
            uses: BTreeMap::new(),
            next_use: 0,
            ends: BTreeSet::new(),
            bytes: 0,
            summary: PartitionSummary::default(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn summary(&self) -> &PartitionSummary {
        &self.summary
    }

    /// The record, or the tombstone that replaces it after its expiry.
    pub(super) fn get(&self, at: &RecordAt<'_>, now_secs: u64) -> Option<Cow<'_, Record>> {
        self.stored(at.identity, at.encoded)?.shown(now_secs)
    }

    /// Notes that a record was used now.
    pub(super) fn touch(&mut self, at: &RecordAt<'_>) {
        if self.bounds.bytes_max.is_none() {
            return;
        }
        let next_use = self.next_use;
        let sharing = self.records.get_mut(&at.identity);
        let stored = sharing.and_then(|all| all.iter_mut().find(|one| one.encoded == at.encoded));
        if let Some(stored) = stored {
            let place = self.uses.remove(&stored.used);
            stored.used = next_use;
            self.uses.extend(place.map(|place| (next_use, place)));
            self.next_use += 1;
        }
    }

    /// Stores a record, replacing a former one. `places` are its encoded index entries.
    pub(super) fn put(
        &mut self,
        at: &RecordAt<'_>,
        record: Record,
        places: Vec<Vec<u8>>,
        now_secs: u64,
    ) {
        let former = self.take_out(at.identity, at.encoded);
        let becomes_live = !former.was_live && !record.meta.is_piece();
        let encoded = Bytes::copy_from_slice(at.encoded);
        let ends_at_secs = self.ends_at_secs(&record.meta, now_secs);
        if ends_at_secs != 0 {
            self.ends.insert((ends_at_secs, at.identity, encoded.clone()));
        }
        // Pieces are evicted with their record.
        if self.bounds.bytes_max.is_some() && !record.meta.is_piece() {
            self.uses.insert(self.next_use, (at.identity, encoded.clone()));
        }
        self.names.insert(name_of(at.key), at.identity);
        self.bytes += cost_bytes(&encoded, record.value.len(), &places);
        self.summary.add(&share_of(at.identity, &record.meta));
        let stored = StripeRecord { encoded, record, ends_at_secs, used: self.next_use };
        self.next_use += 1;
        self.records.entry(at.identity).or_default().push(stored);
        self.indexes.counters.count(&former.places, &places);
        self.indexes.replace(self.partition, former.places, places, ends_at_secs);
        if becomes_live {
            self.buckets.note(at, DataLocation::default());
        }
        self.debug_check();
    }

    /// Removes some expired records, and evicts the least recently used records while the partition takes
    /// too much memory. Called after all writes of a request.
    pub(super) fn settle(&mut self, now_secs: u64) {
        self.sweep(now_secs, SWEPT_PER_WRITE);
        while self.bounds.bytes_max.is_some_and(|bytes_max| self.bytes > bytes_max) {
            let Some((_, (identity, encoded))) = self.uses.pop_first() else { return };
            self.remove_whole(identity, &encoded);
        }
        self.debug_check();
    }

    /// True if a transaction has to tell which records it has read.
    pub(super) fn notes_reads(&self) -> bool {
        self.bounds.bytes_max.is_some() || self.bounds.ttl_secs.is_some()
    }

    /// Removes a record if it has expired. Returns true if it had.
    pub(super) fn end(&mut self, identity: Identity, encoded: &[u8], now_secs: u64) -> bool {
        let ended = self.stored(identity, encoded).is_some_and(|stored| stored.has_ended(now_secs));
        if ended {
            self.remove_ended(identity, encoded, now_secs);
        }
        ended
    }

    /// Removes an expired record, and stores the tombstone that replaces it, if there is one. If the engine
    /// has a TTL, the record's pieces are removed too, because the code that stored them does not know of
    /// the TTL. Without a TTL that code removes the pieces itself.
    fn remove_ended(&mut self, identity: Identity, encoded: &[u8], now_secs: u64) {
        let left = self.stored(identity, encoded).and_then(|stored| stored.left(now_secs));
        if self.bounds.ttl_secs.is_some() {
            self.remove_whole(identity, encoded);
        } else {
            self.remove(identity, encoded);
        }
        if let Some(left) = left {
            let key = KeyRef::decode(encoded).expect("stored keys are encoded keys");
            let at = RecordAt { key, encoded, identity, partition: self.partition };
            self.put(&at, left, Vec::new(), now_secs);
        }
    }

    /// Removes a record with all of its pieces: with only some of them it would be damaged.
    fn remove_whole(&mut self, identity: Identity, encoded: &[u8]) {
        for (piece, identity) in self.pieces_of(encoded) {
            self.remove(identity, &key_of(&piece).encoded());
        }
        self.remove(identity, encoded);
    }

    /// Names of the pieces of a record, which are in its partition.
    fn pieces_of(&self, owner: &[u8]) -> Vec<(RecordName, Identity)> {
        let first = name_of(BucketRef::of_pieces(owner).key(&[]));
        let names = self.names.range(&first..);
        let own = names.take_while(|(name, _)| (&name.0, &name.1) == (&first.0, &first.1));
        own.map(|(name, identity)| (name.clone(), *identity)).collect()
    }

    /// Removes a record on request, expired or not.
    pub(super) fn remove_asked(&mut self, identity: Identity, encoded: &[u8]) {
        let former = self.take_out(identity, encoded);
        self.indexes.counters.count(&former.places, &[]);
        self.indexes.replace(self.partition, former.places, Vec::new(), 0);
        self.debug_check();
    }

    /// Removes a record that has expired or is evicted.
    fn remove(&mut self, identity: Identity, encoded: &[u8]) {
        let former = self.take_out(identity, encoded);
        self.indexes.replace(self.partition, former.places, Vec::new(), 0);
    }

    /// Like [`MemoryStripe::remove`], but leaves the index entries.
    fn take_out(&mut self, identity: Identity, encoded: &[u8]) -> RemovedRecord {
        let Some(sharing) = self.records.get_mut(&identity) else {
            return RemovedRecord::default();
        };
        let Some(place) = sharing.iter().position(|stored| stored.encoded == encoded) else {
            return RemovedRecord::default();
        };
        let stored = sharing.swap_remove(place);
        if sharing.is_empty() {
            self.records.remove(&identity);
        }
        let key = KeyRef::decode(&stored.encoded).expect("stored keys are encoded keys");
        self.names.remove(&name_of(key));
        self.uses.remove(&stored.used);
        let places = stored.places();
        self.bytes -= cost_bytes(&stored.encoded, stored.record.value.len(), &places);
        self.summary.subtract(&share_of(identity, &stored.record.meta));
        // A record that expires may have expired.
        let was_live = stored.ends_at_secs == 0;
        self.ends.remove(&(stored.ends_at_secs, identity, stored.encoded));
        RemovedRecord { places, was_live }
    }

    /// Removes all records.
    pub(super) fn clear(&mut self) {
        for stored in self.records.values().flatten() {
            self.indexes.replace(self.partition, stored.places(), Vec::new(), 0);
        }
        let (indexes, buckets) = (Arc::clone(&self.indexes), Arc::clone(&self.buckets));
        *self = Self::new(self.partition, self.bounds, indexes, buckets);
    }

    /// Removes up to `limit` expired records.
    pub(super) fn sweep(&mut self, now_secs: u64, limit: usize) {
        for _ in 0..limit {
            match self.ends.first() {
                Some((ends_at_secs, identity, encoded)) if u64::from(*ends_at_secs) <= now_secs => {
                    let (identity, encoded) = (*identity, encoded.clone());
                    self.remove_ended(identity, &encoded, now_secs);
                }
                _ => return,
            }
        }
    }

    /// Up to `limit` names from `from` on, with encoded key and metadata unless the record has expired.
    pub(super) fn names_from(
        &self,
        from: Bound<&RecordName>,
        limit: usize,
        now_secs: u64,
    ) -> Vec<(RecordName, Option<(Bytes, RecordMeta)>)> {
        let names = self.names.range((from, Bound::Unbounded)).take(limit);
        names
            .map(|(name, identity)| (name.clone(), self.known(name, *identity, now_secs)))
            .collect()
    }

    /// A key of a bucket that has not expired.
    pub(super) fn live_key(
        &self,
        bucket: BucketRef<'_>,
        now_secs: u64,
    ) -> Option<(Bytes, Identity)> {
        self.names
            .range(name_of(bucket.key(&[]))..)
            .take_while(|(name, _)| key_of(name).bucket == bucket)
            .find_map(|(name, identity)| {
                let (encoded, _) = self.known(name, *identity, now_secs)?;
                Some((encoded, *identity))
            })
    }

    /// Records from identity `from` on that have not expired, at most `limit` except that all records of
    /// one identity stay together; and the identity from which the next call continues. Returns fewer if
    /// few of the records are wanted.
    pub(super) fn fold(
        &self,
        from: Identity,
        limit: usize,
        now_secs: u64,
        tombstones_only: bool,
    ) -> (Vec<(Bytes, Record)>, Option<Identity>) {
        let mut entries = Vec::new();
        for (looked_at, (identity, sharing)) in self.records.range(from..).enumerate() {
            if entries.len() >= limit.max(1) || looked_at >= limit.max(FOLDED_MAX) {
                return (entries, Some(*identity));
            }
            let shown = sharing.iter().filter_map(|stored| {
                let record = stored.shown(now_secs)?;
                let meta = &record.meta;
                let is_wanted = !meta.is_piece() && (meta.tombstone || !tombstones_only);
                is_wanted.then(|| (stored.encoded.clone(), record.into_owned()))
            });
            entries.extend(shown);
        }
        (entries, None)
    }

    /// XOR digest of the records of a range.
    pub(super) fn range_digest(&self, scope: Scope, range: HashRange) -> u64 {
        let leaves = self.leaves(scope, range, Tag::MIN);
        leaves.fold(0, |bits, leaf| bits ^ contribution(&leaf))
    }

    /// Leaves of a range from tag `from` on.
    pub(super) fn leaves(
        &self,
        scope: Scope,
        range: HashRange,
        from: Tag,
    ) -> impl Iterator<Item = Leaf> {
        let first = range.first().max(from).identity_min();
        let last = range.last().identity_max();
        // `from` is above the range if a page ended at the end of the range.
        let records = (first <= last).then(|| self.records.range(first..=last));
        let metas = records.into_iter().flatten().flat_map(|(identity, sharing)| {
            sharing.iter().map(|stored| (*identity, stored.record.meta))
        });
        let class = class_place(scope.n_val_class);
        metas
            .filter(move |(_, meta)| !meta.is_piece() && class_place(meta.n_val_class) == class)
            .map(|(identity, meta)| (leaf_of(identity, &meta), meta.expires_at_secs != 0))
            .filter(move |(leaf, expires)| scope.has_hour(*expires, leaf.digest))
            .map(|(leaf, _)| leaf)
    }

    /// The records of a tag, expired ones as the tombstones that replace them.
    pub(super) fn tagged(&self, tag: Tag, now_secs: u64) -> Vec<(Bytes, Record)> {
        let sharing = self.records.range(tag.identity_min()..=tag.identity_max());
        let stored = sharing.flat_map(|(_, sharing)| sharing);
        let whole = stored.filter(|stored| !stored.record.meta.is_piece());
        let shown = whole.filter_map(|stored| {
            Some((stored.encoded.clone(), stored.shown(now_secs)?.into_owned()))
        });
        shown.collect()
    }

    /// Checks that the maps have the same records, in builds with assertions. The sizes of all maps always,
    /// the contents if they are few.
    fn debug_check(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let count = self.names.len();
        assert_eq!(self.summary.entry_count, count as u64, "each record has a name and is counted");
        let used_count = if self.bounds.bytes_max.is_some() { self.summary.key_count() } else { 0 };
        assert_eq!(self.uses.len() as u64, used_count, "all records but pieces may be evicted");
        assert!(self.uses.keys().next_back() < Some(&self.next_use), "the next use is the last");
        if count > CHECKED_RECORDS {
            return;
        }
        let all = || self.records.values().flatten();
        assert_eq!(all().count(), count, "each name has a record");
        let ends_count = all().filter(|stored| stored.ends_at_secs != 0).count();
        assert_eq!(self.ends.len(), ends_count, "each record that expires is swept");
        let cost = |stored: &StripeRecord| {
            cost_bytes(&stored.encoded, stored.record.value.len(), &stored.places())
        };
        assert_eq!(self.bytes, all().map(cost).sum::<u64>(), "the bytes are those of the records");
    }

    fn known(
        &self,
        name: &RecordName,
        identity: Identity,
        now_secs: u64,
    ) -> Option<(Bytes, RecordMeta)> {
        let sharing = self.records.get(&identity)?.iter();
        let key = key_of(name);
        sharing
            .filter(|stored| !stored.has_ended(now_secs))
            .find(|stored| KeyRef::decode(&stored.encoded) == Ok(key))
            .map(|stored| (stored.encoded.clone(), stored.record.meta))
    }

    fn stored(&self, identity: Identity, encoded: &[u8]) -> Option<&StripeRecord> {
        self.records.get(&identity)?.iter().find(|stored| stored.encoded == encoded)
    }

    fn ends_at_secs(&self, meta: &RecordMeta, now_secs: u64) -> u32 {
        if meta.is_piece() {
            return meta.expires_at_secs;
        }
        let by_ttl = self.bounds.ttl_secs.map_or(0, |ttl_secs| {
            u32::try_from(now_secs.saturating_add(u64::from(ttl_secs))).unwrap_or(u32::MAX)
        });
        match (meta.expires_at_secs, by_ttl) {
            (0, other) | (other, 0) => other,
            (by_record, by_ttl) => by_record.min(by_ttl),
        }
    }
}
