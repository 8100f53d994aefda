//! Queries: entries of the tree and of memory, as far as the index confirms them.

use super::{EntryValue, IndexTreeState, is_loss, retry_once};
use crate::bitcask::store::LogStore;
use crate::engine::{IndexPage, RecordMeta};
use crate::error::StoreError;
use crate::index::{PartitionIndex, Tag};
use crate::index_page::IndexPageBuilder;
use crate::ordered::{ScanRange, Space};
use bytes::Bytes;
use quoit_model::hash::Partition;
use quoit_model::secondary_index::{IndexPosition, IndexRange};
use std::sync::atomic::Ordering;

/// Minimum and maximum number of entries that are read at once.
const READ_COUNT_MIN: usize = 16;
const READ_COUNT_MAX: usize = 4_096;

impl LogStore {
    pub(in crate::bitcask) fn query_index(
        &self,
        range: &IndexRange<'_>,
        partitions: &dyn Fn(Partition) -> bool,
        after: Option<&IndexPosition>,
        limit: usize,
    ) -> Result<IndexPage, StoreError> {
        self.check_open()?;
        let span = range.span(after);
        let mut page = IndexPageBuilder::new(&span, partitions, limit);
        if span.is_empty() || !self.indexes.is_used() {
            return Ok(page.into_page());
        }
        let losses = self.indexes.losses.load(Ordering::Acquire);
        self.indexes.prepare()?;
        self.check_complete()?;
        self.check_read(partitions)?;
        let mut from = Bytes::copy_from_slice(span.from());
        loop {
            let range = ScanRange {
                space: Space::Indexes,
                from: &from,
                to: Some(span.end()),
                value_bytes_max: usize::MAX,
            };
            let read_count = limit.clamp(READ_COUNT_MIN, READ_COUNT_MAX);
            let scan = || {
                // A failed read may have closed the tree.
                self.indexes.prepare()?;
                self.indexes.overlay.scan(range, read_count)
            };
            let scanned = self.of_tree(losses, retry_once(scan))?;
            for (key, value) in &scanned.entries {
                let (place, partition, entry) = self.of_tree(losses, read_entry(key, value))?;
                let mut fault = None;
                let is_live = || {
                    self.counts(key, partition, &entry).unwrap_or_else(|error| {
                        fault = Some(error);
                        false
                    })
                };
                let goes_on = page.take(place, partition, is_live);
                if let Some(error) = fault {
                    return self.of_tree(losses, Err(error));
                }
                if !goes_on {
                    return self.unless_lost(losses, page.into_page());
                }
            }
            match scanned.next {
                Some(next) => from = next,
                None => return self.unless_lost(losses, page.into_page()),
            }
        }
    }

    fn check_complete(&self) -> Result<(), StoreError> {
        match &*self.indexes.state.lock() {
            IndexTreeState::Complete => Ok(()),
            IndexTreeState::Rebuilding { next, .. } => {
                let count = self.stripes.len();
                Err(unavailable(format!(
                    "they are being rebuilt, {} of {count} partitions are done; try again later",
                    next.0
                )))
            }
            IndexTreeState::Unknown => {
                Err(unavailable("they are being opened; try again".to_owned()))
            }
        }
    }

    /// Fails if a wanted partition has a damaged record whose entries are unknown. Forgets records that
    /// were written again or removed.
    fn check_read(&self, partitions: &dyn Fn(Partition) -> bool) -> Result<(), StoreError> {
        if !self.indexes.has_unread.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut unread = self.indexes.unread.lock();
        unread.retain(|(partition, entry)| {
            let index = self.stripe(*partition).read();
            index.candidates(entry.tag).any(|other| other.location == entry.location)
        });
        self.indexes.has_unread.store(!unread.is_empty(), Ordering::Release);
        let asked = unread.iter().filter(|(partition, _)| partitions(*partition)).count();
        if asked == 0 {
            return Ok(());
        }
        Err(unavailable(format!(
            "{asked} records that have entries are damaged; other replicas heal them, or write them again"
        )))
    }

    /// Returns a page if the tree was not lost while the page was read.
    fn unless_lost(&self, losses: u64, page: IndexPage) -> Result<IndexPage, StoreError> {
        if self.indexes.losses.load(Ordering::Acquire) == losses {
            return Ok(page);
        }
        Err(damaged())
    }

    /// Returns a result that was read from the tree when `losses` losses were known. If the result shows
    /// that the tree is damaged, begins a new tree.
    fn of_tree<T>(&self, losses: u64, read: Result<T, StoreError>) -> Result<T, StoreError> {
        read.map_err(|error| {
            if !is_loss(&error) {
                return error;
            }
            let _one_at_a_time = self.indexes.moving.lock();
            // Another query may have noticed the damage before.
            if self.indexes.losses.load(Ordering::Acquire) == losses {
                self.indexes.begin_new_tree(&error);
            }
            damaged()
        })
    }

    /// True if an entry from the tree belongs to an existing record. Removes an outdated entry.
    fn counts(
        &self,
        key: &Bytes,
        partition: Partition,
        read: &EntryValue,
    ) -> Result<bool, StoreError> {
        let Some(stripe) = self.stripes.get(usize::from(partition.0)) else { return Ok(false) };
        if confirms(&stripe.read(), read) {
            return Ok(!self.has_ended(read));
        }
        let overlay = &self.indexes.overlay;
        loop {
            // The record may have been written again since the entry was read. Under the stripe's lock, the
            // waiting entries in memory correspond to the index.
            let moved_before = overlay.moved_count();
            let stored = retry_once(|| overlay.backend.get(Space::Indexes, key))?;
            let index = stripe.read();
            let newest = match overlay.waiting(Space::Indexes, key) {
                Some(waiting) => waiting,
                None if overlay.moved_count() != moved_before => continue,
                None => stored,
            };
            let Some(newest) = newest else { return Ok(false) };
            if let Some(newest) = EntryValue::decode(&newest)
                && confirms(&index, &newest)
            {
                return Ok(!self.has_ended(&newest));
            }
            self.indexes.write(vec![(Space::Indexes, key.clone(), None)]);
            return Ok(false);
        }
    }

    fn has_ended(&self, entry: &EntryValue) -> bool {
        let expires_at_secs = entry.expires_at_secs;
        self.is_expired(&RecordMeta { expires_at_secs, ..RecordMeta::default() })
    }
}

/// True if the index has a record that wrote this entry.
fn confirms(index: &PartitionIndex, entry: &EntryValue) -> bool {
    let mut candidates = index.candidates(Tag::of(entry.identity));
    candidates.any(|candidate| candidate.indexed && candidate.digest == entry.digest)
}

fn damaged() -> StoreError {
    unavailable("they turned out to be damaged, and are rebuilt; try again later".to_owned())
}

fn unavailable(reason: String) -> StoreError {
    StoreError::IndexesUnavailable { reason }
}

/// Splits an entry of the tree into encoded entry, partition and value.
fn read_entry<'e>(
    key: &'e [u8],
    value: &[u8],
) -> Result<(&'e [u8], Partition, EntryValue), StoreError> {
    let read = key.split_last_chunk().zip(EntryValue::decode(value));
    let ((place, partition), entry) = read.ok_or_else(|| StoreError::Corrupt {
        path: super::INDEXES_NAME.to_owned(),
        offset: 0,
        reason: "an entry can't be read".to_owned(),
    })?;
    Ok((place, Partition(u16::from_be_bytes(*partition)), entry))
}
