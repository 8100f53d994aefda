//! Conversion of an index to a run of encoded entries and back.

use super::entry::{ENTRY_BYTES, IndexEntry, tag_of};
use super::partition::PartitionIndex;
use crate::tag::Tag;
use thiserror::Error;

/// Reason why a run of encoded entries is not a valid index.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RunError {
    /// The run ends within an entry.
    #[error("{size_bytes} bytes are not a whole number of entries")]
    Torn {
        /// Size of the run in bytes.
        size_bytes: usize,
    },
    /// A tag is lower than the one before it.
    #[error("entry {number} is out of order")]
    Unordered {
        /// Number of the entry in the run, from 0.
        number: usize,
    },
    /// The `collided` flag of an entry contradicts its neighbours.
    #[error("entry {number} has a wrong mark of collision")]
    WrongMark {
        /// Number of the entry in the run, from 0.
        number: usize,
    },
}

impl PartitionIndex {
    /// Appends encoded entries from `from` on to `out`, in ascending order of tags. Appends about `limit`
    /// entries: more where pages end, and because all entries of a tag stay together. Returns the tag from
    /// which the next call continues; `None` if there are no more entries.
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

    /// Builds an index from the output of one or several calls of [`PartitionIndex::write_from`], as
    /// densely as possible.
    ///
    /// # Errors
    ///
    /// If `write_from` cannot have written these bytes.
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

    /// Builds an index from entries in any order.
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
