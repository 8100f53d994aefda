//! Listings of keys and buckets from key files, and folds over a partition in hash order.

use super::point::meta_of;
use super::read::{DamagedRecord, Entries, LoadedRecord, Lookup, ReadPart};
use super::store::{LogStore, place_of};
use crate::buckets::{Keys, KnownKey};
use crate::engine::{
    DataLocation, IoMode, KeyPage, KeyRange, Record, RecordAt, RecordMeta, RecordPage,
    listing_place,
};
use crate::error::StoreError;
use crate::expired::after_expiry;
use crate::index::{IndexEntry, Tag};
use crate::keyfile::{KeyListing, KeySource, MergedEntry, WriteKind};
use bytes::Bytes;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::BucketRef;
use quoit_seam::yield_to_requests;

/// Maximum number of keys that a listing looks at for each requested key (at least 1 024 in all). The bound
/// keeps a page from taking long when most keys were removed.
pub(super) const LOOKED_AT_PER_KEY: usize = 16;

/// Number of keys after which a listing yields to other threads: about a hundred microseconds.
pub(super) const LOOKED_AT_AT_ONCE: usize = 64;

/// Minimum of the bound on the index entries that a fold looks at while it holds the partition's lock. The
/// bound is the larger of this number and the limit of the page; this many entries take some ten
/// microseconds. It matters if few of many entries are wanted.
const FOLDED_MIN: usize = 4_096;

impl LogStore {
    /// All sources of keys. A key that exists during the whole call is in one of them.
    pub(super) fn key_sources(&self) -> Vec<KeySource> {
        // The order matters: a segment is closed, then gets its key file, and only then its keys leave
        // memory.
        let in_memory = self.log.keys();
        let files: Vec<_> = self.key_files.lock().values().cloned().collect();
        let runs = in_memory.iter().flat_map(|keys| keys.runs()).map(KeySource::Run);
        runs.chain(files.into_iter().map(KeySource::File)).collect()
    }

    pub(super) fn list_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<KeyPage, StoreError> {
        self.check_open()?;
        let after = listing_place(after)?;
        let mut listing = KeyListing::new(self.key_sources(), range, after)?;
        let mut page = KeyPage::default();
        let looked_at_max = limit.saturating_mul(LOOKED_AT_PER_KEY).max(1_024);
        let mut looked_at = 0;
        while let Some(merged) = listing.next_entry()? {
            looked_at += 1;
            if looked_at % LOOKED_AT_AT_ONCE == 0 {
                yield_to_requests();
            }
            if let Some(meta) = self.live_meta(&merged)? {
                page.entries.push((Bytes::copy_from_slice(merged.entry.encoded), meta));
            }
            if page.entries.len() >= limit || looked_at >= looked_at_max {
                page.next = Some(Bytes::copy_from_slice(merged.entry.encoded));
                break;
            }
        }
        Ok(page)
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

    /// Metadata of a key that a key file names; `None` if the record no longer exists.
    fn live_meta(&self, merged: &MergedEntry<'_>) -> Result<Option<RecordMeta>, StoreError> {
        Ok(self.live_entry(merged)?.map(|(meta, _)| meta))
    }

    /// Like [`LogStore::live_meta`], with the record's index entry if the record is still at the position
    /// that the key file names.
    pub(super) fn live_entry(
        &self,
        merged: &MergedEntry<'_>,
    ) -> Result<Option<(RecordMeta, Option<IndexEntry>)>, StoreError> {
        let facts = &merged.entry.facts;
        if facts.kind != WriteKind::Put || usize::from(facts.partition.0) >= self.stripes.len() {
            return Ok(None);
        }
        let (entries, table) = {
            let index = self.stripe(facts.partition).read();
            let entries: Entries = index.candidates(Tag::of(facts.identity)).collect();
            (entries, self.table.load())
        };
        let is_here = |entry: &IndexEntry| {
            entry.location.segment() == merged.segment
                && entry.location.offset_bytes() == facts.offset_bytes
        };
        if entries.is_empty() {
            return Ok(None);
        }
        if let Some(entry) = entries.iter().find(|entry| is_here(entry)) {
            let is_live = !self.is_expired(&facts.meta);
            return Ok(is_live.then_some((facts.meta, Some(*entry))));
        }
        // The record was written again or moved by a merge since the sources were collected, or it was
        // removed and shares its tag with another key.
        let at = RecordAt {
            key: merged.entry.key,
            encoded: merged.entry.encoded,
            identity: facts.identity,
            partition: facts.partition,
        };
        match self.reader.find(&table, &entries, &at, ReadPart::Key, IoMode::Wait)? {
            Lookup::Present(_, stored) => {
                let meta = stored.header.meta;
                Ok((!self.is_expired(&meta)).then_some((meta, None)))
            }
            Lookup::Damaged(DamagedRecord { entry, .. }, error) => {
                self.note_damaged(facts.partition, entry.tag, &error);
                Ok(Some((meta_of(&entry), None)))
            }
            Lookup::Absent | Lookup::WouldBlock => Ok(None),
        }
    }

    pub(super) fn fold(
        &self,
        partition: Partition,
        from: Identity,
        limit: usize,
        tombstones_only: bool,
    ) -> Result<RecordPage, StoreError> {
        self.check_open()?;
        let (entries, next_tag, table) = {
            let index = self.stripe(partition).read();
            let is_wanted =
                |entry: &IndexEntry| !entry.is_piece() && (!tombstones_only || entry.tombstone);
            let entries = index.iter_from(Tag::of(from));
            let (entries, next) = match tombstones_only && index.tombstone_count() == 0 {
                true => (Vec::new(), None),
                false => take_whole_tags(entries, is_wanted, limit.max(1)),
            };
            (entries, next, self.table.load())
        };
        let mut found: Vec<(Identity, Bytes, Record)> = Vec::with_capacity(entries.len());
        let mut damaged = Vec::new();
        for entry in &entries {
            match self.reader.load(&table, entry, 0, ReadPart::Whole, IoMode::Wait)? {
                LoadedRecord::Stored(stored) => {
                    let (meta, identity) = (stored.header.meta, stored.header.identity);
                    let (key, record) = stored.into_key_and_record();
                    let shown = match self.is_expired(&meta) {
                        true => after_expiry(&record),
                        false => Some(record),
                    };
                    if let Some(record) = shown.filter(|_| identity >= from) {
                        found.push((identity, key, record));
                    }
                }
                LoadedRecord::Damaged(error) => {
                    self.note_damaged(partition, entry.tag, &error);
                    damaged.push(entry.tag);
                }
                LoadedRecord::WouldBlock => {}
            }
        }
        damaged.dedup();
        found.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        Ok(RecordPage {
            entries: found.into_iter().map(|(_, key, record)| (key, record)).collect(),
            damaged,
            next: next_tag.map(Tag::identity_min),
        })
    }
}

impl Keys for LogStore {
    fn live_place(&self, known_key: &KnownKey) -> Result<Option<DataLocation>, StoreError> {
        let (entries, table) = {
            let index = self.stripe(known_key.partition).read();
            let entries: Entries = index.candidates(Tag::of(known_key.identity)).collect();
            (entries, self.table.load())
        };
        let is_here = |entry: &&IndexEntry| place_of(entry.location) == known_key.place;
        if let Some(entry) = entries.iter().find(is_here)
            && !entry.expires
        {
            return Ok(Some(known_key.place));
        }
        let find = known_key
            .at(|at| self.reader.find(&table, &entries, at, ReadPart::Key, IoMode::Wait))?;
        let (entry, meta) = match find {
            Lookup::Present(entry, stored) => (entry, stored.header.meta),
            Lookup::Damaged(DamagedRecord { entry, .. }, error) => {
                self.note_damaged(known_key.partition, entry.tag, &error);
                (entry, meta_of(&entry))
            }
            Lookup::Absent | Lookup::WouldBlock => return Ok(None),
        };
        Ok((!self.is_expired(&meta)).then(|| place_of(entry.location)))
    }

    fn live_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<KnownKey>, StoreError> {
        let mut listing = KeyListing::new(self.key_sources(), range, None)?;
        if let Some(after) = after {
            listing.skip_bucket(after)?;
        }
        let mut found = Vec::new();
        let mut looked_at = 0;
        while found.len() < limit {
            let Some(merged) = listing.next_entry()? else {
                break;
            };
            looked_at += 1;
            if looked_at % LOOKED_AT_AT_ONCE == 0 {
                yield_to_requests();
            }
            if self.live_meta(&merged)?.is_none() {
                continue;
            }
            let facts = &merged.entry.facts;
            let known_key = KnownKey {
                encoded: Bytes::copy_from_slice(merged.entry.encoded),
                identity: facts.identity,
                partition: facts.partition,
                place: DataLocation {
                    engine: 0,
                    segment: merged.segment,
                    offset: facts.offset_bytes,
                },
            };
            known_key.at(|at| listing.skip_bucket(at.key.bucket))?;
            found.push(known_key);
        }
        Ok(found)
    }
}

/// The wanted entries among the next ones, at most `limit` but all of one tag together, and the tag from
/// which the next call continues. Returns fewer if [`FOLDED_MIN`] stops it.
fn take_whole_tags(
    entries: impl Iterator<Item = IndexEntry>,
    is_wanted: impl Fn(&IndexEntry) -> bool,
    limit: usize,
) -> (Vec<IndexEntry>, Option<Tag>) {
    let mut taken: Vec<IndexEntry> = Vec::new();
    let mut last_tag = None;
    for (looked_at, entry) in entries.enumerate() {
        let is_full = taken.len() >= limit || looked_at >= limit.max(FOLDED_MIN);
        if is_full && last_tag.is_some_and(|last| last != entry.tag) {
            return (taken, Some(entry.tag));
        }
        last_tag = Some(entry.tag);
        if is_wanted(&entry) {
            taken.push(entry);
        }
    }
    (taken, None)
}
