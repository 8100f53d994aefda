//! Changes that an operation makes to a state, item by item; the body of a delta.

use super::content::{Assigned, Content, MapField, Totals};
use super::item::{Item, ItemChange, unseen_events};
use super::{CausalClock, EventSet, FieldKind, FieldName};
use crate::hll::HyperLogLog;
use crate::props::Datatype;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Change of a [`Content`] of the same kind by one operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ContentChange {
    Counter(ItemChange<Totals>),
    Set(BTreeMap<Bytes, ItemChange<()>>),
    Register(ItemChange<Assigned>),
    Flag(ItemChange<()>),
    Map(BTreeMap<FieldName, FieldChange>),
    Hll(ItemChange<Arc<HyperLogLog>>),
}

/// Change of a field by one operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FieldChange {
    /// Events whose writes anywhere in the field are undone.
    pub(super) undone: EventSet,
    /// Change of the field's presence.
    pub(super) presence: ItemChange<()>,
    /// Change of the field's content.
    pub(super) content: ContentChange,
}

impl ContentChange {
    /// A change without effect.
    pub(super) fn none(kind: FieldKind) -> Self {
        match kind {
            FieldKind::Counter => Self::Counter(ItemChange::default()),
            FieldKind::Set => Self::Set(BTreeMap::new()),
            FieldKind::Register => Self::Register(ItemChange::default()),
            FieldKind::Flag => Self::Flag(ItemChange::default()),
            FieldKind::Map => Self::Map(BTreeMap::new()),
        }
    }

    /// A change without effect, for a whole record.
    pub(super) fn none_of_record(datatype: Datatype) -> Self {
        match datatype {
            Datatype::Counter => Self::Counter(ItemChange::default()),
            Datatype::Set | Datatype::Gset => Self::Set(BTreeMap::new()),
            Datatype::Map => Self::Map(BTreeMap::new()),
            Datatype::Hll => Self::Hll(ItemChange::default()),
        }
    }

    /// Drops all changes.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Counter(change) => *change = ItemChange::default(),
            Self::Set(changes) => changes.clear(),
            Self::Register(change) => *change = ItemChange::default(),
            Self::Flag(change) => *change = ItemChange::default(),
            Self::Map(changes) => changes.clear(),
            Self::Hll(change) => *change = ItemChange::default(),
        }
    }
}

impl ContentChange {
    /// Drops the changes of items that have no effect.
    pub(super) fn prune(&mut self) {
        match self {
            Self::Set(changes) => changes.retain(|_, change| !change.is_none()),
            Self::Map(changes) => changes.retain(|_, change| {
                change.content.prune();
                !change.is_none()
            }),
            Self::Counter(_) | Self::Register(_) | Self::Flag(_) | Self::Hll(_) => {}
        }
    }
}

impl FieldChange {
    /// True if the change has no effect. A change of the field's content always comes with a change
    /// of its presence.
    pub(super) fn is_none(&self) -> bool {
        self.undone.is_empty() && self.presence.is_none()
    }

    /// A change without effect.
    pub(super) fn none(content: ContentChange) -> Self {
        Self { undone: EventSet::default(), presence: ItemChange::default(), content }
    }
}

impl Content {
    /// Applies a change of the same kind. `clock` holds the events that the state had seen before.
    /// Returns true if a changed item has deferred events afterwards.
    fn join(&mut self, change: &ContentChange, clock: &CausalClock) -> bool {
        match (self, change) {
            (Self::Counter(item), ContentChange::Counter(change)) => item.join(change, clock),
            (Self::Set(elements), ContentChange::Set(changes)) => {
                let join =
                    |item: &mut Item<()>, change: &_| (item.join(change, clock), item.is_void());
                join_trees(elements, changes, |_| Item::default(), join)
            }
            (Self::Register(item), ContentChange::Register(change)) => item.join(change, clock),
            (Self::Flag(item), ContentChange::Flag(change)) => item.join(change, clock),
            (Self::Hll(item), ContentChange::Hll(change)) => item.join(change, clock),
            (Self::Map(fields), ContentChange::Map(changes)) => {
                let join =
                    |field: &mut MapField, change: &_| (field.join(change, clock), field.is_void());
                join_trees(fields, changes, |name| MapField::empty(Content::empty(name.kind)), join)
            }
            (content, change) => unreachable!("{change:?} is not for {content:?}"),
        }
    }
}

impl MapField {
    /// As [`Content::join`].
    pub(super) fn join(&mut self, change: &FieldChange, clock: &CausalClock) -> bool {
        if !change.undone.is_empty() {
            self.undo(&change.undone);
            if let Some(unseen_events) = unseen_events(&change.undone, clock) {
                self.deferred.merge(&unseen_events);
            }
        }
        let in_presence = self.presence.join(&change.presence, clock);
        let in_content = self.content.join(&change.content, clock);
        if !self.deferred.is_empty() {
            // The change itself may be one of those that were undone before they arrived.
            self.presence.undo(&self.deferred);
            self.content.undo(&self.deferred);
        }
        in_presence || in_content || !self.deferred.is_empty()
    }
}

/// Applies changes of entries. `join` returns two booleans: the entry has deferred events, and the
/// entry can be dropped.
fn join_trees<K: Ord + Clone, V, C>(
    own: &mut BTreeMap<K, V>,
    changes: &BTreeMap<K, C>,
    empty: impl Fn(&K) -> V,
    join: impl Fn(&mut V, &C) -> (bool, bool),
) -> bool {
    let mut any_deferred = false;
    for (key, change) in changes {
        let value = own.entry(key.clone()).or_insert_with(|| empty(key));
        let (deferred, is_void) = join(value, change);
        any_deferred |= deferred;
        if is_void {
            own.remove(key);
        }
    }
    any_deferred
}
