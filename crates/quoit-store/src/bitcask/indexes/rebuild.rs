//! Rebuilds the entries that the tree lacks, from the records that have the flag for entries in the index.

use super::{EntryChange, IndexTreeState};
use crate::bitcask::read::{LoadedRecord, ReadPart};
use crate::bitcask::store::LogStore;
use crate::compare::compared_digest;
use crate::engine::IoMode;
use crate::error::StoreError;
use crate::index::{IndexEntry, Tag};
use crate::index_page::places_of;
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_seam::Pace;
use std::sync::atomic::Ordering;

/// Number of bytes that are read between two pauses.
const PIECE_BYTES: u64 = 1 << 20;

impl LogStore {
    /// Does a part of the background work of secondary indexes. Returns true if there is more to do.
    pub(in crate::bitcask) fn maintain_indexes(&self, pace: &dyn Pace) -> Result<bool, StoreError> {
        if !self.indexes.is_used() {
            return Ok(false);
        }
        self.indexes.prepare()?;
        let losses = self.indexes.losses.load(Ordering::Acquire);
        let rebuilding = match *self.indexes.state.lock() {
            IndexTreeState::Rebuilding { next, record_count } => Some((next, record_count)),
            IndexTreeState::Unknown | IndexTreeState::Complete => None,
        };
        if self.indexes.should_move() {
            self.indexes.move_all(&|| self.committer.sync())?;
        }
        let Some((partition, record_count)) = rebuilding else { return Ok(false) };
        let Some(more_count) = self.rebuild_partition(partition, pace)? else { return Ok(false) };
        let mut state = self.indexes.state.lock();
        if self.indexes.losses.load(Ordering::Acquire) != losses {
            return Ok(true);
        }
        let next = Partition(partition.0 + 1);
        let is_last = usize::from(next.0) >= self.stripes.len();
        let record_count = record_count + more_count;
        *state = if is_last {
            IndexTreeState::Complete
        } else {
            IndexTreeState::Rebuilding { next, record_count }
        };
        if is_last {
            tracing::info!(record_count, "secondary indexes are complete again");
        }
        Ok(!is_last)
    }

    /// Adds the entries of a partition's records. Returns the number of records; `None` if the worker was
    /// told to stop before the end.
    fn rebuild_partition(
        &self,
        partition: Partition,
        pace: &dyn Pace,
    ) -> Result<Option<u64>, StoreError> {
        let (mut entries, table) = {
            let index = self.stripe(partition).read();
            let entries: Vec<IndexEntry> = index.iter().filter(|entry| entry.indexed).collect();
            // The segments of this table stay readable while the table is held.
            (entries, self.table.load_full())
        };
        entries.sort_unstable_by_key(|entry| entry.location);
        let mut piece_bytes = 0;
        for entry in &entries {
            match self.reader.load(&table, entry, 0, ReadPart::Whole, IoMode::Wait)? {
                LoadedRecord::Stored(stored) => {
                    let header = stored.header;
                    let (key, record) = stored.into_key_and_record();
                    piece_bytes += header.record_bytes();
                    let key = KeyRef::decode(&key).ok();
                    let places = key.map(|key| places_of(key, &header.meta, &record.value));
                    if let Some(Ok(new)) = places {
                        let index = self.stripe(partition).read();
                        let digest = compared_digest(&header.meta);
                        let mut candidates = index.candidates(Tag::of(header.identity));
                        // A record that has changed meanwhile has added its entries itself.
                        if candidates.any(|entry| entry.indexed && entry.digest == digest) {
                            self.indexes.change(&header, &EntryChange { old: Vec::new(), new });
                        }
                    }
                }
                LoadedRecord::Damaged(error) => {
                    self.note_damaged(partition, entry.tag, &error);
                    self.indexes.note_unread(partition, *entry);
                }
                LoadedRecord::WouldBlock => {}
            }
            if piece_bytes >= PIECE_BYTES {
                if !pace.pause(self.pause_us(piece_bytes)) {
                    return Ok(None);
                }
                piece_bytes = 0;
                if self.indexes.is_full() {
                    self.indexes.move_all(&|| self.committer.sync())?;
                }
            }
        }
        Ok(Some(entries.len() as u64))
    }
}
