//! Contents of records and fields: items, arranged by data type.

use super::item::Item;
use super::pages::Branch;
use super::{CausalClock, EventSet, FieldKind, FieldName};
use crate::clock::Dot;
use crate::hll::HyperLogLog;
use crate::props::Datatype;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The content of a record or of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// Each incarnation has one write with the sum of all that it has counted.
    Counter(Item<Totals>),
    /// Elements of a set or grow-only set.
    Set(BTreeMap<Bytes, Item<()>>),
    /// Assigned values that no later assignment has replaced.
    Register(Item<Assigned>),
    /// The flag is enabled if a write counts.
    Flag(Item<()>),
    /// The fields of a map.
    Map(BTreeMap<FieldName, MapField>),
    /// The payload of a write has all elements that its coordinator had seen.
    Hll(Item<Arc<HyperLogLog>>),
    /// A large set or map in a field, which is stored in pages of its own. The page that holds the field has
    /// this summary instead. The branch is loaded before its content is read or changed; a whole state has no
    /// branches.
    Branch(Box<Branch>),
}

/// Sums that an incarnation has counted since the counter was last reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Totals {
    /// Sum of the increments.
    pub(super) increments: u128,
    /// Sum of the decrements, as a positive number.
    pub(super) decrements: u128,
}

/// A value assigned to a register. The order is by time, then by bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Assigned {
    /// Time of the assignment in microseconds since 1970, by the coordinator's clock.
    pub(super) time_us: u64,
    /// Assigned value.
    pub(super) value: Bytes,
}

impl Totals {
    /// Adds the sums of another write; the sums saturate.
    pub(super) fn add(&mut self, other: Self) {
        self.increments = self.increments.saturating_add(other.increments);
        self.decrements = self.decrements.saturating_add(other.decrements);
    }

    /// Adds an increment, or a decrement if `by` is negative.
    pub(super) fn count(&mut self, by: i64) {
        let amount = u128::from(by.unsigned_abs());
        let (increments, decrements) = if by < 0 { (0, amount) } else { (amount, 0) };
        self.add(Self { increments, decrements });
    }

    /// The difference of the sums, limited to the range of `i128`.
    pub(super) fn value(self) -> i128 {
        let difference = self.increments.abs_diff(self.decrements);
        let difference = i128::try_from(difference).unwrap_or(i128::MAX);
        if self.increments < self.decrements { -difference } else { difference }
    }
}

/// A field of a map. A whole record is represented as a field, too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MapField {
    /// Events of updates of the field. While one of them counts, the field exists, even if it is empty.
    pub(super) presence: Item<()>,
    /// Content of the field.
    pub(super) content: Content,
    /// Deferred events for the field as a whole: a client that had seen them removed the field, and
    /// this state has not seen them yet.
    pub(super) deferred: EventSet,
}

impl Content {
    /// Empty content of a kind.
    pub(super) fn empty(kind: FieldKind) -> Self {
        match kind {
            FieldKind::Counter => Self::Counter(Item::default()),
            FieldKind::Set => Self::Set(BTreeMap::new()),
            FieldKind::Register => Self::Register(Item::default()),
            FieldKind::Flag => Self::Flag(Item::default()),
            FieldKind::Map => Self::Map(BTreeMap::new()),
        }
    }

    /// An empty branch.
    pub(super) fn empty_branch(datatype: Datatype) -> Self {
        Self::Branch(Box::new(Branch::empty(datatype, 0)))
    }

    /// Empty content of a whole record.
    pub(super) fn of_record(datatype: Datatype) -> Self {
        match datatype {
            Datatype::Counter => Self::Counter(Item::default()),
            Datatype::Set | Datatype::Gset => Self::Set(BTreeMap::new()),
            Datatype::Map => Self::Map(BTreeMap::new()),
            Datatype::Hll => Self::Hll(Item::default()),
        }
    }

    pub(super) fn as_counter(&self) -> Option<&Item<Totals>> {
        if let Self::Counter(item) = self { Some(item) } else { None }
    }

    pub(super) fn as_set(&self) -> Option<&BTreeMap<Bytes, Item<()>>> {
        if let Self::Set(elements) = self { Some(elements) } else { None }
    }

    pub(super) fn as_register(&self) -> Option<&Item<Assigned>> {
        if let Self::Register(item) = self { Some(item) } else { None }
    }

    pub(super) fn as_flag(&self) -> Option<&Item<()>> {
        if let Self::Flag(item) = self { Some(item) } else { None }
    }

    pub(super) fn as_map(&self) -> Option<&BTreeMap<FieldName, MapField>> {
        if let Self::Map(fields) = self { Some(fields) } else { None }
    }

    pub(super) fn as_hll(&self) -> Option<&Item<Arc<HyperLogLog>>> {
        if let Self::Hll(item) = self { Some(item) } else { None }
    }

    /// True if any write in the content counts.
    fn is_live(&self) -> bool {
        match self {
            Self::Branch(branch) => branch.item_count > 0,
            Self::Map(fields) => fields.values().any(MapField::is_live),
            _ => self.find_dot(&mut |_| true),
        }
    }

    /// True if the content can be dropped.
    fn is_void(&self) -> bool {
        match self {
            Self::Counter(item) => item.is_void(),
            Self::Set(elements) => elements.is_empty(),
            Self::Register(item) => item.is_void(),
            Self::Flag(item) => item.is_void(),
            Self::Hll(item) => item.is_void(),
            Self::Map(fields) => fields.is_empty(),
            Self::Branch(_) => false,
        }
    }

    /// Calls `is_it` with the event of each write that counts, until it returns true. Returns true
    /// if it did. Events inside branches are not visited.
    pub(super) fn find_dot<'a>(&'a self, is_it: &mut dyn FnMut(&'a Dot) -> bool) -> bool {
        match self {
            Self::Counter(item) => find_in(item, is_it),
            Self::Set(elements) => elements.values().any(|item| find_in(item, is_it)),
            Self::Register(item) => find_in(item, is_it),
            Self::Flag(item) => find_in(item, is_it),
            Self::Hll(item) => find_in(item, is_it),
            Self::Map(fields) => fields.values().any(|field| field.find_dot(is_it)),
            Self::Branch(_) => false,
        }
    }

    /// Number of runs of deferred events; for a branch, the number of its items that have some.
    pub(super) fn deferred_run_count(&self) -> usize {
        match self {
            Self::Counter(item) => deferred_in(item),
            Self::Set(elements) => elements.values().map(deferred_in).sum(),
            Self::Register(item) => deferred_in(item),
            Self::Flag(item) => deferred_in(item),
            Self::Hll(item) => deferred_in(item),
            Self::Map(fields) => fields.values().map(MapField::deferred_run_count).sum(),
            Self::Branch(branch) => usize::try_from(branch.waiting_count).unwrap_or(usize::MAX),
        }
    }

    /// Drops the writes of these events.
    pub(super) fn undo(&mut self, events: &EventSet) {
        match self {
            Self::Counter(item) => item.undo(events),
            Self::Set(elements) => elements.retain(|_, item| {
                item.undo(events);
                !item.is_void()
            }),
            Self::Register(item) => item.undo(events),
            Self::Flag(item) => item.undo(events),
            Self::Hll(item) => item.undo(events),
            Self::Map(fields) => fields.retain(|_, field| {
                field.undo(events);
                !field.is_void()
            }),
            // A branch is loaded before a change undoes anything in it. A branch that is not loaded
            // here has no writes of these events.
            Self::Branch(_) => {}
        }
    }

    /// Drops deferred events that the clock has. Returns true if others are left.
    pub(super) fn settle(&mut self, clock: &CausalClock) -> bool {
        match self {
            Self::Counter(item) => settle_item(item, clock),
            Self::Set(elements) => {
                let mut left = false;
                elements.retain(|_, item| {
                    left |= settle_item(item, clock);
                    !item.is_void()
                });
                left
            }
            Self::Register(item) => settle_item(item, clock),
            Self::Flag(item) => settle_item(item, clock),
            Self::Hll(item) => settle_item(item, clock),
            Self::Map(fields) => {
                let mut left = false;
                fields.retain(|_, field| {
                    left |= field.settle(clock);
                    !field.is_void()
                });
                left
            }
            // The items of a branch drop their deferred events when their pages are written.
            Self::Branch(branch) => branch.waiting_count > 0,
        }
    }

    /// Merges the same content of two states with these clocks.
    pub(super) fn merge(&mut self, clock: &CausalClock, other: &Self, other_clock: &CausalClock) {
        match (self, other) {
            (Self::Counter(own), Self::Counter(other)) => own.merge(clock, other, other_clock),
            (Self::Set(own), Self::Set(other)) => {
                let merge = |own: &mut Item<()>, other: &_| own.merge(clock, other, other_clock);
                merge_trees(own, other, |_| Item::default(), merge, Item::is_void);
            }
            (Self::Register(own), Self::Register(other)) => own.merge(clock, other, other_clock),
            (Self::Flag(own), Self::Flag(other)) => own.merge(clock, other, other_clock),
            (Self::Hll(own), Self::Hll(other)) => own.merge(clock, other, other_clock),
            (Self::Map(own), Self::Map(other)) => {
                let merge = |own: &mut MapField, other: &_| own.merge(clock, other, other_clock);
                merge_trees(
                    own,
                    other,
                    |name| MapField::empty(Content::empty(name.kind)),
                    merge,
                    MapField::is_void,
                );
            }
            (own, other) => unreachable!("{own:?} and {other:?} are of different kinds"),
        }
    }
}

impl MapField {
    /// A field without updates and deferred events.
    pub(super) fn empty(content: Content) -> Self {
        Self { presence: Item::default(), content, deferred: EventSet::default() }
    }

    /// True if the field exists.
    ///
    /// Everything in a field was written together with an update of the field. If such content
    /// counts while the update itself does not, a delta is missing.
    pub(super) fn is_live(&self) -> bool {
        self.presence.is_live() || self.content.is_live()
    }

    /// True if the field has updates or deferred events, whatever its content.
    pub(super) fn is_known(&self) -> bool {
        !self.presence.is_void() || !self.deferred.is_empty()
    }

    /// True if the field can be dropped.
    pub(super) fn is_void(&self) -> bool {
        self.presence.is_void() && self.content.is_void() && self.deferred.is_empty()
    }

    /// As [`Content::find_dot`], including the field's updates.
    pub(super) fn find_dot<'a>(&'a self, is_it: &mut dyn FnMut(&'a Dot) -> bool) -> bool {
        find_in(&self.presence, is_it) || self.content.find_dot(is_it)
    }

    /// As [`Content::deferred_run_count`].
    pub(super) fn deferred_run_count(&self) -> usize {
        deferred_in(&self.presence) + self.content.deferred_run_count() + self.deferred.run_count()
    }

    /// Drops the writes of these events.
    pub(super) fn undo(&mut self, events: &EventSet) {
        self.presence.undo(events);
        self.content.undo(events);
    }

    /// As [`Content::settle`].
    pub(super) fn settle(&mut self, clock: &CausalClock) -> bool {
        self.deferred.subtract(clock);
        let of_presence = settle_item(&mut self.presence, clock);
        let of_content = self.content.settle(clock);
        of_presence || of_content || !self.deferred.is_empty()
    }

    /// As [`Content::merge`].
    pub(super) fn merge(&mut self, clock: &CausalClock, other: &Self, other_clock: &CausalClock) {
        self.presence.merge(clock, &other.presence, other_clock);
        self.content.merge(clock, &other.content, other_clock);
        if self.deferred.is_empty() && other.deferred.is_empty() {
            return;
        }
        self.deferred.merge(&other.deferred);
        self.presence.undo(&self.deferred);
        self.content.undo(&self.deferred);
        self.deferred.subtract(clock);
        self.deferred.subtract(other_clock);
    }
}

fn find_in<'a, P>(item: &'a Item<P>, is_it: &mut dyn FnMut(&'a Dot) -> bool) -> bool {
    item.live().iter().any(|write| is_it(&write.dot))
}

fn deferred_in<P>(item: &Item<P>) -> usize {
    item.deferred().map_or(0, EventSet::run_count)
}

fn settle_item<P>(item: &mut Item<P>, clock: &CausalClock) -> bool {
    item.settle(clock);
    item.deferred().is_some()
}

/// Merges two maps entry by entry; an entry that one side lacks is `empty` there.
fn merge_trees<K: Ord + Clone, V>(
    own: &mut BTreeMap<K, V>,
    other: &BTreeMap<K, V>,
    empty: impl Fn(&K) -> V,
    merge: impl Fn(&mut V, &V),
    is_void: impl Fn(&V) -> bool,
) {
    for (key, value) in own.iter_mut() {
        match other.get(key) {
            Some(theirs) => merge(value, theirs),
            None => merge(value, &empty(key)),
        }
    }
    for (key, theirs) in other {
        if !own.contains_key(key) {
            let mut value = empty(key);
            merge(&mut value, theirs);
            own.insert(key.clone(), value);
        }
    }
    own.retain(|_, value| !is_void(value));
}
