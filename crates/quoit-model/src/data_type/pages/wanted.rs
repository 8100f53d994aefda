//! The items that an operation has to read.

use super::ItemHash;
use crate::data_type::change::{ContentChange, FieldChange};
use crate::data_type::{Delta, FieldName, FieldOperation, MapOperation, Operation, SetChange};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Elements or fields of a record or field, by their hashes, and the parts of these fields.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WantedItems {
    /// Sorted hashes of all items, fields included.
    items: Vec<ItemHash>,
    /// Fields of which the content is wanted, too.
    fields: BTreeMap<ItemHash, WantedContent>,
}

/// Part of a field that is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum WantedContent {
    /// The whole content.
    All,
    /// Some of its elements or fields.
    Some(WantedItems),
}

impl WantedItems {
    /// Wants some elements, or some fields without their content.
    #[must_use]
    pub fn items(items: Vec<ItemHash>) -> Self {
        let mut wanted = Self { items, fields: BTreeMap::new() };
        wanted.sort();
        wanted
    }

    /// The hashes, sorted.
    pub(super) fn hashes(&self) -> &[ItemHash] {
        &self.items
    }

    /// The part of a field that is wanted; `None` if its content is not.
    pub(super) fn within(&self, field: ItemHash) -> Option<&WantedContent> {
        self.fields.get(&field)
    }

    /// Sorts all hashes. Called once, after all were added.
    fn sort(&mut self) {
        self.items.sort_unstable();
        self.items.dedup();
        for within in self.fields.values_mut() {
            if let WantedContent::Some(wanted) = within {
                wanted.sort();
            }
        }
    }

    /// Adds an item. The hashes stay unsorted, since a field may be added many times.
    fn add(&mut self, field: ItemHash, within: Option<WantedContent>) {
        self.items.push(field);
        let Some(within) = within else { return };
        match self.fields.entry(field) {
            Entry::Vacant(place) => {
                place.insert(within);
            }
            Entry::Occupied(mut place) => place.get_mut().join(within),
        }
    }

    /// The items of an operation on a map, unsorted.
    fn of_operation(map: &MapOperation, seed: u64) -> Self {
        let mut wanted = Self::default();
        for name in &map.removes {
            wanted.add(ItemHash::of_field_in(name, seed), Some(WantedContent::All));
        }
        for update in &map.updates {
            let field = ItemHash::of_field_in(&update.field(), seed);
            let within = match &update.operation {
                FieldOperation::Set(changes) => {
                    let elements = changes.iter().map(SetChange::element);
                    let items = elements.map(|element| ItemHash::of_element_in(element, field.0));
                    Some(WantedContent::Some(Self { items: items.collect(), ..Self::default() }))
                }
                FieldOperation::Map(map) => {
                    Some(WantedContent::Some(Self::of_operation(map, field.0)))
                }
                FieldOperation::Counter(_)
                | FieldOperation::Register(_)
                | FieldOperation::Flag(_) => None,
            };
            wanted.add(field, within);
        }
        wanted
    }

    /// The items of the changes of a map, unsorted.
    fn of_changes(changes: &BTreeMap<FieldName, FieldChange>, seed: u64) -> Self {
        let mut wanted = Self::default();
        for (name, change) in changes {
            let field = ItemHash::of_field_in(name, seed);
            // The undone writes may be anywhere in the field.
            let within = match &change.content {
                _ if !change.undone.is_empty() => Some(WantedContent::All),
                ContentChange::Set(changes) => {
                    let elements = changes.keys();
                    let items = elements.map(|element| ItemHash::of_element_in(element, field.0));
                    Some(WantedContent::Some(Self { items: items.collect(), ..Self::default() }))
                }
                ContentChange::Map(changes) => {
                    Some(WantedContent::Some(Self::of_changes(changes, field.0)))
                }
                ContentChange::Counter(_)
                | ContentChange::Register(_)
                | ContentChange::Flag(_)
                | ContentChange::Hll(_) => None,
            };
            wanted.add(field, within);
        }
        wanted
    }
}

impl WantedContent {
    /// Adds the items of `other`, unsorted. The cost depends on `other` alone.
    fn join(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::All, _) => {}
            (_, Self::All) => *self = Self::All,
            (Self::Some(own), Self::Some(other)) => {
                own.items.extend(other.items);
                for (field, within) in other.fields {
                    own.add(field, Some(within));
                }
            }
        }
    }
}

impl Operation {
    /// The elements or fields that the operation names; none for counters and HyperLogLogs.
    #[must_use]
    pub fn wanted(&self) -> WantedItems {
        let element = |element: &bytes::Bytes| ItemHash::of_element(element);
        let mut wanted = match self {
            Self::Counter(_) | Self::Hll(_) => WantedItems::default(),
            Self::Set(changes) => {
                WantedItems::items(changes.iter().map(|change| element(change.element())).collect())
            }
            Self::Gset(elements) => WantedItems::items(elements.iter().map(element).collect()),
            Self::Map(map) => WantedItems::of_operation(map, 0),
        };
        wanted.sort();
        wanted
    }
}

impl Delta {
    /// The elements or fields that the delta changes.
    #[must_use]
    pub fn wanted(&self) -> WantedItems {
        let mut wanted = match &self.change.content {
            ContentChange::Set(changes) => WantedItems::items(
                changes.keys().map(|element| ItemHash::of_element(element)).collect(),
            ),
            ContentChange::Map(changes) => WantedItems::of_changes(changes, 0),
            ContentChange::Counter(_)
            | ContentChange::Register(_)
            | ContentChange::Flag(_)
            | ContentChange::Hll(_) => WantedItems::default(),
        };
        wanted.sort();
        wanted
    }
}
