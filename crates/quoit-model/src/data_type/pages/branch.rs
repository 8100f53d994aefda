//! Figures of items that are in pages, kept with the content that the items belong to.

use super::{ItemHash, PageName, PageRange, PageTable, Pages};
use crate::cursor::{Cursor, put_varint};
use crate::data_type::codec::Excerpt;
use crate::data_type::content::{Content, MapField};
use crate::data_type::{MAP_DEPTH_MAX, State, StoredFormError};
use crate::props::Datatype;
use bytes::Bytes;

/// A set or map in pages, represented by the figures of its items.
///
/// The stored form is the number, number of pages, number of items, number of items with deferred
/// events, bytes of its own pages, bytes of the pages of branches in them (varints), and the digest
/// of all items (8 bytes, little-endian).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::data_type) struct Branch {
    /// Data type of the items; sets in fields are [`Datatype::Set`].
    pub(in crate::data_type) datatype: Datatype,
    /// Number of the branch in its record; 0 for the record itself.
    pub(super) number: u64,
    pub(super) table: PageTable,
    /// Number of live elements or fields.
    pub(in crate::data_type) item_count: u64,
    /// Number of elements or fields with deferred events. Some of these events may have arrived by
    /// now. Not maintained for the record itself.
    pub(in crate::data_type) waiting_count: u64,
    /// Size in bytes of all pages, without those of branches in them.
    pub(super) page_bytes: u64,
    /// Size in bytes of all pages of branches in its pages.
    pub(super) inner_bytes: u64,
    /// The items' part of the state's digest.
    pub(in crate::data_type) digest: u64,
}

/// The items' part of a branch's figures.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Figures {
    item_count: u64,
    waiting_count: u64,
    inner_bytes: u64,
    digest: u64,
}

impl Figures {
    /// Computes the figures of items. `seed` is the hash of the field that has this content.
    pub(super) fn of(content: &Content, seed: u64) -> Self {
        let mut figures = Self { digest: content.digest(seed), ..Self::default() };
        let mut add = |is_live, is_waiting| {
            figures.item_count += u64::from(is_live);
            figures.waiting_count += u64::from(is_waiting);
        };
        match content {
            Content::Set(elements) => {
                elements.values().for_each(|item| add(item.is_live(), item.deferred().is_some()));
            }
            Content::Map(fields) => {
                fields
                    .values()
                    .for_each(|field| add(field.is_live(), field.deferred_run_count() > 0));
                figures.inner_bytes = content.inner_bytes();
            }
            _ => {}
        }
        figures
    }

    /// Size in bytes of all pages of branches in the items.
    pub(super) const fn inner_bytes(&self) -> u64 {
        self.inner_bytes
    }

    /// The figures without those of some of the items.
    pub(super) const fn without(&self, some: &Self) -> Self {
        debug_assert!(
            some.item_count <= self.item_count
                && some.waiting_count <= self.waiting_count
                && some.inner_bytes <= self.inner_bytes,
            "some of the items are no more than all"
        );
        Self {
            item_count: self.item_count.saturating_sub(some.item_count),
            waiting_count: self.waiting_count.saturating_sub(some.waiting_count),
            inner_bytes: self.inner_bytes.saturating_sub(some.inner_bytes),
            digest: self.digest.wrapping_sub(some.digest),
        }
    }
}

impl Content {
    /// Size in bytes of all pages of branches in the content.
    fn inner_bytes(&self) -> u64 {
        match self {
            Self::Map(fields) => fields.values().map(|field| field.content.inner_bytes()).sum(),
            Self::Branch(branch) => branch.all_bytes(),
            _ => 0,
        }
    }
}

impl Content {
    /// Collects the branches in the content, without those inside other branches.
    pub(super) fn take_branches(self, into: &mut Vec<Branch>) {
        match self {
            Self::Map(fields) => {
                fields.into_values().for_each(|field| field.content.take_branches(into));
            }
            Self::Branch(branch) => into.push(*branch),
            _ => {}
        }
    }
}

impl Branch {
    /// A branch without items.
    pub(in crate::data_type) const fn empty(datatype: Datatype, number: u64) -> Self {
        Self {
            datatype,
            number,
            table: PageTable::ONE,
            item_count: 0,
            waiting_count: 0,
            page_bytes: 0,
            inner_bytes: 0,
            digest: 0,
        }
    }

    /// Size in bytes of all pages, including those of branches in them.
    pub(super) const fn all_bytes(&self) -> u64 {
        self.page_bytes.saturating_add(self.inner_bytes)
    }

    /// True if the figures count no items, as after all pages were taken out.
    pub(super) const fn counts_nothing(&self) -> bool {
        self.item_count == 0 && self.all_bytes() == 0 && self.digest == 0
    }

    /// Empty content of the branch's kind.
    pub(super) fn empty_like(&self) -> Content {
        Content::of_record(self.datatype)
    }

    pub(super) const fn name_of(&self, page: ItemHash) -> PageName {
        PageName { branch: self.number, first: page }
    }

    /// Reads a page, if it exists, and subtracts its figures.
    pub(super) fn take_page<P: Pages + ?Sized>(
        &mut self,
        seed: u64,
        range: PageRange,
        pages: &mut P,
    ) -> Result<Option<(Content, Bytes)>, P::Error> {
        let Some(bytes) = pages.read(self.name_of(range.first()))? else { return Ok(None) };
        let page = State::decode_page(&bytes)?;
        let mut is_at_home = page.datatype() == self.datatype && !page.record.is_known();
        page.record.content.each_item(seed, |item, _| is_at_home &= range.hashes().contains(&item));
        if !is_at_home {
            return Err(foreign(&bytes).into());
        }
        let content = page.record.content;
        self.take_bytes(&bytes)?;
        self.take(&Figures::of(&content, seed))?;
        Ok(Some((content, bytes)))
    }

    /// Reads some items of a page, if it exists, and subtracts their figures. The size of the whole
    /// page is subtracted.
    pub(super) fn take_items<P: Pages + ?Sized>(
        &mut self,
        seed: u64,
        range: PageRange,
        items: &[ItemHash],
        pages: &mut P,
    ) -> Result<Option<(Content, Excerpt)>, P::Error> {
        let Some(bytes) = pages.read(self.name_of(range.first()))? else { return Ok(None) };
        let mut is_at_home = State::datatype_of(&bytes) == Some(self.datatype);
        let taken = State::take_entries(&bytes, seed, |item| {
            is_at_home &= range.hashes().contains(&item);
            items.binary_search(&item).is_ok()
        });
        let (content, excerpt) = taken?;
        if !is_at_home {
            return Err(foreign(&bytes).into());
        }
        self.take_bytes(&bytes)?;
        self.take(&Figures::of(&content, seed))?;
        Ok(Some((content, excerpt)))
    }

    /// Calls `look` with the names of all pages that may exist. Reads the pages that may contain
    /// branches. If such a page can't be read, `is_fatal` decides between an error and skipping it.
    /// `depth` is that of the items if they are fields; 1 for a record.
    pub(super) fn each_name<P: Pages + ?Sized>(
        &self,
        depth: usize,
        pages: &mut P,
        is_fatal: bool,
        look: &mut dyn FnMut(PageName),
    ) -> Result<(), P::Error> {
        for range in self.table.pages() {
            let name = self.name_of(range.first());
            look(name);
            if self.inner_bytes == 0 || depth > MAP_DEPTH_MAX {
                continue;
            }
            let stored = pages.read(name);
            let page = stored
                .and_then(|stored| Ok(stored.as_ref().map(State::decode_page).transpose()?));
            let page = match page {
                Ok(Some(page)) => page,
                Ok(None) => continue,
                Err(fault) if is_fatal => return Err(fault),
                Err(_) => continue,
            };
            let mut branches = Vec::new();
            page.record.content.take_branches(&mut branches);
            for branch in branches {
                branch.each_name(depth + 1, pages, is_fatal, look)?;
            }
        }
        Ok(())
    }

    /// Removes all pages. Reads those that may contain branches. `depth` is as for
    /// [`Branch::each_name`].
    pub(super) fn remove_pages<P: Pages + ?Sized>(
        &self,
        depth: usize,
        pages: &mut P,
    ) -> Result<(), P::Error> {
        for range in self.table.pages() {
            let name = self.name_of(range.first());
            if self.inner_bytes > 0
                && depth <= MAP_DEPTH_MAX
                && let Some(stored) = pages.read(name)?
            {
                let mut branches = Vec::new();
                State::decode_page(&stored)?.record.content.take_branches(&mut branches);
                for branch in branches {
                    branch.remove_pages(depth + 1, pages)?;
                }
            }
            pages.remove(name)?;
        }
        Ok(())
    }

    fn take_bytes(&mut self, page: &Bytes) -> Result<(), StoredFormError> {
        let left = self.page_bytes.checked_sub(page.len() as u64);
        self.page_bytes = left.ok_or(UNKNOWN)?;
        Ok(())
    }

    /// Subtracts the figures of items.
    pub(super) fn take(&mut self, figures: &Figures) -> Result<(), StoredFormError> {
        let less = |own: u64, items: u64| own.checked_sub(items).ok_or(UNKNOWN);
        self.item_count = less(self.item_count, figures.item_count)?;
        if self.number > 0 {
            self.waiting_count = less(self.waiting_count, figures.waiting_count)?;
        }
        self.inner_bytes = less(self.inner_bytes, figures.inner_bytes)?;
        self.digest = self.digest.wrapping_sub(figures.digest);
        Ok(())
    }

    /// Subtracts the difference between two states of another branch: `before` and `after` items
    /// were taken out of it.
    pub(super) const fn subtract_difference(&mut self, before: &Self, after: &Self) {
        debug_assert!(
            after.item_count <= before.item_count
                && after.page_bytes <= before.page_bytes
                && after.inner_bytes <= before.inner_bytes,
            "what is read of a branch is taken out of its figures"
        );
        let went = before.item_count.saturating_sub(after.item_count);
        self.item_count = self.item_count.saturating_sub(went);
        let went = before.page_bytes.saturating_sub(after.page_bytes);
        self.page_bytes = self.page_bytes.saturating_sub(went);
        let went = before.inner_bytes.saturating_sub(after.inner_bytes);
        self.inner_bytes = self.inner_bytes.saturating_sub(went);
        self.digest = self.digest.wrapping_sub(before.digest.wrapping_sub(after.digest));
    }

    /// Adds the figures of items.
    pub(super) const fn add(&mut self, figures: &Figures) {
        self.item_count += figures.item_count;
        if self.number > 0 {
            self.waiting_count += figures.waiting_count;
        }
        self.inner_bytes += figures.inner_bytes;
        self.digest = self.digest.wrapping_add(figures.digest);
    }

    /// Appends the stored form, without the data type.
    pub(in crate::data_type) fn encode_into(&self, out: &mut Vec<u8>) {
        put_varint(out, self.number);
        put_varint(out, u64::from(self.table.page_count()));
        put_varint(out, self.item_count);
        put_varint(out, self.waiting_count);
        put_varint(out, self.page_bytes);
        put_varint(out, self.inner_bytes);
        out.extend_from_slice(&self.digest.to_le_bytes());
    }

    /// Decodes the stored form.
    pub(in crate::data_type) fn decode(
        datatype: Datatype,
        cursor: &mut Cursor<'_>,
    ) -> Result<Self, StoredFormError> {
        let number = cursor.varint()?;
        let table = read_table(cursor)?;
        Ok(Self {
            datatype,
            number,
            table,
            item_count: cursor.varint()?,
            waiting_count: cursor.varint()?,
            page_bytes: cursor.varint()?,
            inner_bytes: cursor.varint()?,
            digest: u64::from_le_bytes(cursor.array()?),
        })
    }
}

/// Reads a number of pages.
pub(super) fn read_table(cursor: &mut Cursor<'_>) -> Result<PageTable, StoredFormError> {
    let table = u32::try_from(cursor.varint()?).ok().and_then(PageTable::new);
    let what = "a number of pages that can't be";
    table.ok_or_else(|| StoredFormError::BadForm { what, at: cursor.at() })
}

/// Encodes a page of these items.
pub(super) fn encode_page(datatype: Datatype, content: Content) -> (Content, Vec<u8>) {
    let page = State::from_record(datatype, MapField::empty(content));
    let mut encoded = Vec::new();
    page.encode_into(&mut encoded);
    (page.record.content, encoded)
}

const UNKNOWN: StoredFormError =
    StoredFormError::BadForm { what: "more than its root knows of", at: 0 };

const fn foreign(page: &Bytes) -> StoredFormError {
    StoredFormError::BadForm { what: "items of another page", at: page.len() }
}
