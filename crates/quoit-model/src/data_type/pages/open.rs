//! Loading of branches: puts wanted items into the state, where operations and merges expect them.

use super::branch::Branch;
use super::ranges::pages_of;
use super::wanted::WantedContent;
use super::{HashRange, ItemHash, PageRange, Pages, Region, WantedItems};
use crate::data_type::codec::Excerpt;
use crate::data_type::content::Content;
use crate::data_type::{FieldName, MAP_DEPTH_MAX, StoredFormError};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Pages that were read, by their lowest hash.
pub(super) type ReadPages = BTreeMap<ItemHash, ReadPage>;

/// A page, as far as it was read.
#[derive(Clone, Debug)]
pub(super) enum ReadPage {
    /// The page does not exist.
    Absent,
    /// The whole page was read; this is its stored form.
    Whole(Bytes),
    /// Some of its items were read.
    Part(Excerpt),
}

impl ReadPage {
    pub(super) const fn stored(&self) -> Option<&Bytes> {
        match self {
            Self::Absent => None,
            Self::Whole(stored) => Some(stored),
            Self::Part(excerpt) => Some(excerpt.stored()),
        }
    }
}

/// A branch of which some items were taken out.
#[derive(Clone, Debug)]
pub(super) struct OpenBranch {
    /// Figures of the items that were not taken out.
    pub(super) branch: Branch,
    pub(super) known: ReadPages,
}

/// Branches in a content that were opened.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenedBranches {
    /// The content itself, if it was a branch.
    pub(super) branch: Option<OpenBranch>,
    /// Branches in its fields.
    pub(super) fields: BTreeMap<FieldName, Self>,
}

impl OpenedBranches {
    /// True if nothing had to be opened.
    pub(super) fn is_nothing(&self) -> bool {
        self.branch.is_none() && self.fields.is_empty()
    }
}

/// Selection of the branches and items to open.
#[derive(Clone, Copy)]
pub(super) enum OpenSelection<'w> {
    /// All.
    All,
    /// The branches with deferred events.
    Waiting,
    /// The parts that an operation wants.
    Some(&'w WantedItems),
    /// The parts in a region.
    Region(&'w Region),
}

impl<'w> OpenSelection<'w> {
    /// The selection within a field; `None` if nothing in it is selected.
    fn within(self, name: &FieldName, field: ItemHash) -> Option<Self> {
        match self {
            Self::All | Self::Waiting => Some(self),
            Self::Region(region) => match region.within(name) {
                _ if !region.has(field) => None,
                Some(inner) => Some(Self::Region(inner)),
                None => Some(Self::All),
            },
            Self::Some(wanted) => match wanted.within(field)? {
                WantedContent::All => Some(Self::All),
                WantedContent::Some(wanted) => Some(Self::Some(wanted)),
            },
        }
    }
}

impl OpenBranch {
    /// A branch of which nothing was read.
    pub(super) const fn new(branch: Branch) -> Self {
        Self { branch, known: ReadPages::new() }
    }

    /// Reads some items and, of the same pages, all items with deferred events.
    pub(super) fn read_items<P: Pages + ?Sized>(
        &mut self,
        seed: u64,
        items: &[ItemHash],
        into: &mut Content,
        pages: &mut P,
    ) -> Result<(), P::Error> {
        for item in items {
            let range = self.branch.table.page_of(*item);
            if let Entry::Vacant(place) = self.known.entry(range.first()) {
                match self.branch.take_items(seed, range, items, pages)? {
                    Some((content, excerpt)) => {
                        place.insert(ReadPage::Part(excerpt));
                        into.append(content);
                    }
                    None => {
                        place.insert(ReadPage::Absent);
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the pages that some ranges touch; the ranges are in order.
    pub(super) fn read_ranges<P: Pages + ?Sized>(
        &mut self,
        seed: u64,
        ranges: &[HashRange],
        into: &mut Content,
        pages: &mut P,
    ) -> Result<(), P::Error> {
        for range in pages_of(self.branch.table, ranges) {
            if let Some(content) = self.read_page(seed, range, pages)? {
                into.append(content);
            }
        }
        Ok(())
    }

    /// Reads a page. Returns its items; `None` if the page does not exist or was read before.
    pub(super) fn read_page<P: Pages + ?Sized>(
        &mut self,
        seed: u64,
        range: PageRange,
        pages: &mut P,
    ) -> Result<Option<Content>, P::Error> {
        let Entry::Vacant(place) = self.known.entry(range.first()) else { return Ok(None) };
        let Some((content, stored)) = self.branch.take_page(seed, range, pages)? else {
            place.insert(ReadPage::Absent);
            return Ok(None);
        };
        place.insert(ReadPage::Whole(stored));
        Ok(Some(content))
    }
}

impl Content {
    /// Opens the selected parts. `depth` is that of the content if it is a map; 1 for a record.
    pub(super) fn open<P: Pages + ?Sized>(
        &mut self,
        seed: u64,
        selection: OpenSelection<'_>,
        depth: usize,
        pages: &mut P,
    ) -> Result<OpenedBranches, P::Error> {
        let mut opened = OpenedBranches::default();
        if depth > MAP_DEPTH_MAX + 1 {
            return Err(StoredFormError::BadForm { what: "maps nested too deeply", at: 0 }.into());
        }
        if let Self::Branch(branch) = self {
            if matches!(selection, OpenSelection::Waiting) && branch.waiting_count == 0 {
                return Ok(opened);
            }
            let mut open = OpenBranch::new((**branch).clone());
            let mut items = branch.empty_like();
            match selection {
                OpenSelection::Some(wanted) => {
                    open.read_items(seed, wanted.hashes(), &mut items, pages)?;
                }
                OpenSelection::Region(region) => {
                    open.read_ranges(seed, region.ranges(), &mut items, pages)?;
                }
                OpenSelection::All | OpenSelection::Waiting => {
                    open.read_ranges(seed, &[HashRange::ALL], &mut items, pages)?;
                    if !open.branch.counts_nothing() {
                        return Err(missing_items_error().into());
                    }
                }
            }
            opened.branch = Some(open);
            *self = items;
        }
        self.open_fields(seed, selection, depth, pages, &mut opened.fields)?;
        Ok(opened)
    }

    /// Opens the selected parts of the fields, if the content is a map.
    pub(super) fn open_fields<P: Pages + ?Sized>(
        &mut self,
        seed: u64,
        selection: OpenSelection<'_>,
        depth: usize,
        pages: &mut P,
        opened: &mut BTreeMap<FieldName, OpenedBranches>,
    ) -> Result<(), P::Error> {
        let Self::Map(fields) = self else { return Ok(()) };
        for (name, field) in fields {
            if !matches!(field.content, Self::Branch(_) | Self::Map(_)) {
                continue;
            }
            let hash = ItemHash::of_field_in(name, seed);
            let Some(selection) = selection.within(name, hash) else { continue };
            let inner = field.content.open(hash.0, selection, depth + 1, pages)?;
            if !inner.is_nothing() {
                opened.insert(name.clone(), inner);
            }
        }
        Ok(())
    }
}

/// Returns the error that a page lacks items of which its root knows.
pub(super) const fn missing_items_error() -> StoredFormError {
    StoredFormError::BadForm { what: "less than its root knows of", at: 0 }
}
