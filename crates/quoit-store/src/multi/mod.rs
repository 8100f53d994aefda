//! Several engines behind one: the bucket property `backend` names the engine that stores a bucket.
//!
//! The parts:
//!
//! - `assignments`: the engine that each bucket should have, according to the control plane.
//! - `routes`: the engine that each bucket has. The two differ while a bucket whose property was changed
//!   still has records in its former engine. `file` keeps the routes across restarts.
//! - `tickets`: one order of the writes of all engines.
//! - `merge`, `compare`: combining the answers of several engines.
//! - `engine`: the trait; `transact`: transactions; `open`: the store's identity.
//!
//! `docs/design/several-engines.md` gives the reasons.

mod assignments;
mod compare;
mod engine;
mod file;
mod merge;
mod open;
mod routes;
mod tickets;
mod transact;

pub use assignments::{Assignments, Routing};
pub use engine::MultiEngine;
pub use file::engines_in_use;
pub use open::{MultiReport, MultiSettings, NamedEngine};
