//! Comparison of this engine's copies of partitions.

use super::read::{Entries, LoadedRecord, ReadPart};
use super::store::LogStore;
use crate::compare::{Digests, HashRange, LeafPage, Scope};
use crate::engine::Compare;
use crate::engine::{IoMode, Record};
use crate::error::StoreError;
use crate::expired::after_expiry;
use crate::index::Tag;
use bytes::Bytes;
use quoit_model::hash::Partition;

impl Compare for LogStore {
    fn digests(&self, partition: Partition, hour_min: u32) -> Result<Digests, StoreError> {
        self.check_open()?;
        Ok(self.stripe(partition).read().digests(hour_min))
    }

    fn range_digests(
        &self,
        partition: Partition,
        scope: Scope,
        ranges: &[HashRange],
    ) -> Result<Vec<u64>, StoreError> {
        self.check_open()?;
        // The lock is taken for each range, so that writers can run in between.
        let digest = |range: &HashRange| self.stripe(partition).read().range_digest(scope, *range);
        Ok(ranges.iter().map(digest).collect())
    }

    fn leaves(
        &self,
        partition: Partition,
        scope: Scope,
        range: HashRange,
        from: Tag,
        limit: usize,
    ) -> Result<LeafPage, StoreError> {
        self.check_open()?;
        Ok(self.stripe(partition).read().leaves(scope, range, from, limit))
    }

    fn tagged(
        &self,
        partition: Partition,
        tags: &[Tag],
    ) -> Result<Vec<(Bytes, Record)>, StoreError> {
        self.check_open()?;
        let mut records = Vec::with_capacity(tags.len());
        for tag in tags {
            let (entries, table) = {
                let index = self.stripe(partition).read();
                let entries: Entries =
                    index.candidates(*tag).filter(|entry| !entry.is_piece()).collect();
                (entries, self.table.load())
            };
            for entry in &entries {
                match self.reader.load(&table, entry, 0, ReadPart::Whole, IoMode::Wait)? {
                    LoadedRecord::Stored(stored) if self.is_expired(&stored.header.meta) => {
                        let (key, record) = stored.into_key_and_record();
                        records.extend(after_expiry(&record).map(|tombstone| (key, tombstone)));
                    }
                    LoadedRecord::Stored(stored) => records.push(stored.into_key_and_record()),
                    LoadedRecord::Damaged(error) => self.note_damaged(partition, *tag, &error),
                    LoadedRecord::WouldBlock => {}
                }
            }
        }
        Ok(records)
    }
}
