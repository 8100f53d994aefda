//! States in objects: how a record that holds a data type is a record like any other.
//!
//! The state's clock is the object's clock, and the state is the value of one of the object's siblings.
//! A note among the sibling's metadata, which no client can write, tells it from the values that clients
//! have put. The sibling's event is the latest that says that the record is there, so that digests,
//! deletes and replicas that know nothing of data types find what they expect.
//!
//! Whatever else is in the object stays beside the state. A tombstone takes from the state what its clock
//! covers, wherever they meet.

use super::context::incarnation_number;
use super::{ApplyError, CausalClock, Coordinator, Operation, State, StoredFormError};
use crate::clock::{Actor, Dot, VersionVector};
use crate::merge::{NewValue, WritePolicy};
use crate::object::{Metadata, Object, Sibling};
use crate::props::Datatype;
use crate::vtag::make_vtag;
use bytes::Bytes;
use thiserror::Error;

/// Name of the note. Entries of Riak's objects begin with a byte 0 or 1.
const NOTE: &[u8] = b"d";

/// Salt of the entity tags of states, which every replica has to make alike.
const TAG_SALT: u64 = 0x6461_7461_7479_7065;

/// Why an operation on an object was not done.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum UpdateError {
    /// It can't be done to this state.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The stored state is damaged.
    #[error(transparent)]
    Stored(#[from] StoredFormError),
    /// The record holds another data type than its bucket type says.
    #[error(
        "record holds a {}, records of this bucket type are of type {}; delete the record first",
        .stored.as_str(), .bucket.as_str()
    )]
    OtherType {
        /// What is there.
        stored: Datatype,
        /// What the operation is for.
        bucket: Datatype,
    },
}

/// The times of a record.
#[derive(Clone, Copy, Default)]
struct Life {
    last_modified_us: u64,
    /// `None` = never.
    expires_at_secs: Option<u32>,
}

impl Life {
    /// Of two changes at the same time the one that lasts longer counts.
    fn merge(self, other: Self) -> Self {
        Self {
            last_modified_us: self.last_modified_us.max(other.last_modified_us),
            expires_at_secs: self
                .expires_at_secs
                .zip(other.expires_at_secs)
                .map(|(ours, theirs)| ours.max(theirs)),
        }
    }
}

impl Sibling {
    /// Whether the value is the state of a data type.
    #[must_use]
    pub fn is_data_type(&self) -> bool {
        self.meta.other.iter().any(|(name, _)| name == NOTE)
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
    /// Whether one of the values is the state of a data type.
    #[must_use]
    pub fn has_data_type(&self) -> bool {
        self.siblings.iter().any(Sibling::is_data_type)
    }

    /// The state of the data type that the object holds, dead or alive.
    ///
    /// # Errors
    ///
    /// When the state is damaged.
    pub fn data_type(&self) -> Result<Option<State>, StoredFormError> {
        let sibling = self.siblings.iter().find(|sibling| sibling.is_data_type());
        sibling.map(|sibling| State::decode(&sibling.value)).transpose()
    }

    /// The incarnation with which the store goes on making events of this object: of those of its own in the
    /// clock the last, if its number is above `given_away`, the store's last when it gave copies away.
    #[must_use]
    pub fn incarnation_of(&self, store: &Actor, given_away: u64) -> Option<&Actor> {
        let actors = self.clock.entries().iter().map(|entry| &entry.actor);
        let own = |actor: &&Actor| {
            incarnation_number(actor, store).is_some_and(|number| number > given_away)
        };
        actors.filter(own).max()
    }

    /// The object after an operation of which the store that coordinates it makes the events.
    /// Tombstones go: the operation has seen them. `expires_at_secs` is when the record then expires.
    ///
    /// # Errors
    ///
    /// When the operation can't be done, or what is stored is damaged; see [`State::delta`].
    pub fn update_data_type(
        stored: Option<Self>,
        operation: &Operation,
        context: Option<&CausalClock>,
        coordinator: Coordinator<'_>,
        expires_at_secs: Option<u32>,
    ) -> Result<Self, UpdateError> {
        let bucket = operation.datatype();
        let mut object = stored.unwrap_or_default();
        let mut state = object.data_type()?.unwrap_or_else(|| State::empty(bucket));
        if state.datatype() != bucket {
            return Err(UpdateError::OtherType { stored: state.datatype(), bucket });
        }
        let mut clock = CausalClock::from(std::mem::take(&mut object.clock));
        state.apply(&mut clock, operation, context, coordinator)?;
        object.clock = clock.vector().clone();
        object.siblings.retain(|sibling| !sibling.deleted && !sibling.is_data_type());
        object.push_state(&state, Life { last_modified_us: coordinator.now_us, expires_at_secs });
        Ok(object)
    }

    /// Adds the sibling of a state, unless there is nothing to keep of it.
    fn push_state(&mut self, state: &State, life: Life) {
        if state.is_void() {
            return;
        }
        // Of a record that is not there no time is kept: what waits there does so on all replicas alike.
        let life = if state.is_live() { life } else { Life::default() };
        let dot = state.presence().cloned();
        let mut value = Vec::new();
        state.encode_into(&mut value);
        let content_type = Bytes::from_static(content_type(state.datatype()).as_bytes());
        let meta = Metadata {
            content_type: Some(content_type),
            expires_at_secs: life.expires_at_secs,
            other: vec![(Bytes::from_static(NOTE), Bytes::new())],
            ..Metadata::default()
        };
        self.siblings.push(Sibling {
            deleted: !state.is_live(),
            last_modified_us: life.last_modified_us,
            vtag: dot.as_ref().map_or_else(Bytes::new, |dot| make_vtag(dot, TAG_SALT)),
            dot,
            meta,
            value: value.into(),
        });
    }

    /// The object without its state, and the state with its times. `None` when it has none that can be read:
    /// it is then a value as any other.
    fn split(&self) -> Option<(Self, State, Life)> {
        let place = self.siblings.iter().position(Sibling::is_data_type)?;
        let mut rest = self.clone();
        let sibling = rest.siblings.remove(place);
        let state = State::decode(&sibling.value).ok()?;
        let life = Life {
            last_modified_us: sibling.last_modified_us,
            expires_at_secs: sibling.meta.expires_at_secs,
        };
        Some((rest, state, life))
    }

    /// As [`Object::merge`] where one of the two has a state. `None` where that can't be made one with the
    /// other: the states are damaged, or of different types.
    pub(crate) fn merge_data_types(&self, other: &Self) -> Option<Self> {
        // What has seen more has taken over everything; most replicas are only behind.
        let has_all_of = |more: &Self, less: &Self| {
            more.clock.descends(&less.clock)
                && more.has_data_type() == less.has_data_type()
                && less.siblings.iter().all(|sibling| sibling.dot.is_some())
        };
        if has_all_of(self, other) {
            return Some(self.clone());
        }
        if has_all_of(other, self) {
            return Some(other.clone());
        }
        let (ours, theirs) = (self.split(), other.split());
        let empty = |object: &Self, of: &(_, State, Life)| {
            (object.clone(), State::empty(of.1.datatype()), of.2)
        };
        let ((our_rest, mut state, our_life), (their_rest, their_state, their_life)) =
            match (ours, theirs) {
                (Some(ours), Some(theirs)) => (ours, theirs),
                (Some(ours), None) if !other.has_data_type() => {
                    let theirs = empty(other, &ours);
                    (ours, theirs)
                }
                (None, Some(theirs)) if !self.has_data_type() => {
                    let ours = empty(self, &theirs);
                    (ours, theirs)
                }
                _ => return None,
            };
        if state.datatype() != their_state.datatype() {
            return None;
        }
        let mut clock = CausalClock::from(self.clock.clone());
        state.merge(&mut clock, &their_state, &CausalClock::from(other.clock.clone()));
        let mut merged = our_rest.merge(&their_rest);
        merged.push_state(&state, our_life.merge(their_life));
        Some(merged)
    }

    /// As [`Object::write`] where a state is stored, which the new value replaces as far as its writer had
    /// seen it. `None` when the state is damaged.
    pub(crate) fn write_over_data_type(
        &self,
        context: &VersionVector,
        new: &NewValue,
        dot: &Dot,
        policy: WritePolicy,
    ) -> Option<Self> {
        let (rest, mut state, life) = self.split()?;
        let seen = CausalClock::from(context.clone());
        let mut clock = CausalClock::from(self.clock.clone());
        state.merge(&mut clock, &State::empty(state.datatype()), &seen);
        let mut object = Self::write(Some(&rest), context, new.clone(), dot.clone(), policy);
        object.push_state(&state, life);
        Some(object)
    }
}

#[cfg(test)]
mod tests;
