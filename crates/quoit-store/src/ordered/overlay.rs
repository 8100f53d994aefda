//! Writes that are not in the ordered store yet, and reads that combine them with the store.
//!
//! At most two batches are in memory. New writes go to the open batch (`young`). The writer closes that
//! batch (`applying`), applies it to the store, and then drops it (`settle`). Reads look into both
//! batches before they look into the store, so a write is visible at every moment.

use super::backend::{OrderedStore, Space};
use crate::error::StoreError;
use bytes::Bytes;
use parking_lot::RwLock;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// Estimated memory of a write in bytes, in addition to its key and value.
const WRITE_OVERHEAD_BYTES: u64 = 64;

type OverlayEntries = BTreeMap<Bytes, Option<Bytes>>;

/// A batch of writes; only the last write of each key.
#[derive(Default)]
pub(crate) struct PendingWrites {
    spaces: [OverlayEntries; Space::ALL.len()],
    bytes: u64,
    /// Ticket of the last write in the batch.
    pub(crate) last_ticket: u64,
}

impl PendingWrites {
    /// All writes: the value, or `None` if the key is removed.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (Space, &Bytes, Option<&Bytes>)> {
        Space::ALL.into_iter().zip(&self.spaces).flat_map(|(space, writes)| {
            writes.iter().map(move |(key, value)| (space, key, value.as_ref()))
        })
    }

    /// The writes of one space, by ascending keys.
    #[expect(clippy::indexing_slicing, reason = "there is one for each space")]
    pub(crate) fn writes_of(
        &self,
        space: Space,
    ) -> impl ExactSizeIterator<Item = (&Bytes, Option<&Bytes>)> {
        self.spaces[space as usize].iter().map(|(key, value)| (key, value.as_ref()))
    }

    /// A batch of these writes.
    pub(crate) fn of(writes: Vec<(Space, Bytes, Option<Bytes>)>) -> Self {
        let mut batch = Self::default();
        writes.into_iter().for_each(|(space, key, value)| batch.put(space, key, value));
        batch
    }

    /// Estimated memory of the batch in bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.spaces.iter().all(BTreeMap::is_empty)
    }

    /// Checks the size and the ticket of an open batch, in builds with assertions.
    fn debug_check(&self, last_ticket: u64) {
        if !cfg!(debug_assertions) {
            return;
        }
        assert_eq!(self.last_ticket, last_ticket, "the open batch has the last write");
        let sizes = self.spaces.iter().flatten().map(|(key, value)| {
            let value_bytes = value.as_ref().map_or(0, Bytes::len);
            (key.len() + value_bytes) as u64 + WRITE_OVERHEAD_BYTES
        });
        let bytes: u64 = sizes.sum();
        assert_eq!(self.bytes, bytes, "the size is that of the writes in the batch");
    }

    #[expect(clippy::indexing_slicing, reason = "there is one for each space")]
    fn put(&mut self, space: Space, key: Bytes, value: Option<Bytes>) {
        let size = |value: &Option<Bytes>| value.as_ref().map_or(0, |value| value.len() as u64);
        let key_bytes = key.len() as u64 + WRITE_OVERHEAD_BYTES;
        self.bytes += size(&value);
        match self.spaces[space as usize].insert(key, value) {
            Some(former) => self.bytes -= size(&former),
            None => self.bytes += key_bytes,
        }
    }
}

/// The batches in memory.
#[derive(Default)]
struct PendingBatches {
    /// The batch that takes new writes.
    young: PendingWrites,
    /// The batch that is being applied to the store.
    applying: Option<Arc<PendingWrites>>,
    last_ticket: u64,
    /// Number of batches that were applied.
    moved_count: u64,
}

/// The ordered store together with the writes that are not in it yet. Reads see both as one.
pub(crate) struct Overlay {
    pub(crate) backend: Box<dyn OrderedStore>,
    pending: RwLock<PendingBatches>,
}

/// A part of a scan.
pub(crate) struct ScanPage {
    /// Keys, and values or their first bytes, by ascending keys.
    pub(crate) entries: Vec<(Bytes, Bytes)>,
    /// Key from which the next call continues; `None` at the end.
    pub(crate) next: Option<Bytes>,
}

/// The entries that a scan returns.
#[derive(Clone, Copy)]
pub(crate) struct ScanRange<'r> {
    pub(crate) space: Space,
    pub(crate) from: &'r [u8],
    /// End of the range, exclusive.
    pub(crate) to: Option<&'r [u8]>,
    /// Maximum number of bytes of each value.
    pub(crate) value_bytes_max: usize,
}

impl Overlay {
    pub(crate) fn new(backend: Box<dyn OrderedStore>) -> Self {
        Self { backend, pending: RwLock::default() }
    }

    /// Adds writes, which take effect together from now on. Returns their ticket, and true if no other
    /// write waits: then the caller has to wake the writer.
    pub(crate) fn write(&self, writes: Vec<(Space, Bytes, Option<Bytes>)>) -> (u64, bool) {
        let mut pending = self.pending.write();
        let is_first = pending.young.is_empty();
        pending.last_ticket += 1;
        let ticket = pending.last_ticket;
        pending.young.last_ticket = ticket;
        for (space, key, value) in writes {
            pending.young.put(space, key, value);
        }
        (ticket, is_first)
    }

    pub(crate) fn last_ticket(&self) -> u64 {
        self.pending.read().last_ticket
    }

    /// Bytes of the writes in the open batch.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.pending.read().young.bytes
    }

    /// Takes the batch to apply next: the one that was taken and not applied, otherwise the open batch.
    pub(crate) fn take(&self) -> Option<Arc<PendingWrites>> {
        let mut pending = self.pending.write();
        if pending.applying.is_none() && !pending.young.is_empty() {
            pending.young.debug_check(pending.last_ticket);
            pending.applying = Some(Arc::new(std::mem::take(&mut pending.young)));
        }
        pending.applying.clone()
    }

    /// Notes that the taken batch is in the store.
    pub(crate) fn settle(&self) {
        let mut pending = self.pending.write();
        // Otherwise writes could be dropped that are not in the store.
        assert!(pending.applying.is_some(), "a batch is settled once, after it was taken");
        pending.applying = None;
        pending.moved_count += 1;
    }

    /// Number of batches that were applied. While it is the same, so are the contents of the store.
    pub(crate) fn moved_count(&self) -> u64 {
        self.pending.read().moved_count
    }

    /// The waiting write of a key: its value, or `None` inside for its removal. `None` if no write of the
    /// key waits.
    #[expect(clippy::indexing_slicing, reason = "there is one for each space")]
    pub(crate) fn waiting(&self, space: Space, key: &[u8]) -> Option<Option<Bytes>> {
        let pending = self.pending.read();
        let batches = [Some(&pending.young), pending.applying.as_deref()];
        batches
            .into_iter()
            .flatten()
            .find_map(|batch| batch.spaces[space as usize].get(key).cloned())
    }

    /// The value of a key. May wait for the disk.
    pub(crate) fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        match self.waiting(space, key) {
            Some(value) => Ok(value),
            None => self.backend.get(space, key),
        }
    }

    /// Looks up the values of several keys. Each key comes with a number, and `take` gets each value with
    /// that number, in any order. Skips keys that `is_wanted` rejects when their turn comes. May wait for
    /// the disk.
    #[expect(clippy::indexing_slicing, reason = "there is one for each space")]
    pub(crate) fn get_each(
        &self,
        space: Space,
        mut keys: Vec<(usize, &Bytes)>,
        is_wanted: &dyn Fn(usize) -> bool,
        take: &mut dyn FnMut(usize, Option<Bytes>),
    ) -> Result<(), StoreError> {
        // The batches are read first: a write that is applied meanwhile is in the store by then.
        let mut waiting = Vec::new();
        {
            let pending = self.pending.read();
            let batches = [Some(&pending.young), pending.applying.as_deref()];
            let batches = batches.into_iter().flatten().map(|batch| &batch.spaces[space as usize]);
            let batches: SmallVec<[&OverlayEntries; 2]> =
                batches.filter(|batch| !batch.is_empty()).collect();
            if !batches.is_empty() {
                keys.retain(|(place, key)| {
                    let value = batches.iter().find_map(|batch| batch.get(*key).cloned());
                    waiting.extend(value.clone().map(|value| (*place, value)));
                    value.is_none()
                });
            }
        }
        for (place, value) in waiting {
            if is_wanted(place) {
                take(place, value);
            }
        }
        let mut keys = keys.into_iter().filter(|(place, _)| is_wanted(*place));
        self.backend.get_each(space, &mut keys, take)
    }

    /// About the first `limit` entries of a range. May wait for the disk.
    pub(crate) fn scan(&self, range: ScanRange<'_>, limit: usize) -> Result<ScanPage, StoreError> {
        let limit = limit.max(1);
        // The batches are read first: a write that is applied meanwhile is in the store by then.
        let (waiting, mut last) = self.waiting_from(range, limit);
        let mut waiting = waiting.into_iter().peekable();
        let cut = |value: &[u8]| {
            Bytes::copy_from_slice(value.get(..range.value_bytes_max).unwrap_or(value))
        };
        let mut entries = Vec::new();
        let mut stored_count = 0;
        let mut visit = |key: &[u8], value: &[u8]| {
            let is_behind = |end: &[u8]| key > end;
            if range.to.is_some_and(|to| key >= to) || last.as_deref().is_some_and(is_behind) {
                return ControlFlow::Break(());
            }
            while let Some((before, value)) = waiting.next_if(|(before, _)| before[..] < *key) {
                entries.extend(value.map(|value| (before, value)));
            }
            match waiting.next_if(|(same, _)| same[..] == *key) {
                Some((same, value)) => entries.extend(value.map(|value| (same, value))),
                None => entries.push((Bytes::copy_from_slice(key), cut(value))),
            }
            stored_count += 1;
            if stored_count < limit {
                return ControlFlow::Continue(());
            }
            last = Some(Bytes::copy_from_slice(key));
            ControlFlow::Break(())
        };
        self.backend.scan(range.space, range.from, &mut visit)?;
        let within = |key: &Bytes| last.as_ref().is_none_or(|last| key <= last);
        let behind = waiting.take_while(|(key, _)| within(key));
        entries.extend(behind.filter_map(|(key, value)| Some((key, value?))));
        // The lowest key above `last`.
        let next = last.map(|last| Bytes::from([&last[..], &[0]].concat()));
        Ok(ScanPage { entries, next })
    }

    /// The waiting writes at the beginning of a range; and, if there may be more of them, the key up to
    /// which they are complete.
    #[expect(clippy::indexing_slicing, reason = "there is one for each space")]
    fn waiting_from(&self, range: ScanRange<'_>, limit: usize) -> (OverlayEntries, Option<Bytes>) {
        let pending = self.pending.read();
        let mut merged = OverlayEntries::new();
        let mut last: Option<Bytes> = None;
        // The open batch comes second, because its writes replace those of the older one.
        for batch in [pending.applying.as_deref(), Some(&pending.young)].into_iter().flatten() {
            let to = range.to.map_or(Bound::Unbounded, Bound::Excluded);
            if range.to.is_some_and(|to| to <= range.from) {
                break;
            }
            let writes = &batch.spaces[range.space as usize];
            let bounds = (Bound::Included(range.from), to);
            let taken: Vec<_> = writes.range::<[u8], _>(bounds).take(limit).collect();
            if let (true, Some((end, _))) = (taken.len() == limit, taken.last()) {
                let is_lower = last.as_ref().is_none_or(|last| *end < last);
                last = if is_lower { Some((*end).clone()) } else { last };
            }
            for (key, value) in taken {
                let cut = |value: &Bytes| value.slice(..value.len().min(range.value_bytes_max));
                merged.insert(key.clone(), value.as_ref().map(cut));
            }
        }
        (merged, last)
    }
}
