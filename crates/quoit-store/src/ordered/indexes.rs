//! Secondary indexes: entries beside the records, written in the same batch.

use super::backend::Space;
use super::keys::{Epoch, IndexKey, RecordKey, SideKey, all_unread, index_key};
use super::overlay::ScanRange;
use super::point::{FoundRecord, RecordPart};
use super::store::StoreShared;
use super::tallies::SpaceWrites;
use crate::engine::{IndexPage, IoMode, Record, RecordAt, RecordMeta};
use crate::error::StoreError;
use crate::index_page::{IndexPageBuilder, places_of};
use bytes::Bytes;
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_model::secondary_index::{IndexPosition, IndexRange, bucket_span, record_of_place};

/// Number of entries that are read at once when the entries of a whole bucket are scanned.
const READ_COUNT: usize = 4_096;

/// The facts about a record that a write replaces.
#[derive(Default)]
pub(super) struct ReplacedRecord {
    /// `None` if there was no record, or if its head and its name are damaged.
    pub(super) meta: Option<RecordMeta>,
    /// Encoded index entries of the record.
    pub(super) places: Vec<Vec<u8>>,
}

impl StoreShared {
    /// The record that a write replaces, damaged or not; `None` if the call would have to wait and must
    /// not. Reads the body only if the record has index entries.
    pub(super) fn former(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
    ) -> Result<Option<ReplacedRecord>, StoreError> {
        match self.find(at, RecordPart::Head, access)? {
            FoundRecord::WouldBlock => Ok(None),
            FoundRecord::Absent => Ok(Some(ReplacedRecord::default())),
            FoundRecord::Present(record) if record.meta.indexed => {
                match self.find(at, RecordPart::Whole, access)? {
                    FoundRecord::WouldBlock => Ok(None),
                    FoundRecord::Absent => Ok(Some(ReplacedRecord::default())),
                    FoundRecord::Present(record) => Ok(Some(self.former_of(at, &record))),
                    FoundRecord::Damaged(_) => self.damaged_former(at, access),
                }
            }
            FoundRecord::Present(record) => {
                Ok(Some(ReplacedRecord { meta: Some(record.meta), places: Vec::new() }))
            }
            FoundRecord::Damaged(_) => self.damaged_former(at, access),
        }
    }

    /// The facts about a record that was read as a whole.
    pub(super) fn former_of(&self, at: &RecordAt<'_>, record: &Record) -> ReplacedRecord {
        // Encoding them cannot fail: it succeeded when the record was stored.
        let places = places_of(at.key, &record.meta, &record.value).unwrap_or_default();
        ReplacedRecord { meta: Some(record.meta), places }
    }

    /// The facts about a damaged record. Unless its name says that it has no index entries, scans all index
    /// entries of its bucket.
    fn damaged_former(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
    ) -> Result<Option<ReplacedRecord>, StoreError> {
        let meta = self.known_by_name(at);
        if meta.is_some_and(|meta| !meta.indexed) {
            return Ok(Some(ReplacedRecord { meta, places: Vec::new() }));
        }
        if access == IoMode::NoWait {
            return Ok(None);
        }
        let (mut next, end) = bucket_span(at.key.bucket);
        let epoch = self.partition(at.partition).epoch();
        let mut places = Vec::new();
        loop {
            let range = ScanRange {
                space: Space::Indexes,
                from: &next,
                to: Some(&end),
                value_bytes_max: 0,
            };
            let scanned = self.overlay.scan(range, READ_COUNT)?;
            for (key, _) in &scanned.entries {
                let of_record = IndexKey::read(key).filter(|entry| {
                    (entry.partition, entry.epoch) == (at.partition, epoch)
                        && record_of_place(entry.place).is_some_and(|[.., key]| key == at.key.key)
                });
                places.extend(of_record.map(|entry| entry.place.to_vec()));
            }
            let Some(after) = scanned.next else {
                return Ok(Some(ReplacedRecord { meta, places }));
            };
            next = after.to_vec();
        }
    }

    /// Replaces the index entries of a record. The new entries come last in the batch, so an entry that
    /// stays wins over its removal.
    pub(super) fn stage_entries(
        &self,
        partition: Partition,
        old: &[Vec<u8>],
        new: &[Vec<u8>],
        expires_at_secs: u32,
        stored: &mut SpaceWrites,
    ) {
        let epoch = self.partition(partition).epoch();
        for place in old {
            stored.push((Space::Indexes, index_key(place, partition, epoch), None));
        }
        for place in new {
            let value = Bytes::copy_from_slice(&expires_at_secs.to_be_bytes());
            stored.push((Space::Indexes, index_key(place, partition, epoch), Some(value)));
        }
    }

    pub(super) fn query_index(
        &self,
        range: &IndexRange<'_>,
        partitions: &dyn Fn(Partition) -> bool,
        after: Option<&IndexPosition>,
        limit: usize,
    ) -> Result<IndexPage, StoreError> {
        self.check_open()?;
        let span = range.span(after);
        let mut page = IndexPageBuilder::new(&span, partitions, limit);
        if span.is_empty() {
            return Ok(page.into_page());
        }
        if self.overlay.backend.can_repair() {
            self.check_unread(partitions)?;
        }
        let mut from = Bytes::copy_from_slice(span.from());
        loop {
            let range = ScanRange {
                space: Space::Indexes,
                from: &from,
                to: Some(span.end()),
                value_bytes_max: usize::MAX,
            };
            let scanned = self.overlay.scan(range, limit.clamp(16, READ_COUNT))?;
            for (key, value) in &scanned.entries {
                let entry = IndexKey::read(key).zip(value[..].try_into().ok());
                let Some((IndexKey { place, partition, epoch }, expires_at_secs)) = entry else {
                    let error = self.damaged("an index entry can't be read");
                    self.note_damage(&error);
                    return Err(error);
                };
                let is_live = || self.is_live_entry(partition, epoch, expires_at_secs);
                if !page.take(place, partition, is_live) {
                    return Ok(page.into_page());
                }
            }
            match scanned.next {
                Some(next) => from = next,
                None => return Ok(page.into_page()),
            }
        }
    }

    /// Fails if a wanted partition has a damaged record whose entries may be lost. Removes the marks of
    /// records of wanted partitions that were written again or removed.
    fn check_unread(&self, partitions: &dyn Fn(Partition) -> bool) -> Result<(), StoreError> {
        let (mut from, to) = all_unread();
        loop {
            let range =
                ScanRange { space: Space::Side, from: &from, to: Some(&to), value_bytes_max: 0 };
            let scanned = self.overlay.scan(range, READ_COUNT)?;
            let mut unread_count = 0;
            for (mark, _) in &scanned.entries {
                let Some(SideKey::Unread { record_key }) = SideKey::read(mark) else {
                    continue;
                };
                let Some(record) = RecordKey::read(record_key) else { continue };
                unread_count += u64::from(self.is_unread(&record, partitions, mark)?);
            }
            if unread_count > 0 {
                // The records of further marks need not be counted: the query fails already.
                let or_more = if scanned.next.is_some() { " or more" } else { "" };
                let reason = format!(
                    "{unread_count}{or_more} records that have entries are damaged; other replicas heal \
                     them, or write them again"
                );
                return Err(StoreError::IndexesUnavailable { reason });
            }
            match scanned.next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// True if the marked record is in a wanted partition and still damaged. Removes the mark if it is not
    /// needed any more.
    fn is_unread(
        &self,
        record: &RecordKey<'_>,
        partitions: &dyn Fn(Partition) -> bool,
        mark: &Bytes,
    ) -> Result<bool, StoreError> {
        let RecordKey { partition, epoch, identity, encoded } = *record;
        let Some(state) = self.partitions.get(usize::from(partition.0)) else { return Ok(false) };
        // The marks of a former epoch are removed with its records.
        if state.epoch() != epoch || !partitions(partition) {
            return Ok(false);
        }
        let Ok(key) = KeyRef::decode(encoded) else { return Ok(false) };
        let at = RecordAt { key, encoded, identity, partition };
        if matches!(self.find_uncached(&at)?, FoundRecord::Damaged(_)) {
            return Ok(true);
        }
        // While the store can't write, as with a full disk, the mark stays: queries need no write.
        if let Ok(_changing) = self.begin_change(partition, IoMode::Wait) {
            self.submit(vec![(Space::Side, mark.clone(), None)]);
        }
        Ok(false)
    }

    fn is_live_entry(&self, partition: Partition, epoch: Epoch, expires_at_secs: [u8; 4]) -> bool {
        let state = self.partitions.get(usize::from(partition.0));
        let expires_at_secs = u32::from_be_bytes(expires_at_secs);
        let meta = RecordMeta { expires_at_secs, ..RecordMeta::default() };
        state.is_some_and(|state| state.epoch() == epoch) && !self.is_expired(&meta)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::engine::BatchWrite;
    use crate::ordered::keys::{record_key, unread_key};
    use crate::ordered::test_store::{BUCKET, open, with};
    use quoit_model::hash::Identity;
    use quoit_model::object::IndexTerm;

    /// Marks this many records, which the store does not have, as damaged.
    fn mark(store: &StoreShared, partition: Partition, count: usize) {
        let encoded = BUCKET.key(b"gone").encoded();
        let epoch = store.partition(partition).epoch();
        let key = |number| record_key(partition, epoch, Identity(number as u64), &encoded);
        let mark = |number| (Space::Side, unread_key(&key(number)), Some(Bytes::new()));
        let marks = (0..count).map(mark);
        store.submit(marks.collect());
        store.sync().unwrap();
    }

    fn mark_count(store: &StoreShared) -> usize {
        let (from, to) = all_unread();
        let range =
            ScanRange { space: Space::Side, from: &from, to: Some(&to), value_bytes_max: 0 };
        store.overlay.scan(range, usize::MAX).unwrap().entries.len()
    }

    fn query(store: &StoreShared, wanted: Partition) -> Result<IndexPage, StoreError> {
        let (min, max) = (IndexTerm::integer(0), IndexTerm::integer(9));
        let range = IndexRange { bucket: BUCKET, field: b"n_int", min: &min, max: &max };
        store.query_index(&range, &|partition| partition == wanted, None, 10)
    }

    #[test]
    fn a_damaged_record_fails_queries_however_many_marks_are_before_its_mark() {
        let store = open();
        let damaged = with("one", |at| {
            let value = b"value";
            let meta = RecordMeta::default();
            store.batch(&[BatchWrite::Put { at: *at, meta, value }]).unwrap();
            let key = store.key_of(at);
            let mark = (Space::Side, unread_key(&key), Some(Bytes::new()));
            store.submit(vec![(Space::Records, key, Some(Bytes::from_static(b"no head"))), mark]);
            at.partition
        });
        let before = Partition(damaged.0 - 1);
        mark(&store, before, READ_COUNT + 100);
        let found = query(&store, damaged);
        assert!(matches!(found, Err(StoreError::IndexesUnavailable { .. })), "{found:?}");
        assert_eq!(query(&store, before).unwrap(), IndexPage::default());
        store.sync().unwrap();
        assert_eq!(mark_count(&store), 1, "the mark of the damaged record is left");
    }

    #[test]
    fn marks_of_a_dropped_partition_are_removed_with_its_records() {
        let store = open();
        mark(&store, Partition(3), 1_000);
        store.drop_partition(Partition(3)).unwrap();
        while store.remove_dropped().unwrap() {
            store.sync().unwrap();
        }
        assert_eq!(mark_count(&store), 0);
    }

    #[test]
    fn a_query_leaves_marks_of_former_epochs_as_they_are() {
        let store = open();
        mark(&store, Partition(3), 10);
        store.drop_partition(Partition(3)).unwrap();
        for wanted in [Partition(3), Partition(4)] {
            assert_eq!(query(&store, wanted).unwrap(), IndexPage::default());
        }
        store.sync().unwrap();
        assert_eq!(mark_count(&store), 10);
    }
}
