//! Items of some pages, as a state.

use super::branch::Branch;
use super::open::{OpenBranch, OpenSelection, OpenedBranches, ReadPage, missing_items_error};
use super::written::BranchCloser;
use super::{ItemHash, PageRange, Pages, Region, Root, WantedItems};
use crate::data_type::content::Content;
use crate::data_type::{FieldName, State};
use std::collections::BTreeMap;

/// A state with some items of a record in pages.
///
/// Operations, deltas and merges of these items use [`Loaded::state_mut`]; then [`Loaded::store`]
/// writes the pages back. All items that will change must have been read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The root. The figures of its items have moved to `open`.
    root: Root,
    state: State,
    open: OpenBranch,
    fields: BTreeMap<FieldName, OpenedBranches>,
}

impl Loaded {
    /// Reads the whole pages of some items. Among their fields, loads those completely for which
    /// `is_opened` returns true.
    /// # Errors
    ///
    /// Returns an error if a page can't be read, or does not belong to such a record.
    pub fn read_pages<P: Pages + ?Sized>(
        root: Root,
        items: &[ItemHash],
        is_opened: impl Fn(ItemHash) -> bool,
        pages: &mut P,
    ) -> Result<Self, P::Error> {
        let mut loaded = Self::of_root(root);
        for item in items {
            let range = loaded.open.branch.table.page_of(*item);
            if let Some(content) = loaded.open.read_page(0, range, pages)? {
                loaded.state.record.content.append(content);
            }
        }
        loaded.open_where(is_opened, pages)?;
        Ok(loaded.settled())
    }

    /// Reads some items and, of the same pages, all items with deferred events.
    ///
    /// # Errors
    ///
    /// As [`Loaded::read_pages`].
    pub fn read_items<P: Pages + ?Sized>(
        root: Root,
        wanted: &WantedItems,
        pages: &mut P,
    ) -> Result<Self, P::Error> {
        let mut loaded = Self::of_root(root);
        let content = &mut loaded.state.record.content;
        loaded.open.read_items(0, wanted.hashes(), content, pages)?;
        content.open_fields(0, OpenSelection::Some(wanted), 1, pages, &mut loaded.fields)?;
        Ok(loaded.settled())
    }

    /// Reads the pages of a region. They may have items outside it.
    ///
    /// # Errors
    ///
    /// As [`Loaded::read_pages`].
    pub(super) fn read_region<P: Pages + ?Sized>(
        root: Root,
        region: &Region,
        pages: &mut P,
    ) -> Result<Self, P::Error> {
        let mut loaded = Self::of_root(root);
        let content = &mut loaded.state.record.content;
        loaded.open.read_ranges(0, region.ranges(), content, pages)?;
        content.open_fields(0, OpenSelection::Region(region), 1, pages, &mut loaded.fields)?;
        Ok(loaded.settled())
    }

    /// Reads all pages.
    ///
    /// # Errors
    ///
    /// As [`Loaded::read_pages`]; also returns an error if items of the record are missing.
    pub fn read_all<P: Pages + ?Sized>(root: Root, pages: &mut P) -> Result<Self, P::Error> {
        let all: Vec<ItemHash> = root.table().pages().map(PageRange::first).collect();
        let loaded = Self::read_pages(root, &all, |_| true, pages)?;
        match loaded.is_whole() {
            true => Ok(loaded),
            false => Err(missing_items_error().into()),
        }
    }

    fn of_root(root: Root) -> Self {
        let state = root.shell.clone();
        let open = OpenBranch::new(root.trunk.clone());
        Self { root, state, open, fields: BTreeMap::new() }
    }

    /// Loads the fields for which `is_opened` returns true, with all that is in them.
    fn open_where<P: Pages + ?Sized>(
        &mut self,
        is_opened: impl Fn(ItemHash) -> bool,
        pages: &mut P,
    ) -> Result<(), P::Error> {
        let Content::Map(fields) = &mut self.state.record.content else { return Ok(()) };
        for (name, field) in fields {
            let hash = ItemHash::of_field(name);
            if !is_opened(hash) {
                continue;
            }
            let opened = field.content.open(hash.0, OpenSelection::All, 2, pages)?;
            if !opened.is_nothing() {
                self.fields.insert(name.clone(), opened);
            }
        }
        Ok(())
    }

    /// Completes the state after all pages were read.
    fn settled(self) -> Self {
        let state = State::from_record(self.root.datatype(), self.state.record);
        Self { state, ..self }
    }

    /// Prepares a whole state to be stored in pages, of which none exists yet.
    ///
    /// # Panics
    ///
    /// Panics if the data type has no items.
    #[must_use]
    pub fn from_state(state: State) -> Self {
        assert!(state.record.content.has_items(), "{:?} has no items", state.datatype());
        let root = Root::empty(state.datatype());
        let mut open = OpenBranch::new(Branch::empty(state.datatype(), 0));
        open.known.insert(ItemHash(0), ReadPage::Absent);
        Self { root, state, open, fields: BTreeMap::new() }
    }

    /// The state, with the items that were read.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The state, to be changed.
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// Returns the state. It is whole if all pages were read.
    #[must_use]
    pub fn into_state(self) -> State {
        self.state
    }

    /// True if all items that the root counts were read.
    pub(super) const fn is_whole(&self) -> bool {
        self.open.branch.counts_nothing()
    }

    /// Writes the pages back, after splitting or joining them as their sizes require. Returns the
    /// new root.
    ///
    /// # Errors
    ///
    /// Returns an error if a page can't be read or written. The caller then has to discard the
    /// pages written so far.
    pub fn store<P: Pages + ?Sized>(self, pages: &mut P) -> Result<Root, P::Error> {
        let Self { root, state, open, fields } = self;
        let datatype = root.datatype();
        let mut record = state.record;
        let content = std::mem::replace(&mut record.content, Content::of_record(datatype));
        let shell = State::from_record(datatype, record);
        let mut closer = BranchCloser { pages, last_branch: root.last_branch };
        let trunk = closer.close_record(content, open, fields)?;
        // Without a branch, the record has no pages of branches.
        let last_branch = if trunk.inner_bytes > 0 { closer.last_branch } else { 0 };
        Ok(Root { shell, trunk, last_branch })
    }
}
