//! Rebuilding of the data that is derived from records: names, index entries, marks of expiry, counts and
//! digests.
//!
//! All entries of a write are in one batch, and losing the batch loses all of them. But each space has
//! tables of its own, and some of them may already have had their part of the batch. And counts and digests
//! are stored as totals, so later ones include the lost writes. So after a loss all derived data is checked
//! against the records.

use super::backend::Space;
use super::keys::{RecordKey, records_end};
use super::overlay::ScanRange;
use super::store::StoreShared;
use super::tallies::{SpaceWrites, Tallies};
use super::value::{HEAD_BYTES, ValueHead};
use crate::engine::RecordAt;
use crate::error::StoreError;
use crate::index::Tag;
use bytes::Bytes;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::KeyRef;

/// Number of entries that are read at once.
const READ_COUNT: usize = 1_024;

impl StoreShared {
    /// Rebuilds all data that is derived from records, durably. Reads the whole store. No other call may
    /// use the store meanwhile. `are_sums_known` is true if all stored counts could be read.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub(super) fn rebuild_derived(&self, are_sums_known: bool) -> Result<(), StoreError> {
        tracing::warn!(
            path = self.path,
            "names, index entries and counts are made again from records"
        );
        let mut made_count = 0;
        for number in (0..).take(self.partitions.len()) {
            made_count += self.rebuild_partition(Partition(number), are_sums_known)?;
            let total_count = self.partitions.len() as u64;
            self.settings.watch.partitions_rebuilt(u64::from(number) + 1, total_count);
        }
        let removed_count =
            self.remove_strays(Space::Names)? + self.remove_strays(Space::Indexes)?;
        self.sync_at_last()?;
        tracing::warn!(
            path = self.path,
            made_count,
            removed_count,
            "names, index entries and counts fit the records"
        );
        Ok(())
    }

    /// Adds the entries that the records of a partition lack, and counts the records. Returns the number of
    /// added entries.
    fn rebuild_partition(
        &self,
        partition: Partition,
        are_sums_known: bool,
    ) -> Result<u64, StoreError> {
        let epoch = self.partition(partition).epoch();
        let end = records_end(partition, epoch);
        let mut tallies = Tallies::new(partition, self.settings.ring_size);
        let mut made_count = 0;
        let mut from = Some(Bytes::from(self.place_of(partition, Identity(0))));
        while let Some(start) = from {
            let range = ScanRange {
                space: Space::Records,
                from: &start,
                to: Some(&end),
                value_bytes_max: HEAD_BYTES,
            };
            let scanned = match self.overlay.scan(range, READ_COUNT) {
                Err(error @ StoreError::Corrupt { .. }) => {
                    self.note_damage(&error);
                    from = self.behind_damage(partition, &start);
                    continue;
                }
                scanned => scanned?,
            };
            for (key, value) in &scanned.entries {
                let read = RecordKey::read(key);
                let named = read.and_then(|read| Some((read, KeyRef::decode(read.encoded).ok()?)));
                let Some((RecordKey { identity, encoded, .. }, name)) = named else { continue };
                let at = RecordAt { key: name, encoded, identity, partition };
                match ValueHead::read(key, value) {
                    Ok(head) => {
                        tallies.add(identity, &head.meta);
                        let mut stored = SpaceWrites::new();
                        self.stage_missing(&at, &head.meta, &mut stored)?;
                        made_count += stored.len() as u64;
                        self.write_rebuilt(stored)?;
                    }
                    // Counted with this metadata, because the write that replaces the record will subtract
                    // the same.
                    Err(_) => {
                        self.found_damage.note(partition, Tag::of(identity));
                        let meta = self.known_by_name(&at);
                        meta.inspect(|meta| tallies.add(identity, meta));
                    }
                }
            }
            from = scanned.next;
        }
        let mut stored = SpaceWrites::new();
        let mut former = self.partition(partition).tallies.write();
        tallies.replace(&mut former, are_sums_known, &mut stored);
        drop(former);
        self.write_rebuilt(stored)?;
        Ok(made_count)
    }

    /// Key at which records continue after an unreadable part: that of the next tally bucket.
    fn behind_damage(&self, partition: Partition, start: &[u8]) -> Option<Bytes> {
        let tag = Tag::of(RecordKey::read(start)?.identity);
        let next = self.partition(partition).tallies.read().bucket_end(tag)?;
        Some(Bytes::from(self.place_of(partition, next.identity_min())))
    }

    /// Removes the names or the index entries without a record. Returns their number.
    fn remove_strays(&self, space: Space) -> Result<u64, StoreError> {
        let mut removed_count = 0;
        let mut from = Some(Bytes::new());
        while let Some(start) = from {
            let range = ScanRange { space, from: &start, to: None, value_bytes_max: 0 };
            let scanned = match self.overlay.scan(range, READ_COUNT) {
                // Reads of that part will fail.
                Err(error @ StoreError::Corrupt { .. }) => {
                    self.note_damage(&error);
                    break;
                }
                scanned => scanned?,
            };
            for (key, _) in &scanned.entries {
                let Some(owner) = self.owner_of(space, key) else { continue };
                if self.is_stray(space, key, &owner)? {
                    removed_count += 1;
                    self.write_rebuilt(vec![(space, key.clone(), None)])?;
                }
            }
            from = scanned.next;
        }
        Ok(removed_count)
    }

    fn write_rebuilt(&self, stored: SpaceWrites) -> Result<(), StoreError> {
        if !stored.is_empty() {
            self.submit(stored);
        }
        if self.overlay.waiting_bytes() > self.settings.waiting_bytes_max {
            self.sync_at_last()?;
        }
        Ok(())
    }
}
