//! Reads and changes of single records.

use super::indexes::EntryChange;
use super::log::Appended;
use super::read::{DamagedRecord, Entries, Lookup, ReadPart, StoredRecord};
use super::record::{self, HEADER_BYTES, RECORD_BYTES_MAX, RecordHeader, RecordKind};
use super::store::{HeldRecord, LogStore, entry_of};
use super::synced::SyncedDistance;
use crate::engine::{
    Applied, BeforeImage, ChangeFn, Decision, Fetch, InPlaceRead, IoMode, LargeChange, Record,
    RecordAt, RecordMeta, RecordRef, Ticket,
};
use crate::error::StoreError;
use crate::expired::after_expiry;
use crate::index::{IndexEntry, Tag};
use crate::index_page::places_of;
use bytes::Bytes;
use quoit_number::length_u32;
use quoit_planted::planted;
use std::cell::Cell;

/// A thread keeps its write buffer between writes unless it has grown beyond this size in bytes.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Result of looking for a record.
enum PointLookup {
    Missing,
    Found(StoredRecord),
    /// The record has expired, and this tombstone replaces it.
    Expired(Record),
    WouldBlock,
}

/// A stored record in the form that a change function sees.
enum ExistingRecord {
    Stored(StoredRecord),
    /// The tombstone that replaces an expired record.
    Expired(Record),
}

impl ExistingRecord {
    /// The tombstone, if the record has expired.
    fn tombstone(&self) -> Option<Record> {
        match self {
            Self::Stored(_) => None,
            Self::Expired(tombstone) => Some(tombstone.clone()),
        }
    }

    fn shown(self, look: &mut dyn FnMut(&RecordRef<'_>)) {
        match self {
            Self::Stored(stored) => stored.shown(look),
            Self::Expired(record) => look(&RecordRef::shared(&record)),
        }
    }
}

impl LogStore {
    pub(super) fn get(&self, at: &RecordAt<'_>, access: IoMode) -> Result<Fetch, StoreError> {
        Ok(match self.find(at, access)? {
            PointLookup::Missing => Fetch::Missing,
            PointLookup::Found(stored) => Fetch::Found(stored.into_record()),
            PointLookup::Expired(record) => Fetch::Found(record),
            PointLookup::WouldBlock => Fetch::WouldBlock,
        })
    }

    pub(super) fn show(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
        look: &mut dyn FnMut(&RecordRef<'_>),
    ) -> Result<InPlaceRead, StoreError> {
        Ok(match self.find(at, access)? {
            PointLookup::Missing => InPlaceRead::Missing,
            PointLookup::Found(stored) => {
                stored.shown(look);
                InPlaceRead::Found
            }
            PointLookup::Expired(record) => {
                look(&RecordRef::shared(&record));
                InPlaceRead::Found
            }
            PointLookup::WouldBlock => InPlaceRead::WouldBlock,
        })
    }

    /// Shows a record; an expired one is missing. May wait for the disk.
    pub(super) fn show_unexpired(
        &self,
        at: &RecordAt<'_>,
        look: &mut dyn FnMut(&RecordRef<'_>),
    ) -> Result<InPlaceRead, StoreError> {
        Ok(match self.find(at, IoMode::Wait)? {
            PointLookup::Found(stored) => {
                stored.shown(look);
                InPlaceRead::Found
            }
            PointLookup::Missing | PointLookup::Expired(_) | PointLookup::WouldBlock => {
                InPlaceRead::Missing
            }
        })
    }

    /// Finds a record, or the tombstone that replaces it after its expiry.
    fn find(&self, at: &RecordAt<'_>, access: IoMode) -> Result<PointLookup, StoreError> {
        self.check_open()?;
        let (entries, table) = {
            let index = self.stripe(at.partition).read();
            let entries: Entries = index.candidates(Tag::of(at.identity)).collect();
            if entries.is_empty() {
                return Ok(PointLookup::Missing);
            }
            // Loaded under the stripe's lock: a segment leaves the table only after its entries have left
            // the index, so every entry's segment is in this table.
            (entries, self.table.load())
        };
        match self.reader.find(&table, &entries, at, ReadPart::Whole, access)? {
            Lookup::Absent => Ok(PointLookup::Missing),
            Lookup::WouldBlock => Ok(PointLookup::WouldBlock),
            Lookup::Damaged(DamagedRecord { entry, .. }, error) => {
                self.note_damaged(at.partition, entry.tag, &error);
                Err(error)
            }
            Lookup::Present(_, stored) if self.is_expired(&stored.header.meta) => {
                Ok(after_expiry(&stored.into_record())
                    .map_or(PointLookup::Missing, PointLookup::Expired))
            }
            Lookup::Present(_, stored) => Ok(PointLookup::Found(stored)),
        }
    }

    /// An upper bound of the bytes that a record takes in the log: the largest of the records with its tag.
    pub(super) fn size_bytes_max(&self, at: &RecordAt<'_>) -> Option<u64> {
        let index = self.stripe(at.partition).read();
        let candidates = index.candidates(Tag::of(at.identity));
        candidates.map(|entry| entry.size_class.size_bytes_max()).max()
    }

    pub(super) fn head(&self, at: &RecordAt<'_>) -> Result<Option<RecordMeta>, StoreError> {
        self.check_open()?;
        let (entries, table) = {
            let index = self.stripe(at.partition).read();
            let entries: Entries = index.candidates(Tag::of(at.identity)).collect();
            if entries.is_empty() {
                return Ok(None);
            }
            if let [entry] = entries[..]
                && !entry.expires
            {
                return Ok(Some(meta_of(&entry)));
            }
            (entries, self.table.load())
        };
        match self.reader.find(&table, &entries, at, ReadPart::Key, IoMode::Wait)? {
            Lookup::Present(_, stored) if self.is_expired(&stored.header.meta) => {
                match self.get(at, IoMode::Wait)? {
                    Fetch::Found(record) => Ok(Some(record.meta)),
                    Fetch::Missing | Fetch::WouldBlock => Ok(None),
                }
            }
            Lookup::Present(_, stored) => Ok(Some(stored.header.meta)),
            Lookup::Absent | Lookup::WouldBlock => Ok(None),
            Lookup::Damaged(DamagedRecord { entry, .. }, error) => {
                self.note_damaged(at.partition, entry.tag, &error);
                Err(error)
            }
        }
    }

    pub(super) fn update(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        access: IoMode,
        change: &mut ChangeFn<'_>,
    ) -> Result<Applied, StoreError> {
        self.update_by(at, before, access, change, None)
    }

    /// As [`LogStore::update`], for a value whose end is written from a buffer of its own.
    pub(super) fn update_large(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        access: IoMode,
        change: &mut LargeChange<'_>,
    ) -> Result<Applied, StoreError> {
        let rest = Cell::new(Bytes::new());
        let mut change = |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
            let mut left_out = Bytes::new();
            let decision = change(stored, out, &mut left_out);
            rest.set(left_out);
            decision
        };
        self.update_by(at, before, access, &mut change, Some(&rest))
    }

    /// Updates a record. The value is what `change` appends to its buffer, and then the bytes that it
    /// leaves in `rest`.
    fn update_by(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        access: IoMode,
        change: &mut ChangeFn<'_>,
        rest: Option<&Cell<Bytes>>,
    ) -> Result<Applied, StoreError> {
        self.check_open()?;
        if !self.help_background_work(access)? {
            return Ok(Applied::WouldBlock);
        }
        let part = match before {
            BeforeImage::Read => ReadPart::Whole,
            BeforeImage::Front => ReadPart::Front,
            BeforeImage::Skip => ReadPart::Key,
        };
        let Some(mut found) = self.find_for_change(at, part, access)? else {
            return Ok(Applied::WouldBlock);
        };
        // The tombstone of an expired record is derived from the whole record.
        if part == ReadPart::Front
            && matches!(&found.lookup, Lookup::Present(_, stored) if self.is_expired(&stored.header.meta))
        {
            drop(found);
            let whole = self.find_for_change(at, ReadPart::Whole, access)?;
            let Some(whole) = whole else { return Ok(Applied::WouldBlock) };
            found = whole;
        }
        // The buffer is taken out, not borrowed: a change function that calls the engine gets another
        // buffer.
        let mut bytes = SCRATCH.take();
        let applied = self.apply(at, before, found, change, (&mut bytes, rest));
        if bytes.capacity() <= SCRATCH_BYTES_MAX {
            SCRATCH.set(bytes);
        }
        applied
    }

    #[expect(clippy::indexing_slicing, reason = "the value was appended at `value_at`")]
    fn apply(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        found: HeldRecord<'_>,
        change: &mut ChangeFn<'_>,
        (bytes, rest): (&mut Vec<u8>, Option<&Cell<Bytes>>),
    ) -> Result<Applied, StoreError> {
        let HeldRecord { stripe, candidate_count, lookup } = found;
        if let (Lookup::Damaged(_, error), true) = (&lookup, before != BeforeImage::Skip) {
            self.note_damage(error);
            return Err(error.clone());
        }
        let (old, stored) = self.old_of(lookup);
        let existing = self.existing(stored.filter(|_| before != BeforeImage::Skip));
        let left = existing.as_ref().and_then(ExistingRecord::tombstone);
        bytes.clear();
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend_from_slice(at.encoded);
        let value_at = bytes.len();
        let mut entries = EntryChange::default();
        let decision = decide(at, existing, change, bytes, &mut entries);
        assert!(bytes.len() >= value_at, "a change function only appends to its buffer");
        let is_kept = decision == Decision::Keep;
        let decision = or_tombstone(decision, left, bytes, value_at);
        let meta = match decision {
            Decision::Keep => return Ok(Applied::Kept),
            Decision::Put(meta) => meta,
            Decision::Remove if old.is_none() => return Ok(Applied::Kept),
            Decision::Remove => {
                bytes.truncate(value_at);
                RecordMeta::default()
            }
        };
        let rest = rest.and_then(|rest| rest_of(rest.take(), decision, is_kept, bytes));
        let rest_bytes = rest.as_ref().map_or(0, Bytes::len);
        check_size(bytes.len() + rest_bytes)?;
        if meta.indexed {
            entries.new = places_of(at.key, &meta, &bytes[value_at..])?;
            self.indexes.begin_use();
        }
        let header = RecordHeader {
            sequence: 0,
            kind: if decision == Decision::Remove { RecordKind::Remove } else { RecordKind::Put },
            replaces: old.is_some() && (before == BeforeImage::Read || !planted!(ReplacesSilently)),
            shares_tag: candidate_count > usize::from(old.is_some()),
            in_batch: false,
            partition: at.partition,
            identity: at.identity,
            key_bytes: at.encoded_bytes(),
            value_bytes: length_u32(bytes.len() - value_at + rest_bytes),
            meta: RecordMeta { n_val_class: meta.n_val_class.min(15), ..meta },
            synced: SyncedDistance::UNKNOWN,
        };
        let appended = match self.append(&header, bytes, rest.as_deref()) {
            // A later change or a merge will store the tombstone.
            Err(_) if is_kept => return Ok(Applied::Kept),
            appended => appended?,
        };
        match (header.kind, &old) {
            (RecordKind::Remove, Some(old)) => self.remove_entry(stripe, old, &header, &entries),
            _ => {
                let size = header.record_bytes();
                let new = entry_of(at.identity, &header.meta, appended.location, size);
                self.put_entry(stripe, at, old.as_ref(), new, &header, &entries);
            }
        }
        Ok(if is_kept { Applied::Kept } else { Applied::Written(Ticket(appended.sequence)) })
    }

    /// Appends a record to the log: `bytes`, and then `rest` from its own buffer.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "`bytes` begin with room for the header")]
    fn append(
        &self,
        header: &RecordHeader,
        bytes: &mut Vec<u8>,
        rest: Option<&[u8]>,
    ) -> Result<Appended, StoreError> {
        let (store_id, body) = (self.reader.store_id, &bytes[HEADER_BYTES..]);
        match rest {
            None => self.log.append(header, record::body_check(store_id, body), bytes),
            Some(rest) => {
                let check = record::body_check_of_parts(store_id, body, rest);
                self.log.append_large(header, check, bytes, rest)
            }
        }
    }

    /// A stored record in the form that a change function sees: the record, or the tombstone that replaces
    /// it after its expiry.
    fn existing(&self, stored: Option<StoredRecord>) -> Option<ExistingRecord> {
        let stored = stored?;
        match self.is_expired(&stored.header.meta) {
            true => after_expiry(&stored.into_record()).map(ExistingRecord::Expired),
            false => Some(ExistingRecord::Stored(stored)),
        }
    }

    /// The entry that a change replaces, and the record that it refers to if that is readable.
    pub(super) fn old_of(&self, lookup: Lookup) -> (Option<IndexEntry>, Option<StoredRecord>) {
        match lookup {
            Lookup::Present(entry, stored) => (Some(entry), Some(stored)),
            Lookup::Damaged(damaged, error) => {
                self.note_damage(&error);
                (damaged.replaced(), None)
            }
            Lookup::Absent | Lookup::WouldBlock => (None, None),
        }
    }
}

/// The metadata of a record that the index has: all but the time of expiry.
pub(super) fn meta_of(entry: &IndexEntry) -> RecordMeta {
    RecordMeta {
        digest: entry.digest,
        tombstone: entry.tombstone,
        n_val_class: entry.n_val_class,
        expires_at_secs: 0,
        indexed: entry.indexed,
    }
}

fn check_size(record_bytes: usize) -> Result<(), StoreError> {
    let (size_bytes, limit_bytes) = (record_bytes as u64, RECORD_BYTES_MAX);
    if size_bytes > limit_bytes {
        return Err(StoreError::TooLarge { size_bytes, limit_bytes });
    }
    Ok(())
}

/// The end of a new value that is written from its own buffer; `None` if `bytes` has the whole value.
fn rest_of(rest: Bytes, decision: Decision, is_kept: bool, bytes: &mut Vec<u8>) -> Option<Bytes> {
    match decision {
        // The index entries of a record are found in its whole value.
        Decision::Put(meta) if meta.indexed && !is_kept => {
            bytes.extend_from_slice(&rest);
            None
        }
        Decision::Put(_) if !is_kept && !rest.is_empty() => Some(rest),
        _ => None,
    }
}

/// The decision of a change function, except that keeping an expired record becomes storing its tombstone:
/// comparisons with other replicas see only what is stored.
fn or_tombstone(
    decision: Decision,
    left: Option<Record>,
    bytes: &mut Vec<u8>,
    value_at: usize,
) -> Decision {
    let Some(tombstone) = left.filter(|_| decision == Decision::Keep) else { return decision };
    bytes.truncate(value_at);
    bytes.extend_from_slice(&tombstone.value);
    Decision::Put(tombstone.meta)
}

/// Shows the stored record to a change function, and notes the record's index entries in `entries`.
fn decide(
    at: &RecordAt<'_>,
    existing: Option<ExistingRecord>,
    change: &mut ChangeFn<'_>,
    bytes: &mut Vec<u8>,
    entries: &mut EntryChange,
) -> Decision {
    let Some(stored) = existing else { return change(None, bytes) };
    let mut decision = Decision::Keep;
    stored.shown(&mut |record| {
        if record.meta.indexed && record.is_whole && !planted!(KeepsOldEntries) {
            // Encoding them cannot fail: it succeeded when the record was stored.
            entries.old = places_of(at.key, &record.meta, record.value).unwrap_or_default();
        }
        decision = change(Some(record), bytes);
    });
    decision
}
