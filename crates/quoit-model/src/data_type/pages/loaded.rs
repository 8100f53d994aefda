//! Items of some pages, as a state.

use super::branch::Branch;
use super::open::{KnownPage, OpenBranch, Opened, Opening, less_than_known};
use super::written::Closing;
use super::{ItemHash, PageRange, Pages, Region, Root, WantedItems};
use crate::data_type::content::Content;
use crate::data_type::{FieldName, State};
use std::collections::BTreeMap;

/// A state with some items of a record in pages.
///
/// Operations, deltas and merges of those items go through [`Loaded::state_mut`]; then [`Loaded::store`]
/// writes the pages back. Read all that is going to change.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The root; its figures are in what is open.
    root: Root,
    state: State,
    open: OpenBranch,
    fields: BTreeMap<FieldName, Opened>,
}

impl Loaded {
    /// Reads the pages of some items, and of the fields among these all that `is_opened` says.
    ///
    /// # Errors
    ///
    /// When a page can't be read, or is none of such a record.
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

    /// Reads some items, and those beside them that wait for events.
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
        content.open_fields(0, Opening::Some(wanted), 1, pages, &mut loaded.fields)?;
        Ok(loaded.settled())
    }

    /// Reads what is in a region, and what lies beside it.
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
        content.open_fields(0, Opening::Region(region), 1, pages, &mut loaded.fields)?;
        Ok(loaded.settled())
    }

    /// Reads all pages.
    ///
    /// # Errors
    ///
    /// As [`Loaded::read_pages`], and when some of the record are not there.
    pub fn read_all<P: Pages + ?Sized>(root: Root, pages: &mut P) -> Result<Self, P::Error> {
        let all: Vec<ItemHash> = root.table().pages().map(PageRange::first).collect();
        let loaded = Self::read_pages(root, &all, |_| true, pages)?;
        match loaded.is_whole() {
            true => Ok(loaded),
            false => Err(less_than_known().into()),
        }
    }

    fn of_root(root: Root) -> Self {
        let state = root.shell.clone();
        let open = OpenBranch::new(root.trunk.clone());
        Self { root, state, open, fields: BTreeMap::new() }
    }

    /// Opens the fields that are asked for, with all that is in them.
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
            let opened = field.content.open(hash.0, Opening::All, 2, pages)?;
            if !opened.is_nothing() {
                self.fields.insert(name.clone(), opened);
            }
        }
        Ok(())
    }

    /// After all was read.
    fn settled(self) -> Self {
        let state = State::from_record(self.root.datatype(), self.state.record);
        Self { state, ..self }
    }

    /// A whole state that is going to be stored in pages, none of which is there yet.
    ///
    /// # Panics
    ///
    /// When the state is of a type without items.
    #[must_use]
    pub fn from_state(state: State) -> Self {
        assert!(state.record.content.has_items(), "{:?} has no items", state.datatype());
        let root = Root::empty(state.datatype());
        let mut open = OpenBranch::new(Branch::empty(state.datatype(), 0));
        open.known.insert(ItemHash(0), KnownPage::Absent);
        Self { root, state, open, fields: BTreeMap::new() }
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
        self.open.branch.is_bare()
    }

    /// Writes the pages back, split or joined as their sizes ask for. Answers the root that belongs to them.
    ///
    /// # Errors
    ///
    /// When a page can't be read or written: what was written by then must not count.
    pub fn store<P: Pages + ?Sized>(self, pages: &mut P) -> Result<Root, P::Error> {
        let Self { root, state, open, fields } = self;
        let datatype = root.datatype();
        let mut record = state.record;
        let content = std::mem::replace(&mut record.content, Content::of_record(datatype));
        let shell = State::from_record(datatype, record);
        let mut closing = Closing { pages, last_branch: root.last_branch };
        let trunk = closing.close_record(content, open, fields)?;
        // Where none is left, there are no pages of one.
        let last_branch = if trunk.inner_bytes > 0 { closing.last_branch } else { 0 };
        Ok(Root { shell, trunk, last_branch })
    }
}
