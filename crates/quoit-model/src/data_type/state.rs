//! Whole states of data types.

use super::apply::Request;
use super::change::FieldChange;
use super::content::{Content, MapField};
use super::{
    ApplyError, CausalClock, EventAuthor, Operation, OperationError, Run, Value, value::value_of,
};
use crate::clock::{Actor, Dot};
use crate::props::Datatype;

mod digest;

/// The state of a record's data type.
///
/// The clock is not in it: it is the object's. Every function that needs it is given the clock that
/// belongs to the state, and changes both together. A record that was deleted, or that never was, is an
/// empty state with its clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    datatype: Datatype,
    /// The record as a field: it is there while an update counts.
    pub(super) record: MapField,
    /// Whether anything in it waits for events that were undone before they came.
    has_deferred: bool,
}

/// Change that one operation makes to a state; replicas send it to each other.
///
/// May come late, twice, before others that it follows, or never; see [`State::join`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delta {
    pub(super) datatype: Datatype,
    pub(super) actor: Actor,
    pub(super) run: Run,
    pub(super) time_secs: u64,
    pub(super) change: FieldChange,
}

impl Delta {
    /// The actor and the counters of the events that the operation has made.
    #[must_use]
    pub fn events(&self) -> (&Actor, Run) {
        (&self.actor, self.run)
    }

    /// The type of the states that it is for.
    #[must_use]
    pub fn datatype(&self) -> Datatype {
        self.datatype
    }

    /// Whether a state of this clock has all events that the delta's actor had made before it, so that
    /// joining the delta leaves no gap in the clock.
    #[must_use]
    pub fn follows(&self, clock: &CausalClock) -> bool {
        clock.vector().counter(&self.actor) >= self.run.first - 1
    }
}

impl State {
    /// A state of which nothing is known.
    #[must_use]
    pub fn empty(datatype: Datatype) -> Self {
        let record = MapField::empty(Content::of_record(datatype));
        Self { datatype, record, has_deferred: false }
    }

    /// A state as it was stored.
    pub(super) fn from_record(datatype: Datatype, record: MapField) -> Self {
        let has_deferred = record.deferred_run_count() > 0;
        Self { datatype, record, has_deferred }
    }

    /// Its type.
    #[must_use]
    pub fn datatype(&self) -> Datatype {
        self.datatype
    }

    /// Whether the record is there, empty or not. False after deletes that had seen all updates.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.record.is_live()
    }

    /// The event of the latest update that counts; `None` when the record is not there. Of concurrent ones
    /// that is the same one on every replica.
    #[must_use]
    pub fn presence(&self) -> Option<&Dot> {
        self.record.presence.live().last().map(|write| &write.dot)
    }

    /// Whether there is nothing to keep but the clock: the record is not there, and no remove waits for
    /// what it removes.
    #[must_use]
    pub fn is_void(&self) -> bool {
        self.record.is_void()
    }

    /// The value that clients read.
    #[must_use]
    pub fn value(&self) -> Value {
        value_of(&self.record.content)
    }

    /// The delta of an operation. `clock` is the state's, `context` what the client had read; without one,
    /// removes concern what is here. Types without removes ignore it.
    ///
    /// # Errors
    ///
    /// When the operation is for another type, nests maps too deeply, or removes without context what is
    /// not there; when too many removes would wait for what they remove, or no event is left.
    pub fn delta(
        &self,
        clock: &CausalClock,
        operation: &Operation,
        context: Option<&CausalClock>,
        coordinator: EventAuthor<'_>,
    ) -> Result<Delta, ApplyError> {
        operation.check(self.datatype)?;
        let has_removes = matches!(self.datatype, Datatype::Set | Datatype::Map);
        // In a map one event is one request; elements of a set are apart, so that each can be told of
        // by itself.
        let shared = !matches!(self.datatype, Datatype::Set | Datatype::Gset);
        let context = context.filter(|_| has_removes);
        let request = Request::new(clock, &self.record, context, coordinator, shared)?;
        let (change, run) = request.operate(&self.record, operation)?;
        let EventAuthor { actor, time_secs, .. } = coordinator;
        Ok(Delta { datatype: self.datatype, actor: actor.clone(), run, time_secs, change })
    }

    /// Does an operation; what it did is for the other replicas.
    ///
    /// # Errors
    ///
    /// As [`State::delta`]; nothing is changed then.
    pub fn apply(
        &mut self,
        clock: &mut CausalClock,
        operation: &Operation,
        context: Option<&CausalClock>,
        coordinator: EventAuthor<'_>,
    ) -> Result<Delta, ApplyError> {
        let delta = self.delta(clock, operation, context, coordinator)?;
        self.join(clock, &delta)?;
        Ok(delta)
    }

    /// Takes over what an operation has done elsewhere. Only its own events are added to the clock: what
    /// it undid and the state has not seen is undone when it comes.
    ///
    /// # Errors
    ///
    /// When the delta is for another type.
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
        Ok(())
    }

    /// Merges the state of another replica: afterwards this one has seen what both had seen. A tombstone
    /// is an empty state.
    ///
    /// # Panics
    ///
    /// When the states are of different types.
    pub fn merge(&mut self, clock: &mut CausalClock, other: &Self, other_clock: &CausalClock) {
        assert_eq!(self.datatype, other.datatype, "states of different types");
        self.record.merge(clock, &other.record, other_clock);
        clock.merge(other_clock);
        if self.has_deferred || other.has_deferred {
            self.has_deferred = self.record.settle(clock);
        }
    }
}

#[cfg(test)]
mod tests;
