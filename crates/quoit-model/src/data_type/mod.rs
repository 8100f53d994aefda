//! Data types: values that merge by rules of their own instead of becoming siblings.
//!
//! Clients send [`Operation`]s, not values. The data type of a record is a property of its bucket
//! type ([`Datatype`](crate::props::Datatype)); a map holds fields, each with a name and a
//! [`FieldKind`].
//!
//! The design follows delta-state CRDTs (Almeida, Shoker and Baquero, "Delta State Replicated Data
//! Types", 2018):
//!
//! - The coordinator turns an operation into a [`Delta`], applies it, and sends it to the other
//!   replicas. Deltas may be lost, repeated or reordered.
//! - The [`CausalClock`] of a state holds the events that the state has seen. A write to an item
//!   counts until an event that has seen it undoes it.
//! - A merge keeps a write if both states have it, or if one has it and the other has not seen its
//!   event. So a removed element never comes back, and an element that was added concurrently with
//!   its removal stays.
//! - Clients receive the clock as an opaque [`context`] and send it back with removes.
//!
//! `docs/design/data-types.md` has the design and the stored forms.

mod apply;
mod change;
mod clock;
mod codec;
mod content;
pub mod context;
mod error;
mod events;
mod from_riak;
mod item;
mod object;
mod operation;
pub mod pages;
mod query;
mod riak;
mod state;
mod value;

pub use crate::field_name::{FieldKind, FieldName, MAP_DEPTH_MAX};
pub use apply::{ApplyError, DEFERRED_RUNS_MAX, EventOrigin};
pub use clock::CausalClock;
pub use codec::{DELTA_FORMAT_1, STATE_FORMAT_1};
pub use error::StoredFormError;
pub use events::{EventSet, Run};
pub use from_riak::{claims_riak_data_type, clock_in_riak};
pub use object::{UpdateError, content_type};
pub use operation::{
    FieldOperation, FieldUpdate, MapOperation, Operation, OperationError, SetChange,
};
pub use query::{Answer, ItemRange, Query, QueryError, Question, WantedPart};
pub use riak::CounterForm;
pub use state::{Delta, State};
pub use value::Value;
