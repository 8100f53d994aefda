//! Large sets and maps in pages.
//!
//! A small state is stored as one record. A large one is a [`Root`] and pages of elements or fields, each
//! with all items of a range of hashes, so that an operation reads and writes the pages of what it names
//! and nothing else. Every rule is still that of [`State`]: [`Loaded`] is a state with the items of some
//! pages, and operations, deltas and merges that concern no other items do to it what they would do to the
//! whole. How the hashes are divided is private to a store.

mod loaded;
mod object;
mod ranges;
mod root;
mod table;

pub use loaded::Loaded;
pub use object::{PAGED_FORMAT_1, PagedObject, ShownItem};
pub use ranges::{
    COMPARED_RANGE_COUNT_MAX, HashRange, RangeCopy, RangeFigures, RangeWalk, RangesTaken,
    SENT_RANGE_COUNT_MAX,
};
pub use root::{ROOT_FORMAT_1, Root};
pub use table::{ItemHash, PageRange, PageTable};

use super::change::Change;
use super::content::Content;
use super::{Delta, FieldKind, FieldName, Operation, SetChange, StoredFormError};
use bytes::Bytes;
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Where the pages of one record are.
pub trait Pages {
    /// Why a page can't be read or written.
    type Error: From<StoredFormError>;

    /// The stored form of a page; `None` where nothing was ever written, or nothing is left.
    ///
    /// # Errors
    ///
    /// When the page can't be read.
    fn read(&mut self, page: PageRange) -> Result<Option<Bytes>, Self::Error>;

    /// Stores a page, or removes it.
    ///
    /// # Errors
    ///
    /// When the page can't be written.
    fn write(&mut self, first: ItemHash, page: Option<&[u8]>) -> Result<(), Self::Error>;
}

impl ItemHash {
    /// Of an element of a set.
    #[must_use]
    pub fn of_element(element: &[u8]) -> Self {
        Self(xxh3_64_with_seed(element, 0))
    }

    /// Of a field of a map.
    #[must_use]
    pub fn of_field(field: &FieldName) -> Self {
        Self::of_field_named(&field.name, field.kind)
    }

    /// As [`ItemHash::of_field`].
    pub(super) fn of_field_named(name: &[u8], kind: FieldKind) -> Self {
        Self(xxh3_64_with_seed(name, 1 + kind as u64))
    }
}

impl Operation {
    /// Hashes of the elements or fields that the operation names, sorted. Of counters and HyperLogLogs,
    /// which have no parts, none.
    #[must_use]
    pub fn items(&self) -> Vec<ItemHash> {
        let element = |element: &Bytes| ItemHash::of_element(element);
        sorted(match self {
            Self::Counter(_) | Self::Hll(_) => Vec::new(),
            Self::Set(changes) => changes.iter().map(|change| element(change.element())).collect(),
            Self::Gset(elements) => elements.iter().map(element).collect(),
            Self::Map(map) => {
                let updated = map.updates.iter().map(|update| ItemHash::of_field(&update.field()));
                map.removes.iter().map(ItemHash::of_field).chain(updated).collect()
            }
        })
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

impl Delta {
    /// As [`Operation::items`], of what the operation has changed.
    #[must_use]
    pub fn items(&self) -> Vec<ItemHash> {
        sorted(match &self.change.content {
            Change::Set(changes) => {
                changes.keys().map(|element| ItemHash::of_element(element)).collect()
            }
            Change::Map(changes) => changes.keys().map(ItemHash::of_field).collect(),
            Change::Counter(_) | Change::Register(_) | Change::Flag(_) | Change::Hll(_) => {
                Vec::new()
            }
        })
    }
}

fn sorted(mut hashes: Vec<ItemHash>) -> Vec<ItemHash> {
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

impl Content {
    /// Whether it is of a kind that consists of elements or fields.
    fn has_items(&self) -> bool {
        matches!(self, Self::Set(_) | Self::Map(_))
    }

    /// Number of elements or fields, those that only wait for events among them.
    pub(super) fn item_count(&self) -> usize {
        match self {
            Self::Set(elements) => elements.len(),
            Self::Map(fields) => fields.len(),
            Self::Counter(_) | Self::Register(_) | Self::Flag(_) | Self::Hll(_) => 0,
        }
    }

    /// Shows the hash of each element or field, and whether it counts.
    pub(super) fn each_item(&self, mut show: impl FnMut(ItemHash, bool)) {
        match self {
            Self::Set(elements) => elements
                .iter()
                .for_each(|(element, item)| show(ItemHash::of_element(element), item.is_live())),
            Self::Map(fields) => {
                fields
                    .iter()
                    .for_each(|(name, field)| show(ItemHash::of_field(name), field.is_live()));
            }
            Self::Counter(_) | Self::Register(_) | Self::Flag(_) | Self::Hll(_) => {}
        }
    }

    /// Adds elements or fields, none of which is here. Both are of one kind.
    pub(super) fn append(&mut self, other: Self) {
        match (self, other) {
            // Not `append`, which builds all of the tree anew each time.
            (Self::Set(own), Self::Set(others)) => own.extend(others),
            (Self::Map(own), Self::Map(others)) => own.extend(others),
            (own, other) => unreachable!("{other:?} are no items of {own:?}"),
        }
    }

    /// Elements or fields by their pages.
    fn divide(self, page_of: impl Fn(ItemHash) -> ItemHash) -> BTreeMap<ItemHash, Self> {
        let mut parts = BTreeMap::new();
        match self {
            Self::Set(elements) => {
                for (element, item) in elements {
                    let page = parts.entry(page_of(ItemHash::of_element(&element)));
                    if let Self::Set(page) = page.or_insert_with(|| Self::Set(BTreeMap::new())) {
                        page.insert(element, item);
                    }
                }
            }
            Self::Map(fields) => {
                for (name, field) in fields {
                    let page = parts.entry(page_of(ItemHash::of_field(&name)));
                    if let Self::Map(page) = page.or_insert_with(|| Self::Map(BTreeMap::new())) {
                        page.insert(name, field);
                    }
                }
            }
            Self::Counter(_) | Self::Register(_) | Self::Flag(_) | Self::Hll(_) => {}
        }
        parts
    }
}

#[cfg(test)]
mod tests;
