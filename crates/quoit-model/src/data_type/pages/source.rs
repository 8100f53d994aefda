//! Items of another copy, in the order of their hashes.

use super::branch::Branch;
use super::{ItemHash, PageRange, Pages};
use crate::data_type::content::{Content, MapField};
use crate::data_type::item::Item;
use crate::data_type::{FieldName, StoredFormError};
use bytes::Bytes;
use std::collections::VecDeque;

/// Supplies the items of a set or map by ascending ranges of hashes. For a set or map in pages,
/// memory holds only the pages that a range touches.
pub(super) struct Source {
    seed: u64,
    /// The branch, with the next page to read.
    branch: Option<(Branch, Option<PageRange>)>,
    /// Items that were read and not taken yet.
    items: Items,
}

enum Items {
    Elements(VecDeque<(ItemHash, Bytes, Item<()>)>),
    Fields(VecDeque<(ItemHash, FieldName, MapField)>),
}

impl Items {
    /// Adds items whose hashes are higher than those that are here.
    fn add(&mut self, content: Content, seed: u64) {
        match (self, content) {
            (Self::Elements(items), Content::Set(elements)) => {
                let hash = |element: &Bytes| ItemHash::of_element_in(element, seed);
                items.extend(elements.into_iter().map(|(name, item)| (hash(&name), name, item)));
                items.make_contiguous().sort_by_key(|(hash, ..)| *hash);
            }
            (Self::Fields(items), Content::Map(fields)) => {
                let hash = |name: &FieldName| ItemHash::of_field_in(name, seed);
                items.extend(fields.into_iter().map(|(name, field)| (hash(&name), name, field)));
                items.make_contiguous().sort_by_key(|(hash, ..)| *hash);
            }
            (_, content) => unreachable!("{content:?} are no such items"),
        }
    }

    fn take_until(&mut self, last: ItemHash) -> Content {
        match self {
            Self::Elements(items) => {
                let count = items.partition_point(|(hash, ..)| *hash <= last);
                Content::Set(items.drain(..count).map(|(_, name, item)| (name, item)).collect())
            }
            Self::Fields(items) => {
                let count = items.partition_point(|(hash, ..)| *hash <= last);
                Content::Map(items.drain(..count).map(|(_, name, field)| (name, field)).collect())
            }
        }
    }
}

impl Source {
    /// Makes a source of a content. `seed` is the hash of the field that has this content.
    pub(super) fn new(content: Content, seed: u64) -> Self {
        let (branch, items) = match content {
            Content::Branch(branch) => {
                let first = branch.table.pages().next();
                (Some((*branch, first)), None)
            }
            items => (None, Some(items)),
        };
        let kind = branch.as_ref().map(|(branch, _)| branch.empty_like());
        let is_map = matches!(kind.as_ref().or(items.as_ref()), Some(Content::Map(_)));
        let none = match is_map {
            true => Items::Fields(VecDeque::new()),
            false => Items::Elements(VecDeque::new()),
        };
        let mut source = Self { seed, branch, items: none };
        if let Some(items) = items {
            source.items.add(items, seed);
        }
        source
    }

    /// Number of pages of the set or map; 0 if it is not in pages.
    pub(super) fn page_count(&self) -> u32 {
        self.branch.as_ref().map_or(0, |(branch, _)| branch.table.page_count())
    }

    /// True if all items that its figures count were read.
    pub(super) fn is_read(&self) -> bool {
        self.branch.as_ref().is_none_or(|(branch, _)| branch.counts_nothing())
    }

    /// Takes the remaining items up to a hash.
    pub(super) fn take_until<E: From<StoredFormError>>(
        &mut self,
        last: ItemHash,
        mut pages: Option<&mut (dyn Pages<Error = E> + '_)>,
    ) -> Result<Content, E> {
        while let Some((branch, next)) = &mut self.branch
            && let Some(range) = next.filter(|range| range.first() <= last)
        {
            let Some(pages) = pages.as_deref_mut() else { break };
            if let Some((content, _)) = branch.take_page(self.seed, range, pages)? {
                self.items.add(content, self.seed);
            }
            *next = branch.table.page_after(range);
        }
        Ok(self.items.take_until(last))
    }
}
