//! Items of some pages, as a state.

use super::{ItemHash, PageRange, PageTable, Pages, Root};
use crate::data_type::codec::Excerpt;
use crate::data_type::content::{Content, Field};
use crate::data_type::{State, StoredFormError};
use crate::props::Datatype;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Pages are split when they hold more than so many bytes on average. The fullest hold about twice as much: a
/// change of one item writes less than 8 KiB, with the root and a split.
const PAGE_BYTES_TARGET: u64 = 1_400;

/// Pages are joined when they hold fewer bytes on average: far below the target, so that a record whose size
/// goes up and down is not split and joined all the time.
const PAGE_BYTES_MIN: u64 = PAGE_BYTES_TARGET / 3;

/// A state with some items of a record in pages.
///
/// Operations, deltas and merges of those items go through [`Loaded::state_mut`]; then [`Loaded::store`]
/// writes the pages back. Read all that is going to change.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The root, whose figures are those of all other items.
    root: Root,
    state: State,
    pages: Known,
}

/// The pages that were read, by their lowest hash.
type Known = BTreeMap<ItemHash, KnownPage>;

/// What was read of a page.
#[derive(Clone, Debug)]
enum KnownPage {
    /// There is none.
    Absent,
    /// All of it: its stored form.
    Whole(Bytes),
    /// Some of its items.
    Part(Excerpt),
}

/// Items of a page and its stored form, which has further ones if it is not whole.
struct Page {
    content: Content,
    is_whole: bool,
    encoded: Vec<u8>,
}

impl Loaded {
    /// Reads the pages of some items.
    ///
    /// # Errors
    ///
    /// When a page can't be read, or is none of such a record.
    pub fn read<P: Pages>(root: Root, items: &[ItemHash], pages: &mut P) -> Result<Self, P::Error> {
        let state = root.shell.clone();
        let mut loaded = Self { root, state, pages: Known::new() };
        for item in items {
            let range = loaded.root.table.page_of(*item);
            if let Entry::Vacant(place) = loaded.pages.entry(range.first()) {
                let Some((content, stored)) = loaded.root.take_page(range, pages)? else {
                    place.insert(KnownPage::Absent);
                    continue;
                };
                place.insert(KnownPage::Whole(stored));
                loaded.state.record.content.append(content);
            }
        }
        loaded.state = State::from_record(loaded.root.datatype(), loaded.state.record);
        Ok(loaded)
    }

    /// Reads some items, and those beside them that wait for events; `items` are sorted.
    ///
    /// # Errors
    ///
    /// As [`Loaded::read`].
    pub fn read_items<P: Pages>(
        root: Root,
        items: &[ItemHash],
        pages: &mut P,
    ) -> Result<Self, P::Error> {
        let state = root.shell.clone();
        let mut loaded = Self { root, state, pages: Known::new() };
        for item in items {
            let range = loaded.root.table.page_of(*item);
            if let Entry::Vacant(place) = loaded.pages.entry(range.first()) {
                let Some((content, excerpt)) = loaded.root.take_items(range, items, pages)? else {
                    place.insert(KnownPage::Absent);
                    continue;
                };
                place.insert(KnownPage::Part(excerpt));
                loaded.state.record.content.append(content);
            }
        }
        loaded.state = State::from_record(loaded.root.datatype(), loaded.state.record);
        Ok(loaded)
    }

    /// Reads all pages.
    ///
    /// # Errors
    ///
    /// As [`Loaded::read`], and when some of the record are not there.
    pub fn read_all<P: Pages>(root: Root, pages: &mut P) -> Result<Self, P::Error> {
        let all: Vec<ItemHash> = root.table.pages().map(PageRange::first).collect();
        let loaded = Self::read(root, &all, pages)?;
        match loaded.is_whole() {
            true => Ok(loaded),
            false => {
                Err(StoredFormError::BadForm { what: "less than its root knows of", at: 0 }.into())
            }
        }
    }

    /// A whole state that is going to be stored in pages, none of which is there yet.
    ///
    /// # Panics
    ///
    /// When the state is of a type without items.
    #[must_use]
    pub fn from_state(state: State) -> Self {
        assert!(state.record.content.has_items(), "{:?} has no items", state.datatype());
        let root = Root {
            shell: State::empty(state.datatype()),
            table: PageTable::ONE,
            item_count: 0,
            page_bytes: 0,
            digest: 0,
        };
        Self { root, state, pages: Known::from([(ItemHash(0), KnownPage::Absent)]) }
    }

    /// The state, as far as it was read.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The state, to be changed.
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// The state. The whole one, if all pages were read.
    #[must_use]
    pub fn into_state(self) -> State {
        self.state
    }

    /// Whether what was read of the pages is all that the root knows of.
    pub(super) const fn is_whole(&self) -> bool {
        self.root.is_bare()
    }

    /// Writes the pages back, split or joined as their sizes ask for. Answers the root that belongs to them.
    ///
    /// # Errors
    ///
    /// When a page can't be read or written: what was written by then must not count.
    pub fn store<P: Pages>(self, pages: &mut P) -> Result<Root, P::Error> {
        let Self { mut root, state, pages: known } = self;
        let mut record = state.record;
        let empty = Content::of_record(root.datatype());
        let content = std::mem::replace(&mut record.content, empty);
        root.shell = State::from_record(root.datatype(), record);
        let mut written = Written { root, pages: BTreeMap::new(), size_bytes: 0, known };
        written.put_back(content)?;
        written.split(pages)?;
        written.join(pages)?;
        written.store(pages)
    }
}

/// Pages that are going to be written.
struct Written {
    root: Root,
    pages: BTreeMap<ItemHash, Page>,
    /// Bytes of these pages.
    size_bytes: u64,
    /// Pages of which the store need not be asked.
    known: Known,
}

impl Written {
    /// Puts items into the pages that they were read from.
    fn put_back(&mut self, content: Content) -> Result<(), StoredFormError> {
        let (datatype, table) = (self.root.datatype(), self.root.table);
        let mut parts = content.divide(|item| table.page_of(item).first());
        for (first, known) in &mut self.known {
            let KnownPage::Part(excerpt) = known else { continue };
            let content = parts.remove(first).unwrap_or_else(|| Content::of_record(datatype));
            if excerpt.left_count() + content.item_count() > 0 {
                let page = match excerpt.put_back(&content) {
                    Some(encoded) => Page { content, is_whole: false, encoded },
                    None => {
                        let own = Figures::of(&content);
                        let whole = excerpt.whole(content)?;
                        self.root.take(&Figures::of(&whole).without(&own))?;
                        Page::of(datatype, whole)
                    }
                };
                self.size_bytes += page.encoded.len() as u64;
                self.pages.insert(*first, page);
            }
            *known = KnownPage::Whole(excerpt.stored().clone());
        }
        self.insert(parts);
        Ok(())
    }

    /// Puts items into the pages where they belong; nothing is in those yet.
    fn divide(&mut self, content: Content) {
        let table = self.root.table;
        self.insert(content.divide(|item| table.page_of(item).first()));
    }

    fn insert(&mut self, parts: BTreeMap<ItemHash, Content>) {
        for (first, content) in parts {
            let page = Page::of(self.root.datatype(), content);
            self.known.entry(first).or_insert(KnownPage::Absent);
            self.size_bytes += page.encoded.len() as u64;
            self.pages.insert(first, page);
        }
    }

    /// The items of a page, to be put into others.
    fn take<P: Pages>(&mut self, range: PageRange, pages: &mut P) -> Result<Content, P::Error> {
        let content = match self.pages.remove(&range.first()) {
            Some(page) => {
                self.size_bytes -= page.encoded.len() as u64;
                Some(if page.is_whole {
                    page.content
                } else {
                    let whole = State::decode(&page.encoded.into())?.record.content;
                    let own = Figures::of(&page.content);
                    self.root.take(&Figures::of(&whole).without(&own))?;
                    whole
                })
            }
            None => match self.known.entry(range.first()) {
                Entry::Occupied(_) => None,
                Entry::Vacant(place) => match self.root.take_page(range, pages)? {
                    Some((content, stored)) => {
                        place.insert(KnownPage::Whole(stored));
                        Some(content)
                    }
                    None => {
                        place.insert(KnownPage::Absent);
                        None
                    }
                },
            },
        };
        Ok(content.unwrap_or_else(|| Content::of_record(self.root.datatype())))
    }

    /// Bytes of all pages of the record.
    const fn page_bytes(&self) -> u64 {
        self.root.page_bytes + self.size_bytes
    }

    fn split<P: Pages>(&mut self, pages: &mut P) -> Result<(), P::Error> {
        while self.page_bytes() / PAGE_BYTES_TARGET > u64::from(self.root.table.page_count()) {
            let Some((whole, _)) = self.root.table.split() else { break };
            let content = self.take(whole, pages)?;
            self.divide(content);
        }
        Ok(())
    }

    fn join<P: Pages>(&mut self, pages: &mut P) -> Result<(), P::Error> {
        while self.page_bytes() / PAGE_BYTES_MIN < u64::from(self.root.table.page_count()) {
            let before = self.root.table;
            let Some((whole, upper)) = self.root.table.join() else { break };
            let mut content = self.take(before.page_of(whole.first()), pages)?;
            content.append(self.take(upper, pages)?);
            self.divide(content);
        }
        Ok(())
    }

    fn store<P: Pages>(mut self, pages: &mut P) -> Result<Root, P::Error> {
        self.root.page_bytes = self.page_bytes();
        for (first, page) in &self.pages {
            let figures = Figures::of(&page.content);
            self.root.item_count += figures.item_count;
            self.root.digest = self.root.digest.wrapping_add(figures.digest);
            let stored = self.known.get(first).and_then(KnownPage::stored);
            if stored.is_none_or(|stored| **stored != *page.encoded) {
                pages.write(*first, Some(&page.encoded))?;
            }
        }
        for (first, known) in &self.known {
            if known.stored().is_some() && !self.pages.contains_key(first) {
                pages.write(*first, None)?;
            }
        }
        Ok(self.root)
    }
}

impl KnownPage {
    const fn stored(&self) -> Option<&Bytes> {
        match self {
            Self::Absent => None,
            Self::Whole(stored) => Some(stored),
            Self::Part(excerpt) => Some(excerpt.stored()),
        }
    }
}

impl Page {
    /// A page of these items and no others.
    fn of(datatype: Datatype, content: Content) -> Self {
        let page = State::from_record(datatype, Field::empty(content));
        let mut encoded = Vec::new();
        page.encode_into(&mut encoded);
        Self { content: page.record.content, is_whole: true, encoded }
    }
}

/// What items add to the figures of the root.
struct Figures {
    item_count: u64,
    digest: u64,
}

impl Figures {
    fn of(content: &Content) -> Self {
        let mut item_count = 0;
        content.each_item(|_, is_live| item_count += u64::from(is_live));
        Self { item_count, digest: content.digest() }
    }

    /// Those of all items but some of them.
    const fn without(&self, some: &Self) -> Self {
        Self {
            item_count: self.item_count.saturating_sub(some.item_count),
            digest: self.digest.wrapping_sub(some.digest),
        }
    }
}

impl Root {
    /// Reads a page, if there is one, and takes its share out of the root's figures.
    pub(super) fn take_page<P: Pages + ?Sized>(
        &mut self,
        range: PageRange,
        pages: &mut P,
    ) -> Result<Option<(Content, Bytes)>, P::Error> {
        let Some(bytes) = pages.read(range)? else { return Ok(None) };
        let page = State::decode(&bytes)?;
        let mut is_at_home = page.datatype() == self.datatype() && !page.record.is_known();
        page.record.content.each_item(|item, _| is_at_home &= range.hashes().contains(&item));
        if !is_at_home {
            return Err(foreign(&bytes).into());
        }
        let content = page.record.content;
        self.take_bytes(&bytes)?;
        self.take(&Figures::of(&content))?;
        Ok(Some((content, bytes)))
    }

    /// Reads some items of a page, if there is one, and takes their share out of the root's figures.
    fn take_items<P: Pages>(
        &mut self,
        range: PageRange,
        items: &[ItemHash],
        pages: &mut P,
    ) -> Result<Option<(Content, Excerpt)>, P::Error> {
        let Some(bytes) = pages.read(range)? else { return Ok(None) };
        let mut is_at_home = State::datatype_of(&bytes) == Some(self.datatype());
        let taken = State::take_entries(&bytes, |item| {
            is_at_home &= range.hashes().contains(&item);
            items.binary_search(&item).is_ok()
        });
        let (content, excerpt) = taken?;
        if !is_at_home {
            return Err(foreign(&bytes).into());
        }
        self.take_bytes(&bytes)?;
        self.take(&Figures::of(&content))?;
        Ok(Some((content, excerpt)))
    }

    fn take_bytes(&mut self, page: &Bytes) -> Result<(), StoredFormError> {
        let left = self.page_bytes.checked_sub(page.len() as u64);
        self.page_bytes = left.ok_or_else(unknown)?;
        Ok(())
    }

    fn take(&mut self, figures: &Figures) -> Result<(), StoredFormError> {
        self.item_count = self.item_count.checked_sub(figures.item_count).ok_or_else(unknown)?;
        self.digest = self.digest.wrapping_sub(figures.digest);
        Ok(())
    }
}

const fn unknown() -> StoredFormError {
    StoredFormError::BadForm { what: "more than its root knows of", at: 0 }
}

const fn foreign(page: &Bytes) -> StoredFormError {
    StoredFormError::BadForm { what: "items of another page", at: page.len() }
}
