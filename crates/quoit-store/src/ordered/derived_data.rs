//! Comparison of names and index entries with their records, and repair of differences.
//!
//! A record without its name is missing in listings, and a record without an index entry is missing in
//! queries, though it can be read. Replicas compare only records, so no other check would notice that. A
//! name without its record may be all that is left of a lost record.

use super::backend::Space;
use super::keys::{IndexKey, NameKey, expiry_key, index_key, name_key};
use super::list::known_key_of;
use super::overlay::ScanRange;
use super::point::{FoundRecord, RecordPart};
use super::store::StoreShared;
use super::tallies::SpaceWrites;
use super::value::encode_meta;
use crate::buckets::KnownKey;
use crate::engine::{DataLocation, IoMode, RecordAt, RecordMeta, Verified};
use crate::error::StoreError;
use crate::index::Tag;
use crate::index_page::places_of;
use bytes::Bytes;
use quoit_model::hash::Partition;
use quoit_model::key::BucketRef;
use quoit_model::secondary_index::record_of_place;

/// Number of entries that are read at once.
const READ_COUNT: usize = 64;

/// Number of bytes that a lookup in another space counts as.
pub(super) const LOOK_BYTES: u64 = 512;

impl StoreShared {
    /// Adds the entries that a record should have and lacks to `stored`.
    pub(super) fn stage_missing(
        &self,
        at: &RecordAt<'_>,
        meta: &RecordMeta,
        stored: &mut SpaceWrites,
    ) -> Result<(), StoreError> {
        let epoch = self.partition(at.partition).epoch();
        let record_key = self.key_of(at);
        let mut wanted: Vec<(Space, Bytes, Bytes)> = Vec::new();
        let of_name = Bytes::copy_from_slice(&encode_meta(meta));
        wanted.push((Space::Names, name_key(at.key, at.partition, epoch), of_name));
        if meta.expires_at_secs != 0 {
            let key = expiry_key(meta.expires_at_secs, &record_key);
            wanted.push((Space::Side, key, Bytes::new()));
        }
        if meta.indexed {
            let expiry = Bytes::copy_from_slice(&meta.expires_at_secs.to_be_bytes());
            let places = match self.find_uncached(at)? {
                FoundRecord::Present(record) => places_of(at.key, &record.meta, &record.value),
                _ => Ok(Vec::new()),
            };
            for place in places.unwrap_or_default() {
                let key = index_key(&place, at.partition, epoch);
                wanted.push((Space::Indexes, key, expiry.clone()));
            }
        }
        for (space, key, value) in wanted {
            let found = match self.overlay.get(space, &key) {
                // An entry that cannot be read is written again.
                Err(StoreError::Corrupt { .. }) => None,
                found => found?,
            };
            if found.as_ref() != Some(&value) {
                stored.push((space, key, Some(value)));
            }
        }
        Ok(())
    }

    /// Writes the entries that a record lacks.
    pub(super) fn repair_entries(
        &self,
        at: &RecordAt<'_>,
        meta: &RecordMeta,
    ) -> Result<(), StoreError> {
        let mut stored = SpaceWrites::new();
        self.stage_missing(at, meta, &mut stored)?;
        if stored.is_empty() {
            return Ok(());
        }
        // The record may have changed between the lookups, so they are repeated while its partition is
        // locked.
        let _changing = self.begin_change(at.partition, IoMode::Wait)?;
        let FoundRecord::Present(record) = self.find(at, RecordPart::Head, IoMode::Wait)? else {
            return Ok(());
        };
        stored.clear();
        self.stage_missing(at, &record.meta, &mut stored)?;
        if !stored.is_empty() {
            self.note_damage(
                &self.damaged("its name or index entries were gone, and are made again"),
            );
            self.submit(stored);
            if !record.meta.is_piece() {
                self.buckets.note(at, DataLocation::default());
            }
        }
        Ok(())
    }

    /// Verifies some names or index entries from a key on, and removes those without a record. Returns the
    /// key from which the next call continues.
    pub(super) fn verify_derived(
        &self,
        space: Space,
        from: &Bytes,
        verified: &mut Verified,
    ) -> Result<Option<Bytes>, StoreError> {
        let range = ScanRange { space, from, to: None, value_bytes_max: 0 };
        let scanned = match self.overlay.scan(range, READ_COUNT) {
            // Damage cannot be skipped here. Listings and queries report it.
            Err(error @ StoreError::Corrupt { .. }) => {
                self.note_damage(&error);
                return Ok(None);
            }
            scanned => scanned?,
        };
        for (key, _) in &scanned.entries {
            verified.byte_count += key.len() as u64 + LOOK_BYTES;
            let Some(owner) = self.owner_of(space, key) else { continue };
            let is_stray =
                self.is_stray(space, key, &owner)? && self.remove_stray(space, key, &owner)?;
            // Another replica may have the record. A record has several index entries but one name, so only
            // the name reports it.
            if space == Space::Names && (is_stray || self.is_unreadable(&owner)?) {
                verified.damaged.push((owner.partition, Tag::of(owner.identity)));
            }
        }
        Ok(scanned.next)
    }

    /// The record of a name or an index entry, if the entry is of the current epoch. Entries of former
    /// epochs are removed with their records.
    pub(super) fn owner_of(&self, space: Space, key: &[u8]) -> Option<KnownKey> {
        let is_current = |partition: Partition, epoch| {
            let state = self.partitions.get(usize::from(partition.0));
            state.is_some_and(|state| state.epoch() == epoch)
        };
        if space == Space::Names {
            let name = NameKey::read(key)?;
            return is_current(name.partition, name.epoch)
                .then(|| known_key_of(name.key(), name.partition));
        }
        let IndexKey { place, partition, epoch } = IndexKey::read(key)?;
        let [bucket_type, bucket, name] = record_of_place(place)?;
        let name = BucketRef { bucket_type: &bucket_type, bucket: &bucket }.key(&name);
        is_current(partition, epoch).then(|| known_key_of(name, partition))
    }

    /// True if the record of a name or an index entry does not exist or does not have it. False if the
    /// record cannot be read.
    pub(super) fn is_stray(
        &self,
        space: Space,
        key: &[u8],
        owner: &KnownKey,
    ) -> Result<bool, StoreError> {
        owner.at(|at| {
            if space == Space::Names {
                return Ok(matches!(
                    self.find(at, RecordPart::Head, IoMode::Wait)?,
                    FoundRecord::Absent
                ));
            }
            let place = IndexKey::read(key).map(|entry| entry.place);
            Ok(match self.find_uncached(at)? {
                FoundRecord::Absent => true,
                FoundRecord::Present(record) => places_of(at.key, &record.meta, &record.value)
                    .is_ok_and(|places| !places.iter().any(|each| Some(&each[..]) == place)),
                FoundRecord::Damaged(_) | FoundRecord::WouldBlock => false,
            })
        })
    }

    /// True if a record is in an unreadable part of the store, where walks over all records miss it.
    fn is_unreadable(&self, owner: &KnownKey) -> Result<bool, StoreError> {
        match owner.at(|at| self.overlay.get(Space::Records, &self.key_of(at))) {
            Err(StoreError::Corrupt { .. }) => Ok(true),
            found => found.map(|_| false),
        }
    }

    fn remove_stray(
        &self,
        space: Space,
        key: &Bytes,
        owner: &KnownKey,
    ) -> Result<bool, StoreError> {
        let _changing = self.begin_change(owner.partition, IoMode::Wait)?;
        let is_stray = self.is_stray(space, key, owner)?;
        if is_stray {
            self.note_damage(&self.damaged("it is gone, and its name or an index entry is left"));
            self.submit(vec![(space, key.clone(), None)]);
        }
        Ok(is_stray)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::engine::{BatchWrite, KeyRange};
    use crate::ordered::keys::{Epoch, mark_key};
    use crate::ordered::test_store::{BUCKET, open, with};

    const EXPIRES_AT_SECS: u32 = 1_800_000_000;

    fn put(store: &StoreShared, name: &str) {
        let meta =
            RecordMeta { digest: 5, expires_at_secs: EXPIRES_AT_SECS, ..RecordMeta::default() };
        with(name, |at| {
            store.batch(&[BatchWrite::Put { at: *at, meta, value: b"value" }]).unwrap()
        });
    }

    fn names(store: &StoreShared) -> Vec<String> {
        let page = store.list_keys(KeyRange::All, None, 1_000).unwrap();
        let name = |encoded: &Bytes| {
            let key = quoit_model::key::KeyRef::decode(encoded).unwrap().key.to_vec();
            String::from_utf8(key).unwrap()
        };
        page.entries.iter().map(|(encoded, _)| name(encoded)).collect()
    }

    /// Verifies everything, in parts. Returns the records that were reported as damaged.
    fn verify(store: &StoreShared) -> Vec<(Partition, Tag)> {
        let (mut damaged, mut next) = (Vec::new(), None);
        loop {
            let verified = store.verify(next, 700).unwrap();
            damaged.extend(verified.damaged);
            match verified.next {
                Some(place) => next = Some(place),
                None => return damaged,
            }
        }
    }

    #[test]
    fn verification_makes_entries_again_that_a_record_lacks() {
        let store = open();
        let all: Vec<String> = (0..200).map(|number| format!("key{number:03}")).collect();
        all.iter().for_each(|name| put(&store, name));
        store.sync().unwrap();
        assert_eq!(verify(&store), []);
        assert_eq!(store.corrupt_records.load(std::sync::atomic::Ordering::Relaxed), 0);

        let (name, expiry) = with("key007", |at| {
            let name = name_key(at.key, at.partition, Epoch::default());
            (name, expiry_key(EXPIRES_AT_SECS, &store.key_of(at)))
        });
        let lost = vec![(Space::Names, name, None), (Space::Side, expiry.clone(), None)];
        store.submit(lost);
        store.sync().unwrap();
        assert_eq!(names(&store).len(), 199);
        assert!(!names(&store).contains(&"key007".to_owned()));
        assert_eq!(verify(&store), [], "nobody else has to help");
        assert!(names(&store).contains(&"key007".to_owned()));
        assert!(store.overlay.get(Space::Side, &expiry).unwrap().is_some());
        assert!(store.overlay.get(Space::Side, &mark_key()).unwrap().is_some());
    }

    #[test]
    fn a_name_without_its_record_is_removed_and_the_record_is_asked_for() {
        let store = open();
        ["one", "other"].iter().for_each(|name| put(&store, name));
        let lost = with("other", |at| {
            store.submit(vec![(Space::Records, store.key_of(at), None)]);
            (at.partition, Tag::of(at.identity))
        });
        store.sync().unwrap();
        assert_eq!(names(&store), ["one", "other"]);
        assert_eq!(verify(&store), [lost]);
        assert_eq!(names(&store), ["one"]);
    }

    #[test]
    fn an_index_entry_that_no_record_has_is_removed() {
        let store = open();
        put(&store, "one");
        // The record has no index entries.
        let terms = quoit_model::object::IndexTerm::integer(7);
        let entry =
            quoit_model::object::IndexEntry { field: Bytes::from_static(b"n_int"), term: terms };
        let place = quoit_model::secondary_index::places(&[entry], BUCKET.key(b"one")).unwrap();
        let key = with("one", |at| index_key(&place[0], at.partition, Epoch::default()));
        store.submit(vec![(Space::Indexes, key.clone(), Some(Bytes::from_static(&[0; 4])))]);
        store.sync().unwrap();
        assert_eq!(verify(&store), [], "the record is there");
        assert_eq!(store.overlay.get(Space::Indexes, &key).unwrap(), None);
        assert_eq!(names(&store), ["one"]);
    }
}
