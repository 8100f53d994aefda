//! Digests and leaves of hash ranges.

use super::entry::IndexEntry;
use super::group::Group;
use super::page::EntryBytes;
use super::partition::PartitionIndex;
use crate::compare::{HashRange, Leaf, LeafPage, Scope, class_place, compared_hour, contribution};
use crate::tag::Tag;

impl PartitionIndex {
    /// XOR digest of the entries of a range. Visits each group in the range (a group has several hundred
    /// entries). Reads the entries of a group that is only partly in the range, or that has expiring
    /// entries.
    #[must_use]
    pub fn range_digest(&self, scope: Scope, range: HashRange) -> u64 {
        let (first, last) = (range.first(), range.last());
        let class = class_place(scope.n_val_class);
        let mut group = Some(self.group(first));
        let mut digest = 0;
        while let Some(within) = group.filter(|group| group.prefix() <= last) {
            let is_whole = first <= within.prefix() && within.end() <= last.number() + 1;
            if is_whole {
                digest ^= within.digest().lasting().0[class];
            }
            if !is_whole || within.digest().expiring_count() > 0 {
                let is_wanted = |entry: &IndexEntry| {
                    let is_counted = is_whole && !entry.expires;
                    !is_counted && (first..=last).contains(&entry.tag) && scope.has(entry)
                };
                let entries = self.entries(within).map(IndexEntry::decode).filter(is_wanted);
                digest ^= entries.fold(0, |bits, entry| bits ^ contribution(&entry.leaf()));
            }
            group = self.group_after(within);
        }
        digest
    }

    /// The leaves of a range from tag `from` on, tombstones included. The page has about `limit` leaves: it
    /// has more only to keep the leaves of one tag together.
    #[must_use]
    pub fn leaves(&self, scope: Scope, range: HashRange, from: Tag, limit: usize) -> LeafPage {
        let entries = self.iter_from(range.first().max(from));
        let within = entries.take_while(|entry| entry.tag <= range.last());
        LeafPage::of(within.filter(|entry| scope.has(entry)).map(|entry| entry.leaf()), limit)
    }

    fn entries<'i>(&'i self, group: &'i Group) -> impl Iterator<Item = &'i EntryBytes> {
        (0..group.page_count()).flat_map(|slot| group.entries(self.slab(), slot))
    }
}

impl Scope {
    fn has(&self, entry: &IndexEntry) -> bool {
        let is_in_class = class_place(entry.n_val_class) == class_place(self.n_val_class);
        is_in_class && !entry.is_piece() && self.has_hour(entry.expires, entry.digest)
    }

    /// True if the scope includes a record of its class with this compared digest, considering its expiry.
    pub(crate) const fn has_hour(&self, expires: bool, compared: u64) -> bool {
        !expires || compared_hour(compared) >= self.hour_min
    }
}

impl LeafPage {
    /// Builds a page from leaves in ascending order of tags.
    pub(crate) fn of(leaves: impl Iterator<Item = Leaf>, limit: usize) -> Self {
        let mut page = Self::default();
        for leaf in leaves {
            let is_other = page.leaves.last().is_some_and(|last| last.tag != leaf.tag);
            if page.leaves.len() >= limit.max(1) && is_other {
                page.next = Some(leaf.tag);
                break;
            }
            page.leaves.push(leaf);
        }
        page.leaves.sort_unstable();
        page
    }
}
