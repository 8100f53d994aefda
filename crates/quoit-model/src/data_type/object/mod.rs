//! Objects that hold the state of a data type. A record with a data type is stored, compared and
//! replicated like any other record.
//!
//! The state is the value of one of the object's siblings, and the object's clock is the state's version
//! vector. A note among the sibling's metadata, which no client can write, distinguishes the state from
//! values that clients have put. The value of the note is the dot cloud, which the object's clock can't hold.
//! The sibling's dot is an update that marks the record as present, so that digests, deletes, and code that
//! does not know data types treat the sibling as any other.
//!
//! Other siblings stay beside the state. When a tombstone is merged with the state, the state loses the
//! writes that the tombstone's clock covers.

use super::context::incarnation_number;
use super::{
    ApplyError, CausalClock, Delta, EventOrigin, EventSet, Operation, State, StoredFormError,
};
use crate::clock::{Actor, Dot, VersionVector};
use crate::cursor::Cursor;
use crate::merge::{NewValue, WritePolicy};
use crate::object::{Metadata, Object, Sibling};
use crate::props::Datatype;
use crate::vtag::make_vtag;
use bytes::Bytes;
use quoit_planted::planted;
use thiserror::Error;

/// Name of the note. The metadata entries of Riak's objects begin with byte 0 or 1, so they can't
/// have this name.
const NOTE: &[u8] = b"d";

/// Salt of the entity tags of states. Every replica computes the same tag.
const TAG_SALT: u64 = 0x6461_7461_7479_7065;

/// Error of updating the data type of an object.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum UpdateError {
    /// The operation can't be applied to the state.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The stored state is damaged.
    #[error(transparent)]
    Stored(#[from] StoredFormError),
    /// The record holds another data type than its bucket type has.
    #[error(
        "record holds a {}, records of this bucket type are of type {}; delete the record first",
        .stored.as_str(), .bucket.as_str()
    )]
    OtherType {
        /// Data type that is stored.
        stored: Datatype,
        /// Data type that the operation is for.
        bucket: Datatype,
    },
}

/// Times of a record.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct RecordTimes {
    pub(super) last_modified_us: u64,
    /// Time of expiry in seconds since 1970; `None` if the record never expires.
    pub(super) expires_at_secs: Option<u32>,
}

impl RecordTimes {
    /// Merges the times of two copies: the later modification and the later expiry.
    pub(super) fn merge(self, other: Self) -> Self {
        Self {
            last_modified_us: self.last_modified_us.max(other.last_modified_us),
            expires_at_secs: self
                .expires_at_secs
                .zip(other.expires_at_secs)
                .map(|(ours, theirs)| ours.max(theirs)),
        }
    }
}

/// Properties of a state from which its sibling is made.
pub(super) struct StateSummary {
    pub(super) datatype: Datatype,
    pub(super) is_live: bool,
    /// True if the state can be dropped.
    pub(super) is_void: bool,
    /// See [`State::presence`].
    pub(super) presence: Option<Dot>,
}

impl From<&State> for StateSummary {
    fn from(state: &State) -> Self {
        Self {
            datatype: state.datatype(),
            is_live: state.is_live(),
            is_void: state.is_void(),
            presence: state.presence().cloned(),
        }
    }
}

impl Sibling {
    /// True if the value is the state of a data type.
    #[must_use]
    pub fn is_data_type(&self) -> bool {
        self.note().is_some()
    }

    /// The note: the dot cloud of the state in its stored form. `None` if the value is not a state.
    pub(crate) fn note(&self) -> Option<&Bytes> {
        self.meta.other.iter().find(|(name, _)| name == NOTE).map(|(_, cloud)| cloud)
    }

    pub(super) fn life(&self) -> RecordTimes {
        RecordTimes {
            last_modified_us: self.last_modified_us,
            expires_at_secs: self.meta.expires_at_secs,
        }
    }
}

/// A state taken out of its object.
struct ExtractedState {
    /// The object without the state.
    rest: Object,
    state: State,
    clock: CausalClock,
    life: RecordTimes,
}

impl ExtractedState {
    /// Makes the parts for an object without a state.
    fn nothing(object: &Object, datatype: Datatype, life: RecordTimes) -> Self {
        let clock = CausalClock::from(object.clock.clone());
        Self { rest: object.clone(), state: State::empty(datatype), clock, life }
    }
}

/// The content type that clients see of a data type.
#[must_use]
pub const fn content_type(datatype: Datatype) -> &'static str {
    match datatype {
        Datatype::Counter => "application/riak_counter",
        Datatype::Set => "application/riak_set",
        Datatype::Gset => "application/riak_gset",
        Datatype::Map => "application/riak_map",
        Datatype::Hll => "application/riak_hll",
    }
}

impl Object {
    /// True if one of the siblings is the state of a data type.
    #[must_use]
    pub fn has_data_type(&self) -> bool {
        self.siblings.iter().any(Sibling::is_data_type)
    }

    /// The data type of the state that the object holds, read from the first bytes of the state.
    #[must_use]
    pub fn datatype(&self) -> Option<Datatype> {
        let state = self.siblings.iter().find(|sibling| sibling.is_data_type())?;
        State::datatype_of(&state.value)
    }

    /// The state that the object holds, present or deleted.
    ///
    /// # Errors
    ///
    /// Returns an error if the state is damaged.
    pub fn data_type(&self) -> Result<Option<State>, StoredFormError> {
        let sibling = self.siblings.iter().find(|sibling| sibling.is_data_type());
        sibling.map(|sibling| State::decode(&sibling.value)).transpose()
    }

    /// All events that the object has seen: its clock and, if it holds a data type, the dot cloud.
    ///
    /// # Errors
    ///
    /// Returns an error if the stored dot cloud is damaged.
    pub fn causal_clock(&self) -> Result<CausalClock, StoredFormError> {
        Ok(CausalClock::new(self.clock.clone(), self.cloud()?))
    }

    fn cloud(&self) -> Result<EventSet, StoredFormError> {
        let Some(note) = self.siblings.iter().find_map(Sibling::note) else {
            return Ok(EventSet::default());
        };
        if note.is_empty() {
            return Ok(EventSet::default());
        }
        let mut cursor = Cursor::borrowing(note);
        let cloud = EventSet::decode(&mut cursor)?;
        match cursor.remaining() {
            0 => Ok(cloud),
            _ => Err(StoredFormError::BadForm { what: "bytes behind its end", at: cursor.at() }),
        }
    }

    /// True if this object has seen the event of a sibling that it does not have.
    fn has_replaced(&self, sibling: &Sibling) -> bool {
        sibling.dot.as_ref().is_some_and(|dot| self.clock.contains(dot))
            && !self.siblings.iter().any(|own| own.dot == sibling.dot)
    }

    /// True if this object has seen all events of the other.
    fn has_seen(&self, other: &Self) -> bool {
        let is_plain = |object: &Self| {
            object.siblings.iter().all(|one| one.note().is_none_or(Bytes::is_empty))
        };
        if is_plain(self) && is_plain(other) || planted!(ComparesVectorsAlone) {
            return self.clock.descends(&other.clock);
        }
        match (self.causal_clock(), other.causal_clock()) {
            (Ok(own), Ok(others)) => own.covers(&others),
            (Err(_), _) | (_, Err(_)) => false,
        }
    }

    /// True if the clocks alone show that the merge of both objects is this one: an object that has seen more
    /// events has all that the other one has. Deltas are an exception: an object that received one does not
    /// know which tombstones the operation replaced. So the siblings are compared as well.
    pub(super) fn has_all_of(&self, less: &Self) -> bool {
        self.has_seen(less)
            && self.has_data_type() == less.has_data_type()
            && less.siblings.iter().all(|sibling| sibling.dot.is_some())
            && self.siblings.iter().all(|one| one.is_data_type() || !less.has_replaced(one))
    }

    /// The incarnation under which the store continues to make events of this object: the greatest
    /// of its own incarnations in the clock, if its number is above `given_away`. That is the
    /// store's latest number at the time when it gave copies away.
    #[must_use]
    pub fn incarnation_of(&self, store: &Actor, given_away: u64) -> Option<&Actor> {
        let actors = self.clock.entries().iter().map(|entry| &entry.actor);
        let own = |actor: &&Actor| {
            incarnation_number(actor, store).is_some_and(|number| number > given_away)
        };
        actors.filter(own).max()
    }

    /// Returns the object after an operation that this store coordinates. Tombstones are dropped, since the
    /// operation has seen them. `expires_at_secs` is the new time of expiry, in seconds since 1970.
    ///
    /// # Errors
    ///
    /// Returns an error if the operation can't be applied (see [`State::delta`]), or stored data is
    /// damaged.
    pub fn update_data_type(
        stored: Option<Self>,
        operation: &Operation,
        context: Option<&CausalClock>,
        coordinator: EventOrigin<'_>,
        expires_at_secs: Option<u32>,
    ) -> Result<Self, UpdateError> {
        let bucket = operation.datatype();
        let mut object = stored.unwrap_or_default();
        let mut state = object.data_type()?.unwrap_or_else(|| State::empty(bucket));
        if state.datatype() != bucket {
            return Err(UpdateError::OtherType { stored: state.datatype(), bucket });
        }
        let mut clock = object.causal_clock()?;
        state.apply(&mut clock, operation, context, coordinator)?;
        let life = RecordTimes { last_modified_us: coordinator.now_us, expires_at_secs };
        object.replace_state(&state, &clock, life);
        Ok(object)
    }

    /// Returns the object after an operation that another store has coordinated ([`State::join`]).
    /// Returns `None` if the delta is not enough, and the whole object has to be fetched: this
    /// object has other siblings than a state of the delta's type.
    ///
    /// # Errors
    ///
    /// Returns an error if stored data is damaged.
    pub fn join_data_type(
        stored: Option<Self>,
        delta: &Delta,
        last_modified_us: u64,
        expires_at_secs: Option<u32>,
    ) -> Result<Option<Self>, StoredFormError> {
        let mut object = stored.unwrap_or_default();
        if !object.siblings.iter().all(Sibling::is_data_type) {
            return Ok(None);
        }
        let mut clock = object.causal_clock()?;
        let mut state = object.data_type()?.unwrap_or_else(|| State::empty(delta.datatype()));
        let life = RecordTimes { last_modified_us, expires_at_secs };
        let life = object.siblings.first().map_or(life, |sibling| sibling.life().merge(life));
        if state.join(&mut clock, delta).is_err() {
            return Ok(None);
        }
        object.replace_state(&state, &clock, life);
        Ok(Some(object))
    }

    /// Replaces the stored state and tombstones by a state that has seen both.
    fn replace_state(&mut self, state: &State, clock: &CausalClock, life: RecordTimes) {
        self.clock = clock.vector().clone();
        self.siblings.retain(|sibling| !sibling.deleted && !sibling.is_data_type());
        self.push_state(state, clock, life);
    }

    /// Adds the sibling of a state, unless the state can be dropped.
    pub(super) fn push_state(&mut self, state: &State, clock: &CausalClock, life: RecordTimes) {
        self.push_described(StateSummary::from(state), clock, life, |value| {
            state.encode_into(value)
        });
    }

    /// Adds the sibling of a state, unless the state can be dropped. `encode` appends its stored
    /// form.
    pub(super) fn push_described(
        &mut self,
        state: StateSummary,
        clock: &CausalClock,
        life: RecordTimes,
        encode: impl FnOnce(&mut Vec<u8>),
    ) {
        if state.is_void && clock.cloud().is_empty() {
            return;
        }
        // An absent record has no times. Its deferred events are the same on all replicas.
        let life = if state.is_live { life } else { RecordTimes::default() };
        let mut value = Vec::new();
        encode(&mut value);
        let mut cloud = Vec::new();
        if !clock.cloud().is_empty() {
            clock.cloud().encode_into(&mut cloud);
        }
        let content_type = Bytes::from_static(content_type(state.datatype).as_bytes());
        let meta = Metadata {
            content_type: Some(content_type),
            expires_at_secs: life.expires_at_secs,
            other: vec![(Bytes::from_static(NOTE), cloud.into())],
            ..Metadata::default()
        };
        self.siblings.push(Sibling {
            deleted: !state.is_live,
            last_modified_us: life.last_modified_us,
            vtag: state.presence.as_ref().map_or_else(Bytes::new, |dot| make_vtag(dot, TAG_SALT)),
            dot: state.presence,
            meta,
            value: value.into(),
        });
    }

    /// Takes the state out. Returns `None` if there is none or it can't be read; it is then treated
    /// as an ordinary value.
    fn split(&self) -> Option<ExtractedState> {
        let place = self.siblings.iter().position(Sibling::is_data_type)?;
        let clock = self.causal_clock().ok()?;
        let mut rest = self.clone();
        let sibling = rest.siblings.remove(place);
        let state = State::decode(&sibling.value).ok()?;
        Some(ExtractedState { rest, state, clock, life: sibling.life() })
    }

    /// As [`Object::merge`], if one of the two objects has a state. Returns `None` if a state is
    /// damaged or the data types differ; the states are then merged as ordinary values.
    pub(crate) fn merge_data_types(&self, other: &Self) -> Option<Self> {
        // Most replicas are merely behind.
        if self.has_all_of(other) {
            return Some(self.clone());
        }
        if other.has_all_of(self) {
            return Some(other.clone());
        }
        let (ours, theirs) = match (self.split(), other.split()) {
            (Some(ours), Some(theirs)) => (ours, theirs),
            (Some(ours), None) if !other.has_data_type() => {
                let theirs = ExtractedState::nothing(other, ours.state.datatype(), ours.life);
                (ours, theirs)
            }
            (None, Some(theirs)) if !self.has_data_type() => {
                (ExtractedState::nothing(self, theirs.state.datatype(), theirs.life), theirs)
            }
            _ => return None,
        };
        let ExtractedState { rest, mut state, mut clock, life } = ours;
        if state.datatype() != theirs.state.datatype() {
            return None;
        }
        state.merge(&mut clock, &theirs.state, &theirs.clock);
        let merged = rest.merge(&theirs.rest);
        Some(merged.with_state(&state, &clock, life.merge(theirs.life)))
    }

    /// As [`Object::write`] if a state is stored: the new value replaces what its writer had seen
    /// of the state. Returns `None` if the state is damaged.
    pub(crate) fn write_over_data_type(
        &self,
        context: &VersionVector,
        new: &NewValue,
        dot: &Dot,
        policy: WritePolicy,
    ) -> Option<Self> {
        let ExtractedState { rest, mut state, mut clock, life } = self.split()?;
        let seen = CausalClock::from(context.clone());
        state.merge(&mut clock, &State::empty(state.datatype()), &seen);
        let object = Self::write(Some(&rest), context, new.clone(), dot.clone(), policy);
        // Adds the new event, and the events of the writer's context, which may close gaps.
        clock.merge(&CausalClock::from(object.clock.clone()));
        Some(object.with_state(&state, &clock, life))
    }

    /// Returns the object with all events of an actor up to `dot` added to the clock of its state.
    pub(super) fn advanced_to(self, dot: &Dot) -> Self {
        let Some(ExtractedState { rest, state, mut clock, life }) = self.split() else {
            return self;
        };
        clock.merge(&VersionVector::from_entries([dot.clone()]).into());
        rest.with_state(&state, &clock, life)
    }

    /// Adds a state to an object without one.
    fn with_state(mut self, state: &State, clock: &CausalClock, life: RecordTimes) -> Self {
        self.clock = clock.vector().clone();
        self.push_state(state, clock, life);
        self
    }
}

#[cfg(test)]
mod tests;
