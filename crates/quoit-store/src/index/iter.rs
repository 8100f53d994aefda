//! Iterators over entries.

use super::entry::{IndexEntry, tag_of};
use super::group::{Group, GroupPlace};
use super::page::EntryBytes;
use super::partition::PartitionIndex;
use super::slab::Slab;
use crate::tag::Tag;

/// The entries of one tag.
#[derive(Clone, Debug)]
pub struct Candidates<'i> {
    slab: &'i Slab,
    group: &'i Group,
    next: GroupPlace,
    tag: Tag,
}

impl<'i> Candidates<'i> {
    pub(super) fn new(slab: &'i Slab, group: &'i Group, next: GroupPlace, tag: Tag) -> Self {
        Self { slab, group, next, tag }
    }
}

impl Iterator for Candidates<'_> {
    type Item = IndexEntry;

    fn next(&mut self) -> Option<IndexEntry> {
        let (at, bytes) = self.group.get(self.slab, self.next)?;
        if tag_of(bytes) != self.tag {
            return None;
        }
        self.next = GroupPlace { slot: at.slot, entry: at.entry + 1 };
        Some(IndexEntry::decode(bytes))
    }
}

/// Entries in ascending order of tags.
#[derive(Clone, Debug)]
pub struct Iter<'i> {
    index: &'i PartitionIndex,
    group: &'i Group,
    slot: usize,
    rest: &'i [EntryBytes],
}

impl<'i> Iter<'i> {
    pub(super) fn new(index: &'i PartitionIndex, group: &'i Group, from: GroupPlace) -> Self {
        let entries = group.entries(index.slab(), from.slot);
        Self { index, group, slot: from.slot, rest: entries.get(from.entry..).unwrap_or(&[]) }
    }

    /// The remaining entries of the current page, or all entries of the next page; `None` at the end.
    pub(super) fn next_run(&mut self) -> Option<&'i [EntryBytes]> {
        while self.rest.is_empty() {
            self.slot += 1;
            if self.slot >= self.group.page_count() {
                self.group = self.index.group_after(self.group)?;
                self.slot = 0;
            }
            self.rest = self.group.entries(self.index.slab(), self.slot);
        }
        Some(std::mem::take(&mut self.rest))
    }
}

impl Iterator for Iter<'_> {
    type Item = IndexEntry;

    fn next(&mut self) -> Option<IndexEntry> {
        if self.rest.is_empty() {
            self.rest = self.next_run()?;
        }
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(IndexEntry::decode(first))
    }
}
