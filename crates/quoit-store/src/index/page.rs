//! A page: up to 64 entries in ascending order of tags.
//!
//! A page does not have its number of entries; its group does.

use super::entry::{ENTRY_BYTES, tag_of};
use crate::tag::Tag;
use quoit_number::index;

/// Capacity of a page in entries.
pub(super) const PAGE_ENTRIES: usize = 64;

/// Size of a page in bytes: 21 cache lines.
pub(super) const PAGE_BYTES: usize = PAGE_ENTRIES * ENTRY_BYTES;

/// The bytes of a page. A plain array, so that the allocator can provide zeroed pages without a copy.
pub(super) type PageBytes = [u8; PAGE_BYTES];

/// The bytes of an entry.
pub(super) type EntryBytes = [u8; ENTRY_BYTES];

/// The entries of a page as arrays.
pub(super) fn entries(page: &PageBytes) -> &[EntryBytes] {
    page.as_chunks().0
}

/// The entries of a page as arrays.
pub(super) fn entries_mut(page: &mut PageBytes) -> &mut [EntryBytes] {
    page.as_chunks_mut().0
}

/// Number of entries of a page with tags below `tag`. `first` and `end` bound the page's tags. Hashes are
/// spread evenly between the bounds, so an interpolated guess is only some entries off, and the search
/// usually touches one or two cache lines. It gallops from the guess, so that crafted tags cost at most
/// twice as much as a binary search.
pub(super) fn lower_bound(entries: &[EntryBytes], tag: Tag, first: Tag, end: u64) -> usize {
    let count = entries.len();
    if count == 0 || tag <= first {
        return 0;
    }
    let span = end.saturating_sub(first.number()).max(1);
    let guess = ((tag.number() - first.number()) * count as u64 / span).min(count as u64 - 1);
    // Invariant: all entries before `low` have lower tags, all entries from `high` on do not.
    let (mut low, mut high) = (0, count);
    let mut probe = index(guess);
    let mut step = 1;
    if tag_of(&entries[probe]) < tag {
        low = probe + 1;
        while low < high {
            probe = (low + step - 1).min(high - 1);
            if tag_of(&entries[probe]) < tag {
                low = probe + 1;
                step *= 2;
            } else {
                high = probe;
                break;
            }
        }
    } else {
        high = probe;
        while low < high {
            probe = high.saturating_sub(step).max(low);
            if tag_of(&entries[probe]) < tag {
                low = probe + 1;
                break;
            }
            high = probe;
            step *= 2;
        }
    }
    low + entries[low..high].partition_point(|entry| tag_of(entry) < tag)
}

/// A place among the entries of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryAt {
    pub(super) index: usize,
    /// Number of entries in the page.
    pub(super) count: usize,
}

/// Inserts `entry` in a page. The page must have room.
pub(super) fn insert_at(page: &mut PageBytes, at: EntryAt, entry: &EntryBytes) {
    let entries = entries_mut(page);
    entries.copy_within(at.index..at.count, at.index + 1);
    entries[at.index] = *entry;
}

/// Removes an entry from a page, and returns it.
pub(super) fn remove_at(page: &mut PageBytes, at: EntryAt) -> EntryBytes {
    let entries = entries_mut(page);
    let removed = entries[at.index];
    entries.copy_within(at.index + 1..at.count, at.index);
    removed
}
