//! An index as one run of encoded entries, written out and read back.

use super::entry::{ENTRY_BYTES, IndexEntry, tag_of};
use super::partition::PartitionIndex;
use crate::tag::Tag;
use thiserror::Error;

/// Why a run of encoded entries is not an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RunError {
    /// The run ends within an entry.
    #[error("{size_bytes} bytes are not a whole number of entries")]
    Torn {
        /// Size of the run.
        size_bytes: usize,
    },
    /// A tag is lower than the one before it.
    #[error("entry {number} is out of order")]
    Unordered {
        /// Number of the entry in the run, from 0.
        number: usize,
    },
    /// An entry says of itself that it is alone with its tag and isn't, or the reverse.
    #[error("entry {number} has a wrong mark of collision")]
    WrongMark {
        /// Number of the entry in the run, from 0.
        number: usize,
    },
}

impl PartitionIndex {
    /// Appends `limit` or some more entries from `from` on, encoded, in ascending order of tags;
    /// all entries of a tag stay together. Returns the tag to go on from, `None` when there are no
    /// more.
    pub fn write_from(&self, from: Tag, limit: usize, out: &mut Vec<u8>) -> Option<Tag> {
        let end = out.len() + limit.max(1) * ENTRY_BYTES;
        let mut pages = self.iter_from(from);
        let mut last = from;
        while out.len() < end {
            let entries = pages.next_run()?;
            out.extend_from_slice(entries.as_flattened());
            last = entries.last().map_or(last, tag_of);
        }
        while let Some(entries) = pages.next_run() {
            let equal = entries.partition_point(|entry| tag_of(entry) == last);
            out.extend_from_slice(entries[..equal].as_flattened());
            if equal < entries.len() {
                break;
            }
        }
        last.next()
    }

    /// The index that [`PartitionIndex::write_from`] wrote in one or several pieces, as dense as
    /// can be.
    ///
    /// # Errors
    ///
    /// When the bytes are not what `write_from` writes.
    pub fn from_run(run: &[u8]) -> Result<Self, RunError> {
        let (entries, torn) = run.as_chunks::<ENTRY_BYTES>();
        if !torn.is_empty() {
            return Err(RunError::Torn { size_bytes: run.len() });
        }
        let mut before = None;
        for (number, bytes) in entries.iter().enumerate() {
            let entry = IndexEntry::decode(bytes);
            if before > Some(entry.tag) {
                return Err(RunError::Unordered { number });
            }
            let after = entries.get(number + 1).map(tag_of);
            if entry.collided != (before == Some(entry.tag) || after == Some(entry.tag)) {
                return Err(RunError::WrongMark { number });
            }
            before = Some(entry.tag);
        }
        let mut index = Self::new();
        index.fill_sorted(entries);
        Ok(index)
    }

    /// An index of entries that may come in any order.
    #[must_use]
    pub fn from_entries(mut entries: Vec<IndexEntry>) -> Self {
        entries.sort_unstable_by_key(|entry| entry.tag);
        let mut run = Vec::with_capacity(entries.len());
        for (number, entry) in entries.iter().enumerate() {
            let before = number.checked_sub(1).map(|number| entries[number].tag);
            let after = entries.get(number + 1).map(|entry| entry.tag);
            let collided = before == Some(entry.tag) || after == Some(entry.tag);
            run.push(IndexEntry { collided, ..*entry }.encode());
        }
        let mut index = Self::new();
        index.fill_sorted(&run);
        index
    }
}
