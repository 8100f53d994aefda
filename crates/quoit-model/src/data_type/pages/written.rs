//! Writing of pages: puts items back into pages, and moves the content of large fields into
//! branches.

use super::branch::{Branch, Figures, encode_page};
use super::open::{OpenBranch, OpenedBranches, ReadPage, ReadPages};
use super::{ItemHash, PageRange, Pages};
use crate::data_type::content::{Content, MapField};
use crate::data_type::item::Item;
use crate::data_type::{FieldName, State, StoredFormError};
use crate::props::Datatype;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Average size of pages, in bytes, above which a page is split. The fullest pages are about twice
/// as large. A change of one item writes less than 8 KiB, with the root and a split.
pub(super) const PAGE_BYTES_TARGET: u64 = 1_400;

/// Average size of pages, in bytes, below which pages are joined. It is far below the target, so
/// that a record whose size goes up and down is not split and joined all the time.
const PAGE_BYTES_MIN: u64 = PAGE_BYTES_TARGET / 3;

/// Approximate size in bytes from which the content of a field becomes a branch, so that no field
/// makes its page much larger than others.
const BRANCH_BYTES: usize = 1_024;

/// Total size in bytes of a branch's pages below which its items move into the page of its field.
const BRANCH_BYTES_MIN: u64 = BRANCH_BYTES as u64 / 2;

/// Number of pages that are split or joined before they are written, where there may be many.
const FITTED_AT_ONCE: usize = 16;

/// Approximate size in bytes of a branch's figures in the page of its field.
const BRANCH_FIGURES_BYTES: usize = 24;

/// Number of pages up to which the items of pages are checked in debug builds.
const CHECKED_PAGE_COUNT_MAX: usize = 4;

/// Closes the branches of a record that were opened.
pub(super) struct BranchCloser<'p, P: ?Sized> {
    pub(super) pages: &'p mut P,
    /// Highest number of a branch of the record.
    pub(super) last_branch: u64,
}

impl<P: Pages + ?Sized> BranchCloser<'_, P> {
    /// Puts the items of a record back into its pages. Returns the figures of all items.
    pub(super) fn close_record(
        &mut self,
        mut content: Content,
        open: OpenBranch,
        fields: BTreeMap<FieldName, OpenedBranches>,
    ) -> Result<Branch, P::Error> {
        self.close_fields(&mut content, 0, fields)?;
        let mut written = PagesToWrite::put_back(open, 0, content)?;
        written.fit(self.pages)?;
        written.store(self.pages)
    }

    /// Closes the branches of fields. A field that was opened may have been removed since.
    fn close_fields(
        &mut self,
        content: &mut Content,
        seed: u64,
        opened: BTreeMap<FieldName, OpenedBranches>,
    ) -> Result<(), P::Error> {
        let Content::Map(fields) = content else { return Ok(()) };
        for (name, opened) in opened {
            let none = || MapField::empty(Content::empty(name.kind));
            let field = fields.entry(name.clone()).or_insert_with(none);
            let seed = ItemHash::of_field_in(&name, seed).0;
            self.close_fields(&mut field.content, seed, opened.fields)?;
            if let Some(open) = opened.branch {
                let items = std::mem::replace(&mut field.content, Content::empty(name.kind));
                field.content = self.close_branch(items, open, seed)?;
            }
            if field.is_void() {
                fields.remove(&name);
            }
        }
        for (name, field) in fields {
            self.divide(&mut field.content, ItemHash::of_field_in(name, seed).0)?;
        }
        Ok(())
    }

    /// Puts items back into the pages of their branch. Returns the branch, or its items if they are
    /// few.
    fn close_branch(
        &mut self,
        items: Content,
        open: OpenBranch,
        seed: u64,
    ) -> Result<Content, P::Error> {
        let mut written = PagesToWrite::put_back(open, seed, items)?;
        if written.all_bytes() < BRANCH_BYTES_MIN {
            let content = written.take_all(self.pages)?;
            written.store(self.pages)?;
            return Ok(content);
        }
        written.fit(self.pages)?;
        Ok(Content::Branch(Box::new(written.store(self.pages)?)))
    }

    /// Moves large contents of a field into branches, the deepest first.
    fn divide(&mut self, content: &mut Content, seed: u64) -> Result<(), P::Error> {
        if !self.pages.can_have_branches() || !content.is_beyond(BRANCH_BYTES) {
            return Ok(());
        }
        if let Content::Map(fields) = content {
            for (name, field) in fields {
                self.divide(&mut field.content, ItemHash::of_field_in(name, seed).0)?;
            }
        }
        if !content.has_items() || !content.is_beyond(BRANCH_BYTES) {
            return Ok(());
        }
        let none = content.empty_like();
        let items = std::mem::replace(content, none);
        *content = Content::Branch(Box::new(self.branch_of(items, seed)?));
        Ok(())
    }

    /// Makes a new branch of some elements or fields.
    pub(super) fn branch_of(&mut self, items: Content, seed: u64) -> Result<Branch, P::Error> {
        let datatype = if matches!(items, Content::Map(_)) { Datatype::Map } else { Datatype::Set };
        self.last_branch += 1;
        let mut open = OpenBranch::new(Branch::empty(datatype, self.last_branch));
        open.known.insert(ItemHash(0), ReadPage::Absent);
        let mut written = PagesToWrite::put_back(open, seed, items)?;
        written.fit(self.pages)?;
        written.store(self.pages)
    }

    /// Puts items back into the pages that they were read from, without splitting pages.
    pub(super) fn put_back(
        &mut self,
        mut items: Content,
        open: OpenBranch,
        seed: u64,
    ) -> Result<Branch, P::Error> {
        self.close_fields(&mut items, seed, BTreeMap::new())?;
        PagesToWrite::put_back(open, seed, items)?.store(self.pages)
    }

    /// Splits pages until the branch has at least `page_count`.
    pub(super) fn widen(
        &mut self,
        mut branch: Branch,
        page_count: u32,
        seed: u64,
    ) -> Result<Branch, P::Error> {
        while branch.table.page_count() < page_count {
            let mut written = PagesToWrite::of_none(branch, seed)?;
            for _ in 0..FITTED_AT_ONCE {
                if !written.split(self.pages)? {
                    break;
                }
            }
            branch = written.store(self.pages)?;
        }
        Ok(branch)
    }

    /// Splits and joins pages as their sizes require, a few at a time. Returns the branch, or its
    /// items if they are few and the branch is not the record itself.
    pub(super) fn settle_branch(
        &mut self,
        mut branch: Branch,
        seed: u64,
    ) -> Result<Content, P::Error> {
        if branch.number > 0 && branch.all_bytes() < BRANCH_BYTES_MIN {
            let mut written = PagesToWrite::of_none(branch, seed)?;
            let content = written.take_all(self.pages)?;
            written.store(self.pages)?;
            return Ok(content);
        }
        loop {
            let mut written = PagesToWrite::of_none(branch, seed)?;
            let fits = written.fit_some(FITTED_AT_ONCE, self.pages)?;
            branch = written.store(self.pages)?;
            if fits {
                return Ok(Content::Branch(Box::new(branch)));
            }
        }
    }
}

impl Content {
    /// True if the content takes more than about this many bytes. Stops as soon as that is certain.
    fn is_beyond(&self, size_bytes: usize) -> bool {
        let mut left = Some(size_bytes);
        self.spend(&mut left);
        left.is_none()
    }

    /// Subtracts the approximate size of the content from `left`, which becomes `None` when it
    /// would be negative.
    fn spend(&self, left: &mut Option<usize>) {
        let mut take = |bytes: usize| *left = left.and_then(|left| left.checked_sub(bytes));
        match self {
            Self::Set(elements) => {
                for (element, item) in elements {
                    if left.is_none() {
                        return;
                    }
                    let bytes = 2 + element.len() + bytes_of(item);
                    *left = left.and_then(|left| left.checked_sub(bytes));
                }
            }
            Self::Map(fields) => {
                for (name, field) in fields {
                    if left.is_none() {
                        return;
                    }
                    let bytes = 4 + name.name.len() + bytes_of(&field.presence);
                    *left = left.and_then(|left| left.checked_sub(bytes));
                    field.content.spend(left);
                }
            }
            Self::Counter(item) => take(bytes_of(item) + 4 * item.live().len()),
            Self::Register(item) => {
                take(bytes_of(item));
                item.live().iter().for_each(|write| take(8 + write.payload.value.len()));
            }
            Self::Flag(item) => take(bytes_of(item)),
            Self::Hll(item) => take(bytes_of(item)),
            Self::Branch(_) => take(BRANCH_FIGURES_BYTES),
        }
    }
}

/// Approximate size in bytes of an item's events.
fn bytes_of<T>(item: &Item<T>) -> usize {
    let deferred = item.deferred().map_or(0, |deferred| 16 * deferred.run_count());
    3 * item.live().len() + deferred
}

/// Decoded items of a page, and its stored form. If `is_whole` is false, the stored form has
/// further items.
struct Page {
    content: Content,
    is_whole: bool,
    encoded: Vec<u8>,
}

impl Page {
    /// Makes a whole page from these items.
    fn of(datatype: Datatype, content: Content) -> Self {
        let (content, encoded) = encode_page(datatype, content);
        Self { content, is_whole: true, encoded }
    }
}

/// Pages of a branch that will be written.
struct PagesToWrite {
    /// Figures of the items that are in none of these pages.
    branch: Branch,
    seed: u64,
    pages: BTreeMap<ItemHash, Page>,
    /// Size of these pages in bytes.
    size_bytes: u64,
    /// Pages that need not be read from the store again.
    known: ReadPages,
}

impl PagesToWrite {
    /// Starts without any pages.
    fn of_none(branch: Branch, seed: u64) -> Result<Self, StoredFormError> {
        let none = branch.empty_like();
        Self::put_back(OpenBranch::new(branch), seed, none)
    }

    /// Puts items back into the pages that they were read from.
    fn put_back(open: OpenBranch, seed: u64, content: Content) -> Result<Self, StoredFormError> {
        let OpenBranch { branch, known } = open;
        let mut written = Self { branch, seed, pages: BTreeMap::new(), size_bytes: 0, known };
        let table = written.branch.table;
        let mut parts = content.divide(seed, |item| table.page_of(item).first());
        for (first, known) in &mut written.known {
            let ReadPage::Part(excerpt) = known else { continue };
            let content = parts.remove(first).unwrap_or_else(|| written.branch.empty_like());
            if excerpt.left_count() + content.item_count() > 0 {
                let page = match excerpt.put_back(&content) {
                    Some(encoded) => Page { content, is_whole: false, encoded },
                    None => {
                        let own = Figures::of(&content, seed);
                        let whole = excerpt.whole(content)?;
                        written.branch.take(&Figures::of(&whole, seed).without(&own))?;
                        Page::of(written.branch.datatype, whole)
                    }
                };
                written.size_bytes += page.encoded.len() as u64;
                written.pages.insert(*first, page);
            }
            *known = ReadPage::Whole(excerpt.stored().clone());
        }
        // The other items of a page that was not read would be lost.
        debug_assert!(
            parts.keys().all(|first| written.known.contains_key(first)),
            "only pages that were read are written"
        );
        written.insert(parts);
        Ok(written)
    }

    /// Puts items into their pages, which are still empty.
    fn divide(&mut self, content: Content) {
        let table = self.branch.table;
        self.insert(content.divide(self.seed, |item| table.page_of(item).first()));
    }

    fn insert(&mut self, parts: BTreeMap<ItemHash, Content>) {
        for (first, content) in parts {
            let page = Page::of(self.branch.datatype, content);
            self.known.entry(first).or_insert(ReadPage::Absent);
            self.size_bytes += page.encoded.len() as u64;
            let before = self.pages.insert(first, page);
            debug_assert!(before.is_none(), "items are divided among pages that are still empty");
        }
    }

    /// Takes all items out of a page.
    fn take<P: Pages + ?Sized>(
        &mut self,
        range: PageRange,
        pages: &mut P,
    ) -> Result<Content, P::Error> {
        let content = match self.pages.remove(&range.first()) {
            Some(page) => {
                self.size_bytes -= page.encoded.len() as u64;
                Some(if page.is_whole {
                    page.content
                } else {
                    let whole = State::decode_page(&Bytes::from(page.encoded))?.record.content;
                    let own = Figures::of(&page.content, self.seed);
                    self.branch.take(&Figures::of(&whole, self.seed).without(&own))?;
                    whole
                })
            }
            None => match self.known.entry(range.first()) {
                Entry::Occupied(_) => None,
                Entry::Vacant(place) => match self.branch.take_page(self.seed, range, pages)? {
                    Some((content, stored)) => {
                        place.insert(ReadPage::Whole(stored));
                        Some(content)
                    }
                    None => {
                        place.insert(ReadPage::Absent);
                        None
                    }
                },
            },
        };
        Ok(content.unwrap_or_else(|| self.branch.empty_like()))
    }

    /// Takes all items out of all pages.
    fn take_all<P: Pages + ?Sized>(&mut self, pages: &mut P) -> Result<Content, P::Error> {
        let mut content = self.branch.empty_like();
        for range in self.branch.table.pages() {
            content.append(self.take(range, pages)?);
        }
        Ok(content)
    }

    /// Size of all pages in bytes.
    const fn page_bytes(&self) -> u64 {
        self.branch.page_bytes + self.size_bytes
    }

    /// Size of all pages in bytes, including those of branches in them.
    fn all_bytes(&self) -> u64 {
        let of_page = |page: &Page| Figures::of(&page.content, self.seed).inner_bytes();
        let inner_bytes: u64 = self.pages.values().map(of_page).sum();
        self.page_bytes() + self.branch.inner_bytes + inner_bytes
    }

    /// Splits and joins pages as their sizes require.
    fn fit<P: Pages + ?Sized>(&mut self, pages: &mut P) -> Result<(), P::Error> {
        self.fit_some(usize::MAX, pages).map(|_| ())
    }

    /// As [`PagesToWrite::fit`], for at most `count_max` pages. Returns true if all pages have the right
    /// size now.
    fn fit_some<P: Pages + ?Sized>(
        &mut self,
        count_max: usize,
        pages: &mut P,
    ) -> Result<bool, P::Error> {
        let mut left = count_max;
        while self.page_bytes() / PAGE_BYTES_TARGET > u64::from(self.branch.table.page_count()) {
            if left == 0 {
                return Ok(false);
            }
            left -= 1;
            if !self.split(pages)? {
                break;
            }
        }
        while self.page_bytes() / PAGE_BYTES_MIN < u64::from(self.branch.table.page_count()) {
            if left == 0 {
                return Ok(false);
            }
            left -= 1;
            if !self.join(pages)? {
                break;
            }
        }
        Ok(true)
    }

    /// Splits the next page in the fixed order. Returns false if there can be no more pages.
    fn split<P: Pages + ?Sized>(&mut self, pages: &mut P) -> Result<bool, P::Error> {
        let Some((whole, _)) = self.branch.table.split() else { return Ok(false) };
        let content = self.take(whole, pages)?;
        self.divide(content);
        Ok(true)
    }

    /// Undoes the last split. Returns false if there is one page.
    fn join<P: Pages + ?Sized>(&mut self, pages: &mut P) -> Result<bool, P::Error> {
        let before = self.branch.table;
        let Some((whole, upper)) = self.branch.table.join() else { return Ok(false) };
        let mut content = self.take(before.page_of(whole.first()), pages)?;
        content.append(self.take(upper, pages)?);
        self.divide(content);
        Ok(true)
    }

    /// In debug builds, asserts that the pages are those of the table, and that they are known: a
    /// page that is known and not among them is removed from the store. Of few pages also asserts
    /// that every item is in its page.
    fn assert_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let encoded_bytes: u64 = self.pages.values().map(|page| page.encoded.len() as u64).sum();
        assert_eq!(self.size_bytes, encoded_bytes, "the size is that of all pages to write");
        for (first, page) in &self.pages {
            let range = self.branch.table.page_of(*first);
            assert_eq!(range.first(), *first, "a page has the name that the table gives it");
            assert!(self.known.contains_key(first), "a page to write is known");
            if self.pages.len() <= CHECKED_PAGE_COUNT_MAX {
                page.content.each_item(self.seed, |item, _| {
                    assert!(range.hashes().contains(&item), "an item is in the page of its hash");
                });
            }
        }
    }

    fn store<P: Pages + ?Sized>(mut self, pages: &mut P) -> Result<Branch, P::Error> {
        self.assert_invariants();
        self.branch.page_bytes = self.page_bytes();
        for (first, page) in &self.pages {
            self.branch.add(&Figures::of(&page.content, self.seed));
            let stored = self.known.get(first).and_then(ReadPage::stored);
            if stored.is_none_or(|stored| **stored != *page.encoded) {
                pages.write(self.branch.name_of(*first), Some(&page.encoded))?;
            }
        }
        for (first, known) in &self.known {
            if known.stored().is_some() && !self.pages.contains_key(first) {
                pages.write(self.branch.name_of(*first), None)?;
            }
        }
        Ok(self.branch)
    }
}
