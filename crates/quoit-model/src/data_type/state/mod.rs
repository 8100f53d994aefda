//! Whole states of data types, their deltas and merges.

use super::apply::Request;
use super::change::FieldChange;
use super::content::{Content, MapField};
use super::{
    ApplyError, CausalClock, EventOrigin, Operation, OperationError, Run, Value, value::value_of,
};
use crate::clock::{Actor, Dot};
use crate::props::Datatype;

mod digest;

/// Number of elements or fields up to which a whole state is checked in debug builds.
const CHECKED_ITEM_COUNT_MAX: usize = 32;

/// The state of a record's data type.
///
/// The state does not include its clock, which is that of the object. Every function that needs the
/// clock takes the one that belongs to the state, and changes both together. A deleted or absent
/// record is an empty state with its clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    datatype: Datatype,
    /// The record, represented as a field. The record exists while an update counts.
    pub(super) record: MapField,
    /// True if any item has deferred events.
    has_deferred: bool,
}

/// Change of a state by one operation, as replicas send it to each other.
///
/// A replica may receive a delta late, twice, before an earlier one, or never; see [`State::join`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delta {
    pub(super) datatype: Datatype,
    pub(super) actor: Actor,
    pub(super) run: Run,
    pub(super) time_secs: u64,
    pub(super) change: FieldChange,
}

impl Delta {
    /// The actor of the operation's events and the run of their counters.
    #[must_use]
    pub fn events(&self) -> (&Actor, Run) {
        (&self.actor, self.run)
    }

    /// The data type of the states that the delta is for.
    #[must_use]
    pub fn datatype(&self) -> Datatype {
        self.datatype
    }

    /// True if a state of this clock has all earlier events of the delta's actor, so that joining
    /// the delta leaves no gap in the clock.
    #[must_use]
    pub fn follows(&self, clock: &CausalClock) -> bool {
        clock.vector().counter(&self.actor) >= self.run.first - 1
    }
}

impl State {
    /// A state without updates and deferred events.
    #[must_use]
    pub fn empty(datatype: Datatype) -> Self {
        let record = MapField::empty(Content::of_record(datatype));
        Self { datatype, record, has_deferred: false }
    }

    /// Makes a state from its stored record.
    pub(super) fn from_record(datatype: Datatype, record: MapField) -> Self {
        let has_deferred = record.deferred_run_count() > 0;
        Self { datatype, record, has_deferred }
    }

    /// The data type.
    #[must_use]
    pub fn datatype(&self) -> Datatype {
        self.datatype
    }

    /// True if the record exists, empty or not. False after a delete that had seen all updates.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.record.is_live()
    }

    /// The event of an update that counts; `None` if the record does not exist. Of concurrent
    /// updates it is the greatest by actor and counter, so that every replica returns the same
    /// event.
    #[must_use]
    pub fn presence(&self) -> Option<&Dot> {
        self.record.presence.live().last().map(|write| &write.dot)
    }

    /// True if the state can be dropped and only the clock kept: the record does not exist, and no
    /// item has deferred events.
    #[must_use]
    pub fn is_void(&self) -> bool {
        self.record.is_void()
    }

    /// The value that clients read.
    #[must_use]
    pub fn value(&self) -> Value {
        value_of(&self.record.content)
    }

    /// Computes the delta of an operation; the state does not change. `clock` is that of the state.
    /// `context` is what the client had read; without a context, removes affect the writes of this
    /// state. Data types without removes ignore the context.
    ///
    /// # Errors
    ///
    /// Returns an error if the operation is for another data type, nests maps too deeply, or
    /// removes without a context an element or field that is absent; also if too many events would
    /// be deferred, or the actor has no counter left.
    pub fn delta(
        &self,
        clock: &CausalClock,
        operation: &Operation,
        context: Option<&CausalClock>,
        coordinator: EventOrigin<'_>,
    ) -> Result<Delta, ApplyError> {
        operation.check(self.datatype)?;
        let has_removes = matches!(self.datatype, Datatype::Set | Datatype::Map);
        // In a map all changes of a request share one event. Elements of a set have events of their
        // own, so that a page can be sent with its events alone.
        let shared = !matches!(self.datatype, Datatype::Set | Datatype::Gset);
        let context = context.filter(|_| has_removes);
        let request = Request::new(clock, &self.record, context, coordinator, shared)?;
        let (change, run) = request.operate(&self.record, operation)?;
        let EventOrigin { actor, time_secs, .. } = coordinator;
        Ok(Delta { datatype: self.datatype, actor: actor.clone(), run, time_secs, change })
    }

    /// Applies an operation. Returns its delta, for the other replicas.
    ///
    /// # Errors
    ///
    /// As [`State::delta`]. The state is then unchanged.
    pub fn apply(
        &mut self,
        clock: &mut CausalClock,
        operation: &Operation,
        context: Option<&CausalClock>,
        coordinator: EventOrigin<'_>,
    ) -> Result<Delta, ApplyError> {
        let delta = self.delta(clock, operation, context, coordinator)?;
        self.join(clock, &delta)?;
        Ok(delta)
    }

    /// Applies the delta of an operation that another store coordinated. Adds only the delta's own
    /// events to the clock. Events that the operation undid and that this state has not seen yet
    /// are deferred: they take no effect when they arrive.
    ///
    /// # Errors
    ///
    /// Returns an error if the delta is for another data type.
    pub fn join(&mut self, clock: &mut CausalClock, delta: &Delta) -> Result<(), OperationError> {
        if delta.datatype != self.datatype {
            let (operation, bucket) = (delta.datatype, self.datatype);
            return Err(OperationError::WrongType { operation, bucket });
        }
        if clock.has_run(&delta.actor, delta.run) {
            return Ok(());
        }
        self.has_deferred |= self.record.join(&delta.change, clock);
        clock.add_run(&delta.actor, delta.run, delta.time_secs);
        if self.has_deferred {
            self.has_deferred = self.record.settle(clock);
        }
        self.assert_deferred();
        Ok(())
    }

    /// In debug builds, asserts of a small state that no item has deferred events if none is known
    /// to have some. Such events would never be dropped.
    fn assert_deferred(&self) {
        if cfg!(debug_assertions) && self.record.content.item_count() <= CHECKED_ITEM_COUNT_MAX {
            let has_any = self.record.deferred_run_count() > 0;
            assert_eq!(self.has_deferred, has_any, "a state knows whether it has deferred events");
        }
    }

    /// Merges the state of another replica. Afterwards this state has seen the events of both. A
    /// tombstone is an empty state.
    ///
    /// # Panics
    ///
    /// Panics if the states are of different data types.
    pub fn merge(&mut self, clock: &mut CausalClock, other: &Self, other_clock: &CausalClock) {
        assert_eq!(self.datatype, other.datatype, "states of different types");
        self.record.merge(clock, &other.record, other_clock);
        clock.merge(other_clock);
        if self.has_deferred || other.has_deferred {
            self.has_deferred = self.record.settle(clock);
        }
        self.assert_deferred();
    }
}

#[cfg(test)]
mod tests;
