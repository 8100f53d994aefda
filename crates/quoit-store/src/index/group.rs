//! A group: the entries of all tags with one prefix, in ascending order, in a few pages.
//!
//! The free places of a group's pages amount to at most about one page. An insert into a full page moves
//! one entry along from page to page, up to the nearest page with room.

use super::entry::{ENTRY_BYTES, IndexEntry, set_collided, tag_of};
use super::page::{
    EntryAt, EntryBytes, PAGE_ENTRIES, entries, entries_mut, insert_at, lower_bound, remove_at,
};
use super::slab::{ALLOCATION_OVERHEAD_BYTES, PageId, Slab};
use super::summary::GroupDigest;
use crate::tag::{TAG_BITS, Tag};
use quoit_number::{low_u8, low_u32};
use quoit_planted::planted;
use std::ops::Range;

/// Number of pages at which a group is split. A group that cannot be split grows further.
pub(super) const GROUP_PAGES_MAX: usize = 16;

/// Two buddies with at most this many entries together become one group.
pub(super) const MERGE_ENTRIES_MAX: usize = 12 * PAGE_ENTRIES;

/// Number of free places that a group must keep when it frees a page.
const SPARE_ENTRIES: usize = 8;

/// A page of a group. Never empty.
#[derive(Clone, Copy, Debug)]
struct GroupSlot {
    first_high: u32,
    first_low: u8,
    count: u8,
    page: PageId,
}

impl GroupSlot {
    fn first(&self) -> Tag {
        Tag::from_number(u64::from(self.first_high) << 8 | u64::from(self.first_low))
    }

    fn set_first(&mut self, tag: Tag) {
        self.first_high = low_u32(tag.number() >> 8);
        self.first_low = low_u8(tag.number());
    }

    fn count(&self) -> usize {
        usize::from(self.count)
    }

    fn is_full(&self) -> bool {
        self.count() == PAGE_ENTRIES
    }
}

/// A position in a group: a page, and an entry in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GroupPlace {
    pub(super) slot: usize,
    pub(super) entry: usize,
}

/// A group of entries. See the module's documentation.
#[derive(Debug)]
pub(super) struct Group {
    slots: Vec<GroupSlot>,
    /// The common prefix of the tags: the highest `depth` of 40 bits; the bits below are zero.
    prefix: Tag,
    /// Number of bits in the prefix.
    depth: u32,
    /// Digest of the entries. The code that changes entries updates it.
    digest: GroupDigest,
}

impl Group {
    pub(super) fn new(prefix: Tag, depth: u32) -> Self {
        debug_assert!(depth <= TAG_BITS, "a prefix has at most the bits of a tag");
        debug_assert!(
            prefix.number().is_multiple_of(1 << (TAG_BITS - depth)),
            "the bits below the prefix are zero"
        );
        Self { slots: Vec::new(), prefix, depth, digest: GroupDigest::default() }
    }

    pub(super) fn prefix(&self) -> Tag {
        self.prefix
    }

    pub(super) fn depth(&self) -> u32 {
        self.depth
    }

    /// The highest tag of the group's range, plus one.
    pub(super) fn end(&self) -> u64 {
        self.prefix.number() + (1 << (TAG_BITS - self.depth))
    }

    /// Digest of the entries.
    pub(super) fn digest(&self) -> &GroupDigest {
        &self.digest
    }

    /// Digest of the entries, for changing it.
    pub(super) fn digest_mut(&mut self) -> &mut GroupDigest {
        &mut self.digest
    }

    pub(super) fn page_count(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn entry_count(&self) -> usize {
        self.slots.iter().map(GroupSlot::count).sum()
    }

    /// Allocated bytes, without the struct itself and its pages.
    pub(super) fn memory_bytes(&self) -> usize {
        let slot_bytes = match self.slots.capacity() {
            0 => 0,
            slots => slots * size_of::<GroupSlot>() + ALLOCATION_OVERHEAD_BYTES,
        };
        slot_bytes + self.digest.memory_bytes()
    }

    /// The entries of one page; empty if there is no such page.
    pub(super) fn entries<'s>(&self, slab: &'s Slab, slot: usize) -> &'s [EntryBytes] {
        match self.slots.get(slot) {
            Some(slot) => &entries(slab.page(slot.page))[..slot.count()],
            None => &[],
        }
    }

    /// The entry at a position, which must have one.
    pub(super) fn entry_mut<'s>(&self, slab: &'s mut Slab, at: GroupPlace) -> &'s mut EntryBytes {
        &mut entries_mut(slab.page_mut(self.slots[at.slot].page))[at.entry]
    }

    /// The position of the first entry whose tag is not below `tag`, in the page to which an entry of this
    /// tag belongs. It may be one past the last entry of that page.
    pub(super) fn lower_bound(&self, slab: &Slab, tag: Tag) -> GroupPlace {
        let slot = self.slots.partition_point(|slot| slot.first() < tag).saturating_sub(1);
        let entries = self.entries(slab, slot);
        let end = self.slots.get(slot + 1).map_or(self.end(), |next| next.first().number());
        let first = self.slots.get(slot).map_or(self.prefix, GroupSlot::first);
        GroupPlace { slot, entry: lower_bound(entries, tag, first, end) }
    }

    /// The entry at `at`, or the first entry of the next page if `at` is past the last entry of its page.
    pub(super) fn get<'s>(
        &self,
        slab: &'s Slab,
        at: GroupPlace,
    ) -> Option<(GroupPlace, &'s EntryBytes)> {
        if let Some(entry) = self.entries(slab, at.slot).get(at.entry) {
            return Some((at, entry));
        }
        let next = GroupPlace { slot: at.slot + 1, entry: 0 };
        self.entries(slab, next.slot).first().map(|entry| (next, entry))
    }

    /// Inserts an entry at a position from [`Group::lower_bound`]. Returns false and changes nothing if
    /// neither the page nor one nearby has room.
    pub(super) fn insert(&mut self, slab: &mut Slab, at: GroupPlace, entry: &EntryBytes) -> bool {
        match self.slots.get(at.slot) {
            None => false,
            Some(slot) if !slot.is_full() => {
                self.insert_into(slab, at, entry);
                true
            }
            Some(_) => match self.nearest_room(at.slot) {
                Some(room) if room > at.slot => {
                    self.push_right(slab, at, room, *entry);
                    true
                }
                Some(room) => {
                    self.push_left(slab, at, room, *entry);
                    true
                }
                None => false,
            },
        }
    }

    /// Adds a page near `at`, and spreads the entries and the new one evenly.
    pub(super) fn add_page(&mut self, slab: &mut Slab, at: GroupPlace, entry: &EntryBytes) {
        let window = self.window(at.slot);
        debug_assert!(
            self.slots[window.clone()].iter().all(GroupSlot::is_full),
            "a page is added when those around the place are full"
        );
        let place = (at.slot.saturating_sub(window.start)) * PAGE_ENTRIES + at.entry;
        let (mut run, mut pages) = self.gather(slab, window.clone());
        // The pages of the window are full, or this would not have been called. An empty group has no
        // pages.
        let place = place.min(run.len());
        run.insert(place, *entry);
        let slots = fill(slab, &run, pages.len() + 1, &mut pages);
        self.replace_slots(window, &slots);
    }

    /// Removes an entry. Returns true if a page was freed.
    pub(super) fn remove(&mut self, slab: &mut Slab, at: GroupPlace) -> bool {
        let slot = &mut self.slots[at.slot];
        debug_assert!(at.entry < slot.count(), "the page has the entry that is removed");
        let page = slab.page_mut(slot.page);
        remove_at(page, EntryAt { index: at.entry, count: slot.count() });
        slot.count -= 1;
        if slot.count == 0 {
            slab.release(slot.page);
            self.replace_slots(at.slot..at.slot + 1, &[]);
            return true;
        }
        if at.entry == 0 {
            slot.set_first(tag_of(&entries(page)[0]));
        }
        let window = self.window(at.slot);
        let count: usize = self.slots[window.clone()].iter().map(GroupSlot::count).sum();
        if count + SPARE_ENTRIES > (window.len() - 1) * PAGE_ENTRIES {
            return false;
        }
        let (run, mut pages) = self.gather(slab, window.clone());
        let slots = fill(slab, &run, 0, &mut pages);
        self.replace_slots(window, &slots);
        true
    }

    /// Removes all entries of the group and frees its pages.
    pub(super) fn take_all(&mut self, slab: &mut Slab) -> Vec<EntryBytes> {
        let (run, pages) = self.gather(slab, 0..self.slots.len());
        pages.into_iter().for_each(|page| slab.release(page));
        self.slots = Vec::new();
        run
    }

    /// Fills an empty group with entries in ascending order, in as few pages as possible. `digest` is their
    /// digest.
    pub(super) fn fill(&mut self, slab: &mut Slab, run: &[EntryBytes], digest: GroupDigest) {
        debug_assert!(self.slots.is_empty(), "the pages of a filled group would leak");
        self.slots = fill(slab, run, 0, &mut Vec::new());
        self.digest = digest;
    }

    /// The lowest and the highest tag; `None` if the group is empty.
    pub(super) fn tag_bounds(&self, slab: &Slab) -> Option<(Tag, Tag)> {
        let first = self.slots.first()?.first();
        let last = tag_of(self.entries(slab, self.slots.len() - 1).last()?);
        Some((first, last))
    }

    /// Clears the `collided` flag of an entry if no other entry has its tag any more.
    pub(super) fn unmark_if_alone(&self, slab: &mut Slab, tag: Tag) {
        let first = self.lower_bound(slab, tag);
        let Some((at, _)) = self.get(slab, first).filter(|(_, entry)| tag_of(entry) == tag) else {
            return;
        };
        let next = GroupPlace { slot: at.slot, entry: at.entry + 1 };
        if self.get(slab, next).is_none_or(|(_, entry)| tag_of(entry) != tag) {
            set_collided(self.entry_mut(slab, at), false);
        }
    }

    /// Notes that a page of the group has a new id.
    pub(super) fn rename_page(&mut self, from: PageId, to: PageId) {
        for slot in self.slots.iter_mut().filter(|slot| slot.page == from) {
            slot.page = to;
        }
    }

    /// Checks the entries and what is known of them. Costs a visit of each entry.
    pub(super) fn check(&self, slab: &Slab) {
        for slot in &self.slots {
            assert!((1..=PAGE_ENTRIES).contains(&slot.count()), "a page has 1 to 64 entries");
            let first = entries(slab.page(slot.page)).first().map(tag_of);
            assert_eq!(first, Some(slot.first()), "the group has the first tag of each page");
        }
        let (run, _) = self.gather(slab, 0..self.slots.len());
        assert!(run.is_sorted_by_key(tag_of), "entries ascend by their tags");
        let range = self.prefix.number()..self.end();
        let is_own = |entry: &EntryBytes| range.contains(&tag_of(entry).number());
        assert!(run.iter().all(is_own), "all tags have the group's prefix");
        for same in run.chunk_by(|one, other| tag_of(one) == tag_of(other)) {
            let is_right = |entry| IndexEntry::decode(entry).collided == (same.len() > 1);
            assert!(same.iter().all(is_right), "exactly the entries that share a tag are marked");
        }
        let digest = GroupDigest::of(&run);
        assert_eq!(
            self.digest.expiring_count(),
            digest.expiring_count(),
            "the digest counts the entries that expire"
        );
        let is_equal = self.digest.lasting() == digest.lasting() || planted!(ForgetsDigests);
        assert!(is_equal, "the group has the digests of the entries that never expire");
    }

    /// The pages that are spread together: all of them, or those around `slot` in a group that has grown
    /// too large.
    fn window(&self, slot: usize) -> Range<usize> {
        let end = (slot + GROUP_PAGES_MAX / 2).max(GROUP_PAGES_MAX).min(self.slots.len());
        end.saturating_sub(GROUP_PAGES_MAX)..end
    }

    /// The nearest page with room among those that are spread together.
    fn nearest_room(&self, slot: usize) -> Option<usize> {
        let window = self.window(slot);
        window
            .filter(|other| !self.slots[*other].is_full())
            .min_by_key(|other| other.abs_diff(slot))
    }

    fn insert_into(&mut self, slab: &mut Slab, at: GroupPlace, entry: &EntryBytes) {
        let slot = &mut self.slots[at.slot];
        debug_assert!(!slot.is_full() && at.entry <= slot.count(), "the page has room there");
        let place = EntryAt { index: at.entry, count: slot.count() };
        insert_at(slab.page_mut(slot.page), place, entry);
        slot.count += 1;
        if at.entry == 0 {
            slot.set_first(tag_of(entry));
        }
    }

    /// Inserts at `at`, in a full page, by moving one entry from each page to the next, up to page `room`.
    fn push_right(&mut self, slab: &mut Slab, at: GroupPlace, room: usize, entry: EntryBytes) {
        let (mut at, mut carried) = (at, entry);
        while at.slot < room {
            if at.entry < PAGE_ENTRIES {
                let slot = &mut self.slots[at.slot];
                let last = EntryAt { index: PAGE_ENTRIES - 1, count: PAGE_ENTRIES };
                let last = remove_at(slab.page_mut(slot.page), last);
                slot.count -= 1;
                self.insert_into(slab, at, &carried);
                carried = last;
            }
            at = GroupPlace { slot: at.slot + 1, entry: 0 };
        }
        self.insert_into(slab, at, &carried);
    }

    /// Like `push_right`, in the other direction.
    fn push_left(&mut self, slab: &mut Slab, at: GroupPlace, room: usize, entry: EntryBytes) {
        let (mut at, mut carried) = (at, entry);
        while at.slot > room {
            if at.entry > 0 {
                let slot = &mut self.slots[at.slot];
                let page = slab.page_mut(slot.page);
                let first = remove_at(page, EntryAt { index: 0, count: PAGE_ENTRIES });
                let place = EntryAt { index: at.entry - 1, count: PAGE_ENTRIES - 1 };
                insert_at(page, place, &carried);
                slot.set_first(tag_of(&entries(page)[0]));
                carried = first;
            }
            let slot = at.slot - 1;
            at = GroupPlace { slot, entry: self.slots[slot].count() };
        }
        self.insert_into(slab, at, &carried);
    }

    /// The entries of some pages in order, and the pages.
    fn gather(&self, slab: &Slab, window: Range<usize>) -> (Vec<EntryBytes>, Vec<PageId>) {
        let slots = &self.slots[window];
        let mut run = Vec::with_capacity(slots.len() * PAGE_ENTRIES + 1);
        for slot in slots {
            run.extend_from_slice(&entries(slab.page(slot.page))[..slot.count()]);
        }
        (run, slots.iter().map(|slot| slot.page).collect())
    }

    /// Replaces some slots, without spare capacity in the vector.
    fn replace_slots(&mut self, window: Range<usize>, slots: &[GroupSlot]) {
        let mut replaced = Vec::with_capacity(self.slots.len() - window.len() + slots.len());
        replaced.extend_from_slice(&self.slots[..window.start]);
        replaced.extend_from_slice(slots);
        replaced.extend_from_slice(&self.slots[window.end..]);
        self.slots = replaced;
    }
}

/// Spreads entries evenly over `page_count` pages, or over as many as they need. Takes pages from `reuse`
/// first, and frees those that are left over.
fn fill(
    slab: &mut Slab,
    run: &[EntryBytes],
    page_count: usize,
    reuse: &mut Vec<PageId>,
) -> Vec<GroupSlot> {
    let page_count = page_count.max(run.len().div_ceil(PAGE_ENTRIES));
    let mut slots = Vec::with_capacity(page_count);
    let mut rest = run;
    for index in 0..page_count {
        let count = rest.len().div_ceil(page_count - index);
        if count == 0 {
            break;
        }
        let (these, others) = rest.split_at(count);
        rest = others;
        let page = reuse.pop().unwrap_or_else(|| slab.take());
        entries_mut(slab.page_mut(page))[..count].copy_from_slice(these);
        let count = u8::try_from(count).expect("a page has at most 64 entries");
        let mut slot = GroupSlot { first_high: 0, first_low: 0, count, page };
        slot.set_first(tag_of(&these[0]));
        slots.push(slot);
    }
    debug_assert!(rest.is_empty(), "every entry has a page");
    reuse.drain(..).for_each(|page| slab.release(page));
    slots
}

const _: () = assert!(size_of::<EntryBytes>() == ENTRY_BYTES && size_of::<GroupSlot>() == 12);
const _: () = assert!(size_of::<Group>() <= 64);
