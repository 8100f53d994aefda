//! The index of one partition: a directory of groups by the highest bits of the tag.

use super::entry::{IndexEntry, Location, set_collided, tag_of};
use super::group::{GROUP_PAGES_MAX, Group, GroupPlace, MERGE_ENTRIES_MAX};
use super::iter::{Candidates, Iter};
use super::page::{EntryBytes, PAGE_ENTRIES};
use super::slab::{ALLOCATION_OVERHEAD_BYTES, Slab};
use super::summary::{GroupDigest, PartitionSummary, RecordContribution};
use crate::compare::Digests;
use crate::tag::{TAG_BITS, Tag};
use quoit_number::index;
use quoit_planted::planted;

/// Minimum of the bound on the directory's slots. The bound grows by one slot for every
/// [`DIRECTORY_ENTRIES_PER_SLOT`] entries, so that crafted tags with a common prefix cannot make the
/// directory large.
const DIRECTORY_SLOTS_MIN: u64 = 64;

/// See [`DIRECTORY_SLOTS_MIN`]. Groups of evenly spread tags have several hundred entries.
const DIRECTORY_ENTRIES_PER_SLOT: u64 = 64;

/// Number of entries up to which a group is checked after each change of it, in builds with assertions.
const CHECKED_ENTRIES: usize = 16;

/// Number of entries up to which a whole index is checked at once, in builds with assertions.
const WHOLE_CHECK_ENTRIES: u64 = 4_096;

/// Index of the records of one partition: 21 bytes each, in the order of their tags.
///
/// Not synchronized: the caller locks it. No operation does I/O. A lookup touches three or four cache lines
/// that are probably not cached (a group, the first tags of its pages, one or two lines of a page).
/// Inserting and removing also move up to 1.3 KB in each page between the entry and the nearest page with
/// room. They allocate only when a page is added or freed (about once in 64 times).
#[derive(Debug)]
pub struct PartitionIndex {
    /// Number of the group for each value of the highest `directory_bits` bits of a tag.
    directory: Vec<u32>,
    directory_bits: u32,
    groups: Vec<Group>,
    slab: Slab,
    summary: PartitionSummary,
}

impl Default for PartitionIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl PartitionIndex {
    /// An empty index.
    #[must_use]
    pub fn new() -> Self {
        Self {
            directory: vec![0],
            directory_bits: 0,
            groups: vec![Group::new(Tag::MIN, 0)],
            slab: Slab::default(),
            summary: PartitionSummary::default(),
        }
    }

    /// Number of entries, including those of tombstones and pieces.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.summary.entry_count
    }

    /// Number of entries without those of pieces; tombstones count.
    #[must_use]
    pub fn key_count(&self) -> u64 {
        self.summary.key_count()
    }

    /// Number of tombstones.
    #[must_use]
    pub fn tombstone_count(&self) -> u64 {
        self.summary.tombstone_count
    }

    /// XOR digests of all entries, without those that expire before the hour `hour_min`, counted from 1970.
    /// The cost grows with the number of hours from `hour_min` on in which an entry expires.
    #[must_use]
    pub fn digests(&self, hour_min: u32) -> Digests {
        self.summary.digests(hour_min)
    }

    /// The entries with a tag, rarely more than one. If the wanted record exists, one of them is its entry.
    #[must_use]
    pub fn candidates(&self, tag: Tag) -> Candidates<'_> {
        let group = self.group(tag);
        Candidates::new(&self.slab, group, group.lower_bound(&self.slab, tag), tag)
    }

    /// Entries from `tag` on in ascending order of tags. Entries of one tag come in any order.
    #[must_use]
    pub fn iter_from(&self, tag: Tag) -> Iter<'_> {
        let group = self.group(tag);
        Iter::new(self, group, group.lower_bound(&self.slab, tag))
    }

    /// All entries in ascending order of tags.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(Tag::MIN)
    }

    /// Adds an entry. Entries with the same tag are stored side by side, with the `collided` flag set.
    pub fn insert(&mut self, entry: IndexEntry) {
        let mut group = self.group_number(entry.tag);
        let mut at = self.groups[group].lower_bound(&self.slab, entry.tag);
        let equal = self.groups[group]
            .get(&self.slab, at)
            .filter(|(_, found)| tag_of(found) == entry.tag)
            .map(|(equal, _)| equal);
        if let Some(equal) = equal {
            set_collided(self.groups[group].entry_mut(&mut self.slab, equal), true);
        }
        let bytes = IndexEntry { collided: equal.is_some(), ..entry }.encode();
        while !self.groups[group].insert(&mut self.slab, at, &bytes) {
            if self.groups[group].page_count() < GROUP_PAGES_MAX || !self.split(group) {
                self.groups[group].add_page(&mut self.slab, at, &bytes);
                break;
            }
            group = self.group_number(entry.tag);
            at = self.groups[group].lower_bound(&self.slab, entry.tag);
        }
        let share = RecordContribution::of(&entry);
        self.groups[group].digest_mut().add(&share);
        self.summary.add(&share);
        self.debug_check_counted(entry.tag);
    }

    /// Replaces the entry with tag `tag` and location `old` by `new`. Returns false if there is no such
    /// entry.
    ///
    /// # Panics
    ///
    /// If `new` has another tag.
    pub fn replace(&mut self, tag: Tag, old: Location, new: IndexEntry) -> bool {
        assert!(new.tag == tag, "an entry is replaced by one of the same tag");
        let Some((group, at, before)) = self.find(tag, old) else {
            return false;
        };
        let bytes = IndexEntry { collided: before.collided, ..new }.encode();
        *self.groups[group].entry_mut(&mut self.slab, at) = bytes;
        let (before, mut new) = (RecordContribution::of(&before), RecordContribution::of(&new));
        if planted!(ForgetsDigests) {
            new.bits = before.bits;
        }
        self.groups[group].digest_mut().subtract(&before);
        self.groups[group].digest_mut().add(&new);
        self.summary.subtract(&before);
        self.summary.add(&new);
        self.debug_check_changed(tag);
        true
    }

    /// Changes the location of the entry with tag `tag` and location `old` to `new`, because its record was
    /// copied. Returns false if there is no such entry: the record was changed or removed meanwhile.
    pub fn relocate(&mut self, tag: Tag, old: Location, new: Location) -> bool {
        let Some((group, at, before)) = self.find(tag, old) else {
            return false;
        };
        debug_assert!(old != new, "a copied record has another location");
        let bytes = IndexEntry { location: new, ..before }.encode();
        *self.groups[group].entry_mut(&mut self.slab, at) = bytes;
        self.debug_check_changed(tag);
        true
    }

    /// Removes and returns the entry with this tag and location.
    pub fn remove(&mut self, tag: Tag, location: Location) -> Option<IndexEntry> {
        let (group, at, entry) = self.find(tag, location)?;
        let gave_back = self.groups[group].remove(&mut self.slab, at);
        let share = RecordContribution::of(&entry);
        self.groups[group].digest_mut().subtract(&share);
        self.summary.subtract(&share);
        if entry.collided {
            self.groups[group].unmark_if_alone(&mut self.slab, tag);
        }
        if gave_back {
            self.merge_buddies(tag);
            self.shrink();
        }
        self.debug_check_counted(tag);
        Some(entry)
    }

    /// Memory of the index in bytes: this struct and all its allocations, with 16 bytes of overhead for
    /// each. Visits each group.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let groups: usize = self.groups.iter().map(Group::memory_bytes).sum();
        let bytes = size_of::<Self>()
            + self.directory.capacity() * size_of::<u32>()
            + self.groups.capacity() * size_of::<Group>()
            + groups
            + self.slab.memory_bytes()
            + self.summary.memory_bytes()
            + 2 * ALLOCATION_OVERHEAD_BYTES;
        bytes as u64
    }

    /// Number of entries that the allocated pages have room for.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        (self.slab.page_count() * PAGE_ENTRIES) as u64
    }

    /// The group for a tag.
    pub(super) fn group(&self, tag: Tag) -> &Group {
        &self.groups[self.group_number(tag)]
    }

    /// The slab with the pages.
    pub(super) fn slab(&self) -> &Slab {
        &self.slab
    }

    /// The group after `group` in the order of tags.
    pub(super) fn group_after(&self, group: &Group) -> Option<&Group> {
        let end = group.end();
        (end <= Tag::MAX.number()).then(|| self.group(Tag::from_number(end)))
    }

    /// Replaces all entries by a run of entries in ascending order of tags. Groups are split while they are
    /// too large.
    pub(super) fn fill_sorted(&mut self, run: &[EntryBytes]) {
        *self = Self::new();
        // Splitting uses the number of entries.
        self.summary.entry_count = run.len() as u64;
        self.slab.reserve(run.len().div_ceil(PAGE_ENTRIES));
        let digest = self.fill_group(0, run);
        self.summary = PartitionSummary::of(run, &digest);
        self.debug_check_all();
    }

    /// Fills an empty group with a run, and splits it as its size demands. Returns the digest of the run.
    fn fill_group(&mut self, group: usize, run: &[EntryBytes]) -> GroupDigest {
        let splits = run.len() > GROUP_PAGES_MAX * PAGE_ENTRIES
            && self.can_part(tag_of(&run[0]), tag_of(&run[run.len() - 1]));
        if !splits {
            let digest = GroupDigest::of(run);
            self.groups[group].fill(&mut self.slab, run, digest.clone());
            return digest;
        }
        let upper = self.split_empty(group);
        let border = self.groups[upper].prefix();
        let (low, high) = run.split_at(run.partition_point(|entry| tag_of(entry) < border));
        let low = self.fill_group(group, low);
        low.plus(&self.fill_group(upper, high))
    }

    fn group_number(&self, tag: Tag) -> usize {
        self.directory[index(tag.number() >> (TAG_BITS - self.directory_bits))] as usize
    }

    fn find(&self, tag: Tag, location: Location) -> Option<(usize, GroupPlace, IndexEntry)> {
        let group = self.group_number(tag);
        let mut next = self.groups[group].lower_bound(&self.slab, tag);
        while let Some((at, bytes)) = self.groups[group].get(&self.slab, next) {
            let entry = IndexEntry::decode(bytes);
            if entry.tag != tag {
                return None;
            }
            if entry.location == location {
                return Some((group, at, entry));
            }
            next = GroupPlace { slot: at.slot, entry: at.entry + 1 };
        }
        None
    }

    /// True if two tags differ in a bit that the directory has or may get.
    fn can_part(&self, first: Tag, last: Tag) -> bool {
        let common_bits = (first.number() ^ last.number()).leading_zeros() - (64 - TAG_BITS);
        let limit = DIRECTORY_SLOTS_MIN + self.summary.entry_count / DIRECTORY_ENTRIES_PER_SLOT;
        common_bits < self.directory_bits || 2u64 << common_bits <= limit
    }

    /// Splits a group by the next bit. Returns false and changes nothing if all its tags are equal, or if
    /// the directory would become too large before the first bit in which they differ.
    fn split(&mut self, group: usize) -> bool {
        let Some((first, last)) = self.groups[group].tag_bounds(&self.slab) else {
            return false;
        };
        if !self.can_part(first, last) {
            return false;
        }
        let digest = self.groups[group].digest().clone();
        let run = self.groups[group].take_all(&mut self.slab);
        let upper = self.split_empty(group);
        self.debug_check_directory(group);
        self.debug_check_directory(upper);
        let border = self.groups[upper].prefix();
        let (low, high) = run.split_at(run.partition_point(|entry| tag_of(entry) < border));
        let high_digest = GroupDigest::of(high);
        self.groups[group].fill(&mut self.slab, low, digest.minus(&high_digest));
        self.groups[upper].fill(&mut self.slab, high, high_digest);
        true
    }

    /// Splits an empty group into two. Returns the number of the upper one.
    fn split_empty(&mut self, group: usize) -> usize {
        let (prefix, depth) = (self.groups[group].prefix(), self.groups[group].depth() + 1);
        if depth > self.directory_bits {
            self.directory = self.directory.iter().flat_map(|slot| [*slot, *slot]).collect();
            self.directory_bits += 1;
        }
        let upper_prefix = Tag::from_number(prefix.number() | 1 << (TAG_BITS - depth));
        let upper = self.groups.len();
        self.groups[group] = Group::new(prefix, depth);
        self.groups.push(Group::new(upper_prefix, depth));
        self.point_to(upper);
        upper
    }

    /// Points the directory slots of a group to it.
    fn point_to(&mut self, group: usize) {
        let shift = TAG_BITS - self.directory_bits;
        let first = index(self.groups[group].prefix().number() >> shift);
        let end = index(self.groups[group].end() >> shift);
        let group = u32::try_from(group).expect("2^32 groups do not fit in memory");
        self.directory[first..end].fill(group);
    }

    /// Merges the group of `tag` with its buddy, repeatedly, while both together are small enough.
    fn merge_buddies(&mut self, tag: Tag) {
        loop {
            let lower = &self.groups[self.group_number(tag)];
            let depth = lower.depth();
            if depth == 0 {
                return;
            }
            let bit = 1 << (TAG_BITS - depth);
            let buddy = self.group(Tag::from_number(lower.prefix().number() ^ bit));
            let count = lower.entry_count() + buddy.entry_count();
            if buddy.depth() != depth || count > MERGE_ENTRIES_MAX {
                return;
            }
            self.merge(Tag::from_number(lower.prefix().number() & !bit), bit);
        }
    }

    /// Merges the group of `prefix` with the group whose prefix also has `bit`.
    fn merge(&mut self, prefix: Tag, bit: u64) {
        let lower = self.group_number(prefix);
        let upper = self.group_number(Tag::from_number(prefix.number() | bit));
        let depth = self.groups[lower].depth() - 1;
        let digest = self.groups[lower].digest().clone().plus(self.groups[upper].digest());
        let mut run = self.groups[lower].take_all(&mut self.slab);
        run.extend(self.groups[upper].take_all(&mut self.slab));
        self.groups[lower] = Group::new(prefix, depth);
        self.groups[lower].fill(&mut self.slab, &run, digest);
        self.point_to(lower);
        self.groups.swap_remove(upper);
        if upper < self.groups.len() {
            self.point_to(upper);
        }
        self.shrink_directory();
        self.debug_check_directory(self.group_number(prefix));
    }

    fn shrink_directory(&mut self) {
        // If some group has the directory's full depth, its slot differs from the slot of its buddy.
        while self.directory_bits > 0
            && self.directory.as_chunks::<2>().0.iter().all(|[even, odd]| even == odd)
        {
            self.directory = self.directory.iter().step_by(2).copied().collect();
            self.directory_bits -= 1;
        }
        if self.groups.len() < self.groups.capacity() / 4 {
            self.groups.shrink_to(self.groups.len() * 2);
        }
    }

    fn shrink(&mut self) {
        let (directory, groups) = (&self.directory, &mut self.groups);
        let shift = TAG_BITS - self.directory_bits;
        self.slab.shrink(|from, to, tag| {
            let group = directory[index(tag.number() >> shift)] as usize;
            groups[group].rename_page(from, to);
        });
    }

    /// Checks what a change that counts entries relies on, in builds with assertions: the group of `tag`
    /// if it is small, and the whole index now and then.
    fn debug_check_counted(&self, tag: Tag) {
        self.debug_check_changed(tag);
        if cfg!(debug_assertions) && self.summary.entry_count.is_power_of_two() {
            self.debug_check_all();
        }
    }

    /// Checks the group of `tag` if it is small, in builds with assertions.
    fn debug_check_changed(&self, tag: Tag) {
        if cfg!(debug_assertions) && self.group(tag).entry_count() <= CHECKED_ENTRIES {
            self.group(tag).check(&self.slab);
        }
    }

    /// Checks the whole index unless it is large, in builds with assertions.
    fn debug_check_all(&self) {
        if !cfg!(debug_assertions) || self.summary.entry_count > WHOLE_CHECK_ENTRIES {
            return;
        }
        let entry_count: usize = self.groups.iter().map(Group::entry_count).sum();
        assert_eq!(self.summary.entry_count, entry_count as u64, "the summary counts each entry");
        let (pieces, tombstones) = (self.summary.piece_count, self.summary.tombstone_count);
        assert!(
            pieces.max(tombstones) <= self.summary.entry_count,
            "pieces and tombstones are entries"
        );
        for group in 0..self.groups.len() {
            self.debug_check_directory(group);
            self.groups[group].check(&self.slab);
        }
    }

    /// Checks that exactly the directory slots of a group's range point to it, in builds with assertions.
    fn debug_check_directory(&self, group: usize) {
        if !cfg!(debug_assertions) {
            return;
        }
        assert_eq!(
            self.directory.len(),
            1 << self.directory_bits,
            "there is a slot for each prefix"
        );
        assert!(self.groups[group].depth() <= self.directory_bits, "each group has a slot");
        let shift = TAG_BITS - self.directory_bits;
        let first = index(self.groups[group].prefix().number() >> shift);
        let end = index(self.groups[group].end() >> shift);
        let is_own = |slot: &u32| *slot as usize == group;
        assert!(self.directory[first..end].iter().all(is_own), "the group has its whole range");
        let before = first.checked_sub(1).map(|before| &self.directory[before]);
        let mut around = before.into_iter().chain(self.directory.get(end));
        assert!(!around.any(is_own), "the group has no other range");
    }
}
