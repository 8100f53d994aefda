//! A page: up to 64 entries in ascending order of tags.
//!
//! A page doesn't know how many entries it holds; its group does.

use super::entry::{ENTRY_BYTES, tag_of};
use crate::tag::Tag;

/// Entries that a page holds.
pub(super) const PAGE_ENTRIES: usize = 64;

/// Size of a page: 21 cache lines.
pub(super) const PAGE_BYTES: usize = PAGE_ENTRIES * ENTRY_BYTES;

/// The bytes of a page. A plain array, so that zeroed pages come from the allocator as they are.
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

/// Number of entries with tags below `tag` among the first `count` of a page. `first` and `end`
/// bound the page's tags: hashes are spread evenly between them, so the first guess is some entries
/// off and mostly costs one or two cache lines; the guess gallops to the place, so that crafted
/// tags cost no more than a binary search twice over.
pub(super) fn lower_bound(entries: &[EntryBytes], tag: Tag, first: Tag, end: u64) -> usize {
    let count = entries.len();
    if count == 0 || tag <= first {
        return 0;
    }
    let span = end.saturating_sub(first.number()).max(1);
    let guess = ((tag.number() - first.number()) * count as u64 / span).min(count as u64 - 1);
    // All entries below `low` are lower than the tag, all from `high` on are not.
    let (mut low, mut high) = (0, count);
    let mut probe = guess as usize;
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

/// Puts `entry` at `at` of a page with `count` entries. The page has room.
pub(super) fn insert_at(page: &mut PageBytes, count: usize, at: usize, entry: &EntryBytes) {
    let entries = entries_mut(page);
    entries.copy_within(at..count, at + 1);
    entries[at] = *entry;
}

/// Takes the entry at `at` out of a page with `count` entries.
pub(super) fn remove_at(page: &mut PageBytes, count: usize, at: usize) -> EntryBytes {
    let entries = entries_mut(page);
    let removed = entries[at];
    entries.copy_within(at + 1..count, at);
    removed
}
