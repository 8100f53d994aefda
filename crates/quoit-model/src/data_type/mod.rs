//! Data types: values that merge by rules of their own instead of becoming siblings.
//!
//! Clients send [`Operation`]s, not values. The kind of data type of a record is a property of its
//! bucket type ([`Datatype`](crate::props::Datatype)); maps hold fields, each named by bytes and a
//! [`FieldKind`].
//!
//! A state's [`CausalClock`] holds the events that it has seen; clients get it as an opaque [`context`].

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
pub use apply::{ApplyError, DEFERRED_RUNS_MAX, EventAuthor};
pub use clock::CausalClock;
pub use codec::{DELTA_FORMAT_1, STATE_FORMAT_1};
pub use error::StoredFormError;
pub use events::{EventSet, Run};
pub use from_riak::{claims_to_be_riaks, clock_in_riak};
pub use object::{UpdateError, content_type};
pub use operation::{
    FieldOperation, FieldUpdate, MapOperation, Operation, OperationError, SetChange,
};
pub use query::{Answer, ItemRange, Query, QueryError, Question, WantedPart};
pub use riak::ShownForm;
pub use state::{Delta, State};
pub use value::Value;
