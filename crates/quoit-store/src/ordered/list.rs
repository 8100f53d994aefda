//! Listings by name, and folds in hash order.

use super::backend::Space;
use super::keys::{
    NameKey, RecordKey, name_key, names_after, names_after_bucket, names_from, records_end,
};
use super::overlay::ScanRange;
use super::point::FoundRecord;
use super::store::StoreShared;
use super::value::{HEAD_BYTES, ValueHead, read_meta};
use crate::buckets::{Keys, KnownKey};
use crate::engine::{
    DataLocation, KeyPage, KeyRange, Record, RecordAt, RecordMeta, RecordPage, listing_place,
};
use crate::error::StoreError;
use crate::index::Tag;
use crate::range::{range_contains, range_start};
use bytes::Bytes;
use quoit_model::hash::{Identity, KeyHash, Partition, PlacementRule};
use quoit_model::key::{BucketRef, KeyRef};

/// Number of entries that a listing or a fold looks at before it may return fewer than were asked for.
const LOOKED_AT_MIN: usize = 1_024;

/// Number of entries that the search for the first live key of a bucket reads at first.
const FIRST_LOOK: usize = 4;

/// A record that a walk in hash order has found.
pub(super) struct WalkedRecord {
    pub(super) identity: Identity,
    pub(super) encoded: Bytes,
    pub(super) head: ValueHead,
}

/// The record exists and cannot be read.
struct IsDamaged;

/// A part of a walk in hash order.
pub(super) struct HashWalk {
    pub(super) records: Vec<WalkedRecord>,
    /// Records whose heads are damaged.
    pub(super) damaged: Vec<Identity>,
    /// Identity from which the next call continues; `None` at the end.
    pub(super) next: Option<Identity>,
}

impl StoreShared {
    pub(super) fn list_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<KeyPage, StoreError> {
        self.check_open()?;
        let after = listing_place(after)?;
        let start = range_start(range);
        let from = match after {
            Some(after) if after >= start => names_after(after),
            _ => names_from(start),
        };
        let limit = limit.max(1);
        let mut from = Bytes::from(from);
        let mut page = KeyPage::default();
        let mut looked_at = 0;
        loop {
            let names = ScanRange {
                space: Space::Names,
                from: &from,
                to: None,
                value_bytes_max: usize::MAX,
            };
            let scanned = self.overlay.scan(names, limit)?;
            looked_at += scanned.entries.len();
            for (stored, value) in &scanned.entries {
                let (name, meta) = self.named(stored, value)?;
                if !range_contains(range, name.key()) {
                    return Ok(page);
                }
                if !self.is_live(&name, &meta) {
                    continue;
                }
                let encoded = Bytes::copy_from_slice(&name.key().encoded());
                // A bucket's placement rule may change, so one name may be in two partitions.
                if page.entries.last().is_none_or(|(last, _)| *last != encoded) {
                    page.entries.push((encoded.clone(), meta));
                }
                if page.entries.len() >= limit {
                    page.next = Some(encoded);
                    return Ok(page);
                }
            }
            // Names of dropped partitions may be between live names.
            let last = page.entries.last().filter(|_| looked_at >= limit.max(LOOKED_AT_MIN));
            match (scanned.next, last) {
                (None, _) => return Ok(page),
                (Some(_), Some((last, _))) => {
                    page.next = Some(last.clone());
                    return Ok(page);
                }
                (Some(next), None) => from = next,
            }
        }
    }

    pub(super) fn list_buckets(
        &self,
        bucket_type: &[u8],
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        self.check_open()?;
        self.buckets.list(self, bucket_type, after, limit)
    }

    /// Decodes a stored name and its metadata.
    pub(super) fn named(
        &self,
        stored: &[u8],
        value: &[u8],
    ) -> Result<(NameKey, RecordMeta), StoreError> {
        let name = NameKey::read(stored);
        name.zip(read_meta(value)).ok_or_else(|| {
            let error = self.damaged("a name can't be read");
            self.note_damage(&error);
            error
        })
    }

    /// True if the name belongs to the current epoch of its partition and has not expired.
    pub(super) fn is_live(&self, name: &NameKey, meta: &RecordMeta) -> bool {
        let state = self.partitions.get(usize::from(name.partition.0));
        state.is_some_and(|state| state.epoch() == name.epoch) && !self.is_expired(meta)
    }

    pub(super) fn fold(
        &self,
        partition: Partition,
        from: Identity,
        limit: usize,
        tombstones_only: bool,
    ) -> Result<RecordPage, StoreError> {
        self.check_open()?;
        let mut page = RecordPage { next: Some(from), ..RecordPage::default() };
        let mut looked_at = 0;
        while let Some(from) = page.next
            && page.entries.len() < limit.max(1)
            && looked_at < limit.max(LOOKED_AT_MIN)
        {
            let HashWalk { records, damaged, next } = self.walk(partition, from, limit.max(1))?;
            looked_at += records.len() + damaged.len();
            page.next = next;
            page.damaged.extend(damaged.into_iter().map(Tag::of));
            for WalkedRecord { identity, encoded, head } in records {
                if head.meta.is_piece() || tombstones_only && !head.meta.tombstone {
                    continue;
                }
                match self.read_walked(partition, identity, &encoded)? {
                    Ok(Some(record)) => page.entries.push((encoded, record)),
                    Ok(None) => {}
                    Err(IsDamaged) => page.damaged.push(Tag::of(identity)),
                }
            }
        }
        page.damaged.sort_unstable();
        page.damaged.dedup();
        Ok(page)
    }

    /// A record that a walk has found, or the tombstone that replaces it after its expiry; `None` if it was
    /// removed or is damaged.
    pub(super) fn record_of(
        &self,
        partition: Partition,
        identity: Identity,
        encoded: &[u8],
    ) -> Result<Option<Record>, StoreError> {
        Ok(self.read_walked(partition, identity, encoded)?.ok().flatten())
    }

    /// A record that a walk has found, or the tombstone that replaces it after its expiry; `None` if it was
    /// removed.
    fn read_walked(
        &self,
        partition: Partition,
        identity: Identity,
        encoded: &[u8],
    ) -> Result<Result<Option<Record>, IsDamaged>, StoreError> {
        let Ok(key) = KeyRef::decode(encoded) else {
            self.note_damage(&self.damaged("its name can't be read"));
            return Ok(Err(IsDamaged));
        };
        let at = RecordAt { key, encoded, identity, partition };
        Ok(match self.find_uncached(&at)? {
            FoundRecord::Present(record) => Ok(self.shown(record)),
            FoundRecord::Damaged(_) => Err(IsDamaged),
            FoundRecord::Absent | FoundRecord::WouldBlock => Ok(None),
        })
    }

    /// Heads of a partition from an identity on, about `limit` of them, but all of one identity together.
    /// Damaged records are listed separately.
    pub(super) fn walk(
        &self,
        partition: Partition,
        from: Identity,
        limit: usize,
    ) -> Result<HashWalk, StoreError> {
        let end = records_end(partition, self.partition(partition).epoch());
        let mut start = Bytes::from(self.place_of(partition, from));
        let mut walk = HashWalk { records: Vec::new(), damaged: Vec::new(), next: None };
        let mut is_last = false;
        loop {
            let range = ScanRange {
                space: Space::Records,
                from: &start,
                to: Some(&end),
                value_bytes_max: HEAD_BYTES,
            };
            let scanned = self.overlay.scan(range, if is_last { 1 } else { limit })?;
            for (key, value) in &scanned.entries {
                let Some(RecordKey { identity, encoded, .. }) = RecordKey::read(key) else {
                    continue;
                };
                let is_other = walk.records.last().is_some_and(|last| last.identity != identity);
                if is_last && is_other {
                    walk.next = Some(identity);
                    return Ok(walk);
                }
                match ValueHead::read(key, value) {
                    Ok(head) => {
                        let encoded = Bytes::copy_from_slice(encoded);
                        walk.records.push(WalkedRecord { identity, encoded, head });
                    }
                    Err(reason) => {
                        self.found_damage.note(partition, Tag::of(identity));
                        self.note_damage(&self.damaged(reason));
                        walk.damaged.push(identity);
                    }
                }
            }
            let Some(next) = scanned.next else { return Ok(walk) };
            start = next;
            // Continues to the last record of the identity.
            is_last = walk.records.len() >= limit;
        }
    }
}

impl Keys for StoreShared {
    fn live_place(&self, known_key: &KnownKey) -> Result<Option<DataLocation>, StoreError> {
        let epoch = self.partition(known_key.partition).epoch();
        let name = known_key.at(|at| name_key(at.key, at.partition, epoch));
        let Some(stored) = self.overlay.get(Space::Names, &name)? else { return Ok(None) };
        let (_, meta) = self.named(&name, &stored)?;
        Ok((!self.is_expired(&meta)).then_some(known_key.place))
    }

    fn live_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<KnownKey>, StoreError> {
        let mut from = names_from(range_start(range));
        if let Some(after) = after {
            from = from.max(names_after_bucket(after));
        }
        let mut found = Vec::new();
        let mut look = FIRST_LOOK;
        while found.len() < limit {
            let names = ScanRange {
                space: Space::Names,
                from: &from,
                to: None,
                value_bytes_max: usize::MAX,
            };
            let scanned = self.overlay.scan(names, look)?;
            let mut first = None;
            for (stored, value) in &scanned.entries {
                let (name, meta) = self.named(stored, value)?;
                if !range_contains(range, name.key()) {
                    return Ok(found);
                }
                if self.is_live(&name, &meta) {
                    first = Some(name);
                    break;
                }
            }
            if let Some(name) = first {
                from = names_after_bucket(name.key().bucket);
                found.push(known_key_of(name.key(), name.partition));
                look = FIRST_LOOK;
            } else if let Some(next) = scanned.next {
                from = next.to_vec();
                look = (look * 4).min(LOOKED_AT_MIN);
            } else {
                break;
            }
        }
        Ok(found)
    }
}

/// The known key of a record, by the record's name.
pub(super) fn known_key_of(key: KeyRef<'_>, partition: Partition) -> KnownKey {
    let encoded = Bytes::copy_from_slice(&key.encoded());
    // Names are stored without the identity. It does not depend on the placement rule, and `live_place`
    // finds the record by its name.
    let identity = KeyHash::of(&encoded, key.bucket, PlacementRule::BucketAndKey).identity;
    KnownKey { encoded, identity, partition, place: DataLocation::default() }
}
