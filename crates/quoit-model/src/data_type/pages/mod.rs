//! Large sets and maps in pages.
//!
//! A small state is stored as one record. A large one is a [`Root`] and pages. A page has all
//! elements or fields in a range of hashes, so an operation reads and writes only the pages of the
//! items that it names. The rules are still those of [`State`]: a [`Loaded`] is a state with the
//! items of some pages, and operations, deltas and merges that concern only these items have the
//! same effect on it as on the whole state. The division into pages is private to a store.
//!
//! A large set or map in a field of a map is a [`Branch`]. The page of the field has only its
//! figures, as a root has, and its items have pages of their own, by hashes that cover the whole
//! path.

mod branch;
mod loaded;
mod merge;
mod object;
mod open;
mod part;
mod ranges;
mod region;
mod root;
mod source;
mod table;
mod walk;
mod wanted;
mod written;

pub(super) use branch::Branch;
pub use loaded::Loaded;
pub use merge::{OtherCopy, PagesMerged};
pub use object::{PAGED_FORMAT_1, PagedObject, ShownItem};
pub use ranges::{
    COMPARED_RANGE_COUNT_MAX, HashRange, RangeCopy, RangeFigures, RangeWalk, RangesTaken,
    SENT_RANGE_COUNT_MAX,
};
pub use region::Region;
pub use root::{ROOT_FORMAT_1, ROOT_FORMAT_2, Root};
pub use table::{ItemHash, PageRange, PageTable};
pub use walk::PageWalk;
pub use wanted::WantedItems;

use super::content::Content;
use super::{FieldKind, FieldName, SetChange, StoredFormError};
use bytes::Bytes;
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Name of a page within its record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageName {
    /// Number of the branch that the page belongs to; 0 for the record itself.
    pub branch: u64,
    /// Lowest hash of the page.
    pub first: ItemHash,
}

/// Storage of the pages of one record.
pub trait Pages {
    /// Error of reading or writing a page.
    type Error: From<StoredFormError>;

    /// True if branches can have pages. The names of pages of a record with a very long name may be
    /// too long for that. Then the content of a field stays in the page of the field, however large
    /// it is.
    fn can_have_branches(&self) -> bool;

    /// Reads the stored form of a page; returns `None` if the page does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the page can't be read.
    fn read(&mut self, page: PageName) -> Result<Option<Bytes>, Self::Error>;

    /// Stores a page, or removes it if `page` is `None`.
    ///
    /// # Errors
    ///
    /// Returns an error if the page can't be written.
    fn write(&mut self, name: PageName, page: Option<&[u8]>) -> Result<(), Self::Error>;

    /// Removes a page, if it exists.
    ///
    /// # Errors
    ///
    /// Returns an error if the page can't be removed.
    fn remove(&mut self, name: PageName) -> Result<(), Self::Error> {
        self.write(name, None)
    }
}

impl ItemHash {
    /// Hash of an element of a set.
    #[must_use]
    pub fn of_element(element: &[u8]) -> Self {
        Self::of_element_in(element, 0)
    }

    /// Hash of a field of a map.
    #[must_use]
    pub fn of_field(field: &FieldName) -> Self {
        Self::of_field_in(field, 0)
    }

    /// Hash of an element of a set in a field; `seed` is the hash of that field.
    pub(super) fn of_element_in(element: &[u8], seed: u64) -> Self {
        Self(xxh3_64_with_seed(element, seed))
    }

    /// Hash of a field of a map in a field; `seed` is the hash of the enclosing field.
    pub(super) fn of_field_in(field: &FieldName, seed: u64) -> Self {
        Self::of_field_named(&field.name, field.kind, seed)
    }

    /// As [`ItemHash::of_field_in`], for a name and a kind.
    pub(super) fn of_field_named(name: &[u8], kind: FieldKind, seed: u64) -> Self {
        Self(xxh3_64_with_seed(name, seed.wrapping_add(1 + kind as u64)))
    }
}

impl SetChange {
    /// The element that is added or removed.
    #[must_use]
    pub const fn element(&self) -> &Bytes {
        match self {
            Self::Add(element) | Self::Remove(element) => element,
        }
    }
}

impl Content {
    /// True if the content consists of elements or fields.
    fn has_items(&self) -> bool {
        matches!(self, Self::Set(_) | Self::Map(_))
    }

    /// Number of elements or fields, including those that only have deferred events.
    pub(super) fn item_count(&self) -> usize {
        match self {
            Self::Set(elements) => elements.len(),
            Self::Map(fields) => fields.len(),
            Self::Counter(_)
            | Self::Register(_)
            | Self::Flag(_)
            | Self::Hll(_)
            | Self::Branch(_) => 0,
        }
    }

    /// Empty content of the same kind.
    fn empty_like(&self) -> Self {
        match self {
            Self::Map(_) => Self::Map(BTreeMap::new()),
            Self::Branch(branch) => branch.empty_like(),
            _ => Self::Set(BTreeMap::new()),
        }
    }

    /// Calls `show` with the hash of each element or field, and true if it is live. `seed` is the
    /// hash of the field that has this content; 0 for the content of a record.
    pub(super) fn each_item(&self, seed: u64, mut show: impl FnMut(ItemHash, bool)) {
        match self {
            Self::Set(elements) => elements.iter().for_each(|(element, item)| {
                show(ItemHash::of_element_in(element, seed), item.is_live());
            }),
            Self::Map(fields) => fields.iter().for_each(|(name, field)| {
                show(ItemHash::of_field_in(name, seed), field.is_live());
            }),
            Self::Counter(_)
            | Self::Register(_)
            | Self::Flag(_)
            | Self::Hll(_)
            | Self::Branch(_) => {}
        }
    }

    /// Adds elements or fields that are not in this content. Both contents have the same kind.
    pub(super) fn append(&mut self, other: Self) {
        match (self, other) {
            // `BTreeMap::append` would rebuild the whole tree each time.
            (Self::Set(own), Self::Set(others)) => own.extend(others),
            (Self::Map(own), Self::Map(others)) => own.extend(others),
            (own, other) => unreachable!("{other:?} are no items of {own:?}"),
        }
    }

    /// Divides elements or fields by their pages.
    fn divide(self, seed: u64, page_of: impl Fn(ItemHash) -> ItemHash) -> BTreeMap<ItemHash, Self> {
        let mut parts = BTreeMap::new();
        match self {
            Self::Set(elements) => {
                for (element, item) in elements {
                    let page = parts.entry(page_of(ItemHash::of_element_in(&element, seed)));
                    if let Self::Set(page) = page.or_insert_with(|| Self::Set(BTreeMap::new())) {
                        page.insert(element, item);
                    }
                }
            }
            Self::Map(fields) => {
                for (name, field) in fields {
                    let page = parts.entry(page_of(ItemHash::of_field_in(&name, seed)));
                    if let Self::Map(page) = page.or_insert_with(|| Self::Map(BTreeMap::new())) {
                        page.insert(name, field);
                    }
                }
            }
            Self::Counter(_)
            | Self::Register(_)
            | Self::Flag(_)
            | Self::Hll(_)
            | Self::Branch(_) => {}
        }
        parts
    }
}

#[cfg(test)]
mod tests;
