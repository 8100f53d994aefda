//! Computation of the change that an operation makes, by the rules of each data type.
//!
//! The state is not changed. Earlier changes of the request are in the change under construction,
//! where later parts of the request find them. So a request that fails halfway has no effect.

use super::change::{ContentChange, FieldChange};
use super::content::{Assigned, Content, MapField, Totals};
use super::item::{Item, ItemChange, Write, order};
use super::{
    CausalClock, EventSet, FieldName, FieldOperation, MapOperation, Operation, OperationError, Run,
    SetChange,
};
use crate::clock::{Actor, Dot};
use crate::hll::{HyperLogLog, Precision};
use bytes::Bytes;
use quoit_planted::planted;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thiserror::Error;

/// Maximum number of runs of deferred events that a record may have after an operation. Deferred
/// events are events of writes that were removed before this replica saw them. For a whole record
/// all of them count; for a record in pages, those of the root and of the pages that the operation
/// reads.
///
/// A replica refuses removes that would exceed this number. Only contexts that claim events that
/// this replica has not seen can lead there.
pub const DEFERRED_RUNS_MAX: usize = 10_000;

/// Error of applying an operation. The operation then has no effect.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ApplyError {
    /// The operation is invalid for any stored state.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// A remove without a context names an element that is absent.
    #[error(
        "element \"{}\" is not in the set; fetch the set and send its context with the remove",
        .element.escape_ascii()
    )]
    NoSuchElement {
        /// The element.
        element: Bytes,
    },
    /// A remove without a context names a field that is absent.
    #[error("field {field} is not in the map; fetch the map and send its context with the remove")]
    NoSuchField {
        /// The field.
        field: FieldName,
    },
    /// The record would have more runs of deferred events than [`DEFERRED_RUNS_MAX`].
    #[error(
        "context is ahead of the record, and would have to wait for {run_count} runs of events, more than \
         {DEFERRED_RUNS_MAX}; fetch the record again and send the context of that answer"
    )]
    TooManyDeferred {
        /// Number of runs that it would have.
        run_count: usize,
    },
    /// The actor's counter has reached 2^64 - 1, its maximum.
    #[error("actor has no events left; the store needs a new incarnation")]
    NoEventLeft,
}

/// Actor and times of the events of an operation, and the settings of its coordinator.
#[derive(Clone, Copy, Debug)]
pub struct EventOrigin<'a> {
    /// The incarnation that makes the events.
    pub actor: &'a Actor,
    /// Time of the events in the clock, in seconds since year 0 as in [`Dot`].
    pub time_secs: u64,
    /// Time of assignments to registers, in microseconds since 1970.
    pub now_us: u64,
    /// Precision of new HyperLogLogs. A stored one of higher precision is reduced to it.
    pub hll_precision: Precision,
}

/// A request while its change is computed.
pub(super) struct Request<'a> {
    /// The context that the client sent, if any.
    context: Option<&'a CausalClock>,
    /// Events of the context that the state has not seen.
    ahead: EventSet,
    /// Number of runs of deferred events, including those that this request adds.
    deferred_run_count: usize,
    coordinator: EventOrigin<'a>,
    /// Counter of the first event.
    first: u64,
    /// Counter of the last event so far; `first - 1` before the first one.
    last: u64,
    /// True if all changes share one event.
    shared: bool,
    /// Stored fields that the request has removed, by their addresses, which are stable while the
    /// request is computed. The writes of such a field that the client had seen are already undone,
    /// in the change of the field or of an enclosing one.
    removed: BTreeSet<*const MapField>,
}

/// Events that a request has undone in the fields that enclose an item.
#[derive(Clone, Copy)]
struct UndoneEvents<'a> {
    events: &'a EventSet,
    around: Option<&'a Self>,
}

impl UndoneEvents<'_> {
    fn contains(&self, dot: &Dot) -> bool {
        self.events.contains(dot) || is_undone(dot, self.around)
    }
}

fn is_undone(dot: &Dot, around: Option<&UndoneEvents<'_>>) -> bool {
    around.is_some_and(|undone| undone.contains(dot))
}

impl<'a> Request<'a> {
    /// Starts a request for a record with this clock. If `shared` is true, all changes of the
    /// request share one event.
    pub(super) fn new(
        clock: &CausalClock,
        record: &MapField,
        context: Option<&'a CausalClock>,
        coordinator: EventOrigin<'a>,
        shared: bool,
    ) -> Result<Self, ApplyError> {
        let first = clock.next_counter(coordinator.actor).ok_or(ApplyError::NoEventLeft)?;
        let ahead = context.filter(|context| !clock.covers(context));
        let ahead = ahead.map_or_else(EventSet::default, |context| context.beyond(clock));
        let deferred_run_count = if ahead.is_empty() { 0 } else { record.deferred_run_count() };
        let (last, removed) = (first - 1, BTreeSet::new());
        Ok(Self { context, ahead, deferred_run_count, coordinator, first, last, shared, removed })
    }

    /// Computes the changes that an operation makes to a record, and the run of their events. The
    /// first event marks the record as present.
    pub(super) fn operate(
        mut self,
        record: &MapField,
        operation: &Operation,
    ) -> Result<(FieldChange, Run), ApplyError> {
        let mut change = FieldChange::none(ContentChange::none_of_record(operation.datatype()));
        self.enable(Some(&record.presence), &mut change.presence, None)?;
        let content = &record.content;
        match (&mut change.content, operation) {
            (ContentChange::Counter(change), Operation::Counter(by)) => {
                self.count(content.as_counter(), change, None, *by)?;
            }
            (ContentChange::Set(changes), Operation::Set(operation)) => {
                self.change_set(content.as_set(), changes, None, operation)?;
            }
            (ContentChange::Set(changes), Operation::Gset(elements)) => {
                for element in elements {
                    self.add(content.as_set(), changes, None, element)?;
                }
            }
            (ContentChange::Map(changes), Operation::Map(operation)) => {
                self.change_map(content.as_map(), changes, None, operation)?;
            }
            (ContentChange::Hll(change), Operation::Hll(elements)) => {
                self.insert(content.as_hll(), change, elements)?;
            }
            (change, operation) => unreachable!("{operation:?} makes no {change:?}"),
        }
        // Pruned once at the end, since a request may change one field many times.
        change.content.prune();
        debug_assert!(self.first <= self.last, "an operation has an event: it marks the record");
        debug_assert!(
            !self.shared || self.first == self.last,
            "changes that share an event make no other"
        );
        Ok((change, Run { first: self.first, last: self.last }))
    }

    /// Adds elements to a HyperLogLog. The new write has all elements of the writes that count here
    /// and the new ones.
    fn insert(
        &mut self,
        item: Option<&Item<Arc<HyperLogLog>>>,
        change: &mut ItemChange<Arc<HyperLogLog>>,
        elements: &[Bytes],
    ) -> Result<(), ApplyError> {
        let mut sum = HyperLogLog::new(self.coordinator.hll_precision);
        undo_where(item, change, None, |write| {
            sum.merge(&write.payload);
            true
        });
        for element in elements {
            sum.insert(element);
        }
        change.write = Some(Write { dot: self.dot()?, payload: Arc::new(sum) });
        Ok(())
    }

    /// The event of the next change.
    fn dot(&mut self) -> Result<Dot, ApplyError> {
        if !self.shared || self.last < self.first {
            self.last = self.last.checked_add(1).ok_or(ApplyError::NoEventLeft)?;
        }
        let EventOrigin { actor, time_secs, .. } = self.coordinator;
        Ok(Dot { actor: actor.clone(), counter: self.last, time_secs })
    }

    /// Adds to a counter. The new write has the sum of what this incarnation has counted before and
    /// the new amount.
    fn count(
        &mut self,
        item: Option<&Item<Totals>>,
        change: &mut ItemChange<Totals>,
        around: Option<&UndoneEvents<'_>>,
        by: i64,
    ) -> Result<(), ApplyError> {
        let mut totals = change.write.take().map_or_else(Totals::default, |write| write.payload);
        let actor = self.coordinator.actor;
        undo_where(item, change, around, |write| {
            let own = write.dot.actor == *actor || planted!(AbsorbsTotals);
            if own {
                totals.add(write.payload);
            }
            own
        });
        totals.count(by);
        change.write = Some(Write { dot: self.dot()?, payload: totals });
        Ok(())
    }

    /// Adds an element, enables a flag, or marks a field as present.
    fn enable(
        &mut self,
        item: Option<&Item<()>>,
        change: &mut ItemChange<()>,
        around: Option<&UndoneEvents<'_>>,
    ) -> Result<(), ApplyError> {
        undo_where(item, change, around, |_| true);
        change.write = Some(Write { dot: self.dot()?, payload: () });
        Ok(())
    }

    /// Undoes the writes that the client had seen or, without a context, all. Returns true if there
    /// were any.
    fn disable(
        &mut self,
        item: Option<&Item<()>>,
        change: &mut ItemChange<()>,
        around: Option<&UndoneEvents<'_>>,
    ) -> Result<bool, ApplyError> {
        let context = self.context;
        let seen = |write: &Write<()>| {
            context.is_none_or(|context| context.contains(&write.dot)) || planted!(RemovesUnseen)
        };
        let mut any = undo_where(item, change, around, seen);
        if context.is_none() {
            any |= change.write.take().is_some();
        }
        self.defer(&mut change.undone)?;
        Ok(any)
    }

    /// Adds the events of the context that the state has not seen to `undone`, so that their writes
    /// have no effect when they arrive.
    fn defer(&mut self, undone: &mut EventSet) -> Result<(), ApplyError> {
        if self.ahead.is_empty() {
            return Ok(());
        }
        self.deferred_run_count += self.ahead.run_count();
        let run_count = self.deferred_run_count;
        if run_count > DEFERRED_RUNS_MAX {
            return Err(ApplyError::TooManyDeferred { run_count });
        }
        undone.merge(&self.ahead);
        Ok(())
    }

    /// Assigns a value to a register. Writes with a later time stay beside the new one, and the
    /// register has their value until a client removes them.
    fn assign(
        &mut self,
        item: Option<&Item<Assigned>>,
        change: &mut ItemChange<Assigned>,
        around: Option<&UndoneEvents<'_>>,
        value: &Bytes,
    ) -> Result<(), ApplyError> {
        let new = Assigned { time_us: self.coordinator.now_us, value: value.clone() };
        undo_where(item, change, around, |write| write.payload <= new);
        change.write = Some(Write { dot: self.dot()?, payload: new });
        Ok(())
    }

    /// Adds an element.
    fn add(
        &mut self,
        elements: Option<&BTreeMap<Bytes, Item<()>>>,
        changes: &mut BTreeMap<Bytes, ItemChange<()>>,
        around: Option<&UndoneEvents<'_>>,
        element: &Bytes,
    ) -> Result<(), ApplyError> {
        let item = elements.and_then(|elements| elements.get(element));
        self.enable(item, changes.entry(element.clone()).or_default(), around)
    }

    /// Changes a set.
    fn change_set(
        &mut self,
        elements: Option<&BTreeMap<Bytes, Item<()>>>,
        changes: &mut BTreeMap<Bytes, ItemChange<()>>,
        around: Option<&UndoneEvents<'_>>,
        operation: &[SetChange],
    ) -> Result<(), ApplyError> {
        for change in operation {
            match change {
                SetChange::Add(element) => self.add(elements, changes, around, element)?,
                SetChange::Remove(element) => {
                    let item = elements.and_then(|elements| elements.get(element));
                    let change = changes.entry(element.clone()).or_default();
                    if !self.disable(item, change, around)? && self.context.is_none() {
                        return Err(ApplyError::NoSuchElement { element: element.clone() });
                    }
                }
            }
        }
        Ok(())
    }

    /// Changes a map: first removes fields, then updates fields in the order given.
    fn change_map(
        &mut self,
        fields: Option<&BTreeMap<FieldName, MapField>>,
        changes: &mut BTreeMap<FieldName, FieldChange>,
        around: Option<&UndoneEvents<'_>>,
        operation: &MapOperation,
    ) -> Result<(), ApplyError> {
        let field_of = |name: &FieldName| fields.and_then(|fields| fields.get(name));
        for name in &operation.removes {
            let none = || FieldChange::none(ContentChange::none(name.kind));
            let change = changes.entry(name.clone()).or_insert_with(none);
            if !self.remove(field_of(name), change, around)? && self.context.is_none() {
                return Err(ApplyError::NoSuchField { field: name.clone() });
            }
        }
        for update in &operation.updates {
            let name = update.field();
            let field = field_of(&name);
            let none = || FieldChange::none(ContentChange::none(name.kind));
            let change = changes.entry(name.clone()).or_insert_with(none);
            self.update(field, change, around, &update.operation)?;
        }
        Ok(())
    }

    /// Undoes the writes in a field that the client had seen or, without a context, all. Returns
    /// true if the field was present.
    fn remove(
        &mut self,
        field: Option<&MapField>,
        change: &mut FieldChange,
        around: Option<&UndoneEvents<'_>>,
    ) -> Result<bool, ApplyError> {
        let mut found = Vec::new();
        // Each field is searched once, since it may be large and be removed many times.
        if let Some(field) = field.filter(|field| self.removed.insert(std::ptr::from_ref(*field))) {
            field.find_dot(&mut |dot| {
                let seen = self.context.is_none_or(|context| context.contains(dot));
                if seen && !is_undone(dot, around) && !change.undone.contains(dot) {
                    found.push(dot);
                }
                false
            });
        }
        let mut any = !found.is_empty();
        // In order, so that each event goes to the end of the set.
        found.sort_unstable_by(|a, b| order(a).cmp(&order(b)));
        found.into_iter().for_each(|dot| change.undone.insert_dot(dot));
        if self.context.is_none() {
            // Earlier changes of the field by the same request are undone as well.
            any |= change.presence.write.is_some();
            change.presence = ItemChange::default();
            change.content.clear();
        }
        self.defer(&mut change.undone)?;
        Ok(any)
    }

    fn update(
        &mut self,
        field: Option<&MapField>,
        change: &mut FieldChange,
        around: Option<&UndoneEvents<'_>>,
        operation: &FieldOperation,
    ) -> Result<(), ApplyError> {
        let FieldChange { undone, presence, content } = change;
        let undone = UndoneEvents { events: undone, around };
        let around = Some(&undone);
        self.enable(field.map(|field| &field.presence), presence, around)?;
        match (field.map(|field| &field.content), content, operation) {
            (content, ContentChange::Counter(change), FieldOperation::Counter(by)) => {
                self.count(content.and_then(Content::as_counter), change, around, *by)
            }
            (content, ContentChange::Set(changes), FieldOperation::Set(operation)) => {
                self.change_set(content.and_then(Content::as_set), changes, around, operation)
            }
            (content, ContentChange::Register(change), FieldOperation::Register(value)) => {
                self.assign(content.and_then(Content::as_register), change, around, value)
            }
            (content, ContentChange::Flag(change), FieldOperation::Flag(true)) => {
                self.enable(content.and_then(Content::as_flag), change, around)
            }
            (content, ContentChange::Flag(change), FieldOperation::Flag(false)) => {
                self.disable(content.and_then(Content::as_flag), change, around).map(|_| ())
            }
            (content, ContentChange::Map(changes), FieldOperation::Map(operation)) => {
                self.change_map(content.and_then(Content::as_map), changes, around, operation)
            }
            (_, change, operation) => unreachable!("{operation:?} makes no {change:?}"),
        }
    }
}

/// Undoes the writes to an item that count and for which `is_asked_for` returns true. Returns true
/// if there were any.
fn undo_where<P>(
    item: Option<&Item<P>>,
    change: &mut ItemChange<P>,
    around: Option<&UndoneEvents<'_>>,
    mut is_asked_for: impl FnMut(&Write<P>) -> bool,
) -> bool {
    let mut any = false;
    for write in item.map_or(&[][..], Item::live) {
        let counts = !is_undone(&write.dot, around) && !change.undone.contains(&write.dot);
        if counts && is_asked_for(write) {
            change.undone.insert_dot(&write.dot);
            any = true;
        }
    }
    any
}
