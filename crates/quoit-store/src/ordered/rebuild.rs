//! Makes again what is derived from records: names, index entries, marks of expiries, counts and digests.
//!
//! All entries of a write are in one batch, and a lost batch loses all of them. But each space has tables of
//! its own, some of which may have had a part of the batch, and counts and digests are stored as they were
//! after all changes before: later ones count what is lost. So after a loss nothing of that is believed.

use super::backend::Space;
use super::keys::{RecordKey, records_end};
use super::overlay::Range;
use super::store::StoreShared;
use super::tallies::{SpaceWrites, Tallies};
use super::value::{HEAD_BYTES, ValueHead};
use crate::engine::RecordAt;
use crate::error::StoreError;
use crate::index::Tag;
use bytes::Bytes;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::KeyRef;

/// Entries that are read at once.
const READ_COUNT: usize = 1_024;

impl StoreShared {
    /// Makes again all that is derived from records, durably. Reads all of the data. No other call may use
    /// the store meanwhile. `are_sums_known` says whether all counts that are stored could be read.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
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

    /// Adds the entries that the records of a partition lack, and counts the records. How many were added.
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
            let range = Range {
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
                    // It is counted out by that when it is replaced.
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

    /// Where records go on behind those from a place on that can't be read: the next bucket of hashes.
    fn behind_damage(&self, partition: Partition, start: &[u8]) -> Option<Bytes> {
        let tag = Tag::of(RecordKey::read(start)?.identity);
        let next = self.partition(partition).tallies.read().bucket_end(tag)?;
        Some(Bytes::from(self.place_of(partition, next.identity_min())))
    }

    /// Removes the names, or the index entries, that no record has. How many.
    fn remove_strays(&self, space: Space) -> Result<u64, StoreError> {
        let mut removed_count = 0;
        let mut from = Some(Bytes::new());
        while let Some(start) = from {
            let range = Range { space, from: &start, to: None, value_bytes_max: 0 };
            let scanned = match self.overlay.scan(range, READ_COUNT) {
                // A read there gets an error.
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
            self.hand_over(stored);
        }
        if self.overlay.waiting_bytes() > self.settings.waiting_bytes_max {
            self.sync_at_last()?;
        }
        Ok(())
    }
}
