//! The page of an item.
//!
//! The division is linear hashing (Litwin, 1980) in the order of hashes. A page has all items whose
//! hashes begin with the same bits. Pages are split and joined one at a time in a fixed order, so
//! the number of pages determines the range of every page, and no directory has to be stored.

use std::ops::RangeInclusive;

/// Hash of an item's name. It is the same on every node, so nodes can refer to ranges of hashes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ItemHash(pub u64);

/// The range of a page: all hashes that begin with the same bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageRange {
    first: u64,
    depth: u32,
}

impl PageRange {
    /// The lowest hash of the page, which is its name. When a page is split, the lower half keeps
    /// the name.
    #[must_use]
    pub const fn first(self) -> ItemHash {
        ItemHash(self.first)
    }

    /// The highest hash of the page.
    #[must_use]
    pub const fn last(self) -> ItemHash {
        match u64::MAX.checked_shr(self.depth) {
            Some(free) => ItemHash(self.first | free),
            None => ItemHash(self.first),
        }
    }

    /// All hashes of the page.
    #[must_use]
    pub const fn hashes(self) -> RangeInclusive<ItemHash> {
        self.first()..=self.last()
    }

    /// The two halves of the page.
    fn halves(self) -> (Self, Self) {
        let depth = self.depth + 1;
        let upper = self.first | 1 << (64 - depth);
        (Self { first: self.first, depth }, Self { first: upper, depth })
    }
}

/// Number of pages, which determines how the hashes are divided among them.
///
/// With 2^L + s pages, s below 2^L, the first s of 2^L equal ranges are split in two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageTable {
    page_count: u32,
}

impl PageTable {
    /// A single page for all hashes.
    pub const ONE: Self = Self { page_count: 1 };

    /// A table of this many pages; `None` for 0.
    #[must_use]
    pub const fn new(page_count: u32) -> Option<Self> {
        if page_count == 0 { None } else { Some(Self { page_count }) }
    }

    /// The number of pages.
    #[must_use]
    pub const fn page_count(self) -> u32 {
        self.page_count
    }

    /// The page of a hash.
    #[must_use]
    pub const fn page_of(self, hash: ItemHash) -> PageRange {
        let level = self.page_count.ilog2();
        let split_count = (self.page_count - (1 << level)) as u64;
        let prefix = prefix_of(hash.0, level);
        let depth = if prefix < split_count { level + 1 } else { level };
        let page = PageRange { first: first_of(prefix_of(hash.0, depth), depth), depth };
        debug_assert!(page.first <= hash.0 && hash.0 <= page.last().0, "a page has its hashes");
        page
    }

    /// All pages, in the order of hashes.
    pub fn pages(self) -> impl Iterator<Item = PageRange> {
        let first = self.page_of(ItemHash(0));
        std::iter::successors(Some(first), move |page| self.page_after(*page))
    }

    /// The next page in the order of hashes.
    #[must_use]
    pub const fn page_after(self, page: PageRange) -> Option<PageRange> {
        match page.last().0.checked_add(1) {
            Some(first) => Some(self.page_of(ItemHash(first))),
            None => None,
        }
    }

    /// Splits the next page in the fixed order. Returns the range before the split, and its upper
    /// half, which becomes a page. Returns `None` if there can be no more pages.
    #[must_use]
    pub fn split(&mut self) -> Option<(PageRange, PageRange)> {
        let level = self.page_count.ilog2();
        let page_count = self.page_count.checked_add(1)?;
        let prefix = u64::from(self.page_count - (1 << level));
        let whole = PageRange { first: first_of(prefix, level), depth: level };
        debug_assert_eq!(self.page_of(whole.first()), whole, "a split divides a page");
        self.page_count = page_count;
        let (lower, upper) = whole.halves();
        debug_assert_eq!(self.page_of(whole.first()), lower, "the lower half keeps the name");
        debug_assert_eq!(self.page_of(whole.last()), upper, "the upper half is a page");
        Some((whole, upper))
    }

    /// Undoes the last split. Returns the joined range, and the upper half that it absorbs. Returns
    /// `None` if there is only one page.
    #[must_use]
    pub fn join(&mut self) -> Option<(PageRange, PageRange)> {
        let mut fewer = Self::new(self.page_count - 1)?;
        let joined = fewer.split();
        self.page_count -= 1;
        joined
    }
}

/// The highest `depth` bits of a hash.
const fn prefix_of(hash: u64, depth: u32) -> u64 {
    match hash.checked_shr(64 - depth) {
        Some(prefix) => prefix,
        None => 0,
    }
}

/// The lowest hash with a prefix of `depth` bits.
const fn first_of(prefix: u64, depth: u32) -> u64 {
    match prefix.checked_shl(64 - depth) {
        Some(first) => first,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pages(table: PageTable) -> Vec<PageRange> {
        table.pages().collect()
    }

    proptest! {
        #[test]
        fn pages_cover_all_hashes_without_gaps(page_count in 1..5_000u32, hash: u64) {
            let table = PageTable::new(page_count).unwrap();
            let all = pages(table);
            prop_assert_eq!(all.len(), page_count as usize);
            prop_assert_eq!(all[0].first(), ItemHash(0));
            prop_assert_eq!(all[all.len() - 1].last(), ItemHash(u64::MAX));
            for pair in all.windows(2) {
                prop_assert_eq!(pair[0].last().0 + 1, pair[1].first().0);
            }
            let page = table.page_of(ItemHash(hash));
            prop_assert!(page.hashes().contains(&ItemHash(hash)));
            prop_assert!(all.contains(&page));
        }

        #[test]
        fn no_page_is_more_than_twice_as_wide_as_another(page_count in 1..5_000u32) {
            let all = pages(PageTable::new(page_count).unwrap());
            let width = |page: &PageRange| page.last().0 - page.first().0;
            let widths = all.iter().map(width);
            let (narrow, wide) = (widths.clone().min().unwrap(), widths.max().unwrap());
            prop_assert!(wide / 2 <= narrow);
        }

        #[test]
        fn a_split_divides_one_page_and_a_join_undoes_it(page_count in 1..5_000u32) {
            let before = PageTable::new(page_count).unwrap();
            let mut after = before;
            let (whole, upper) = after.split().unwrap();
            prop_assert_eq!(after.page_count(), page_count + 1);
            let mut expected = pages(before);
            let place = expected.iter().position(|page| *page == whole).unwrap();
            let lower = after.page_of(whole.first());
            prop_assert_eq!((lower.first(), upper.last()), (whole.first(), whole.last()));
            expected.splice(place..=place, [lower, upper]);
            prop_assert_eq!(pages(after), expected);
            prop_assert_eq!(after.join(), Some((whole, upper)));
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn there_is_always_a_page_and_an_end_to_splitting() {
        assert_eq!(PageTable::new(0), None);
        let mut one = PageTable::ONE;
        assert_eq!(one.join(), None);
        assert_eq!(one.page_of(ItemHash(u64::MAX)), one.page_of(ItemHash(0)));
        let mut most = PageTable::new(u32::MAX).unwrap();
        assert_eq!(most.split(), None);
    }
}
