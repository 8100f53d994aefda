//! Several engines behind one: each bucket is kept by the engine that its property `backend` names.
//!
//! The parts:
//!
//! - `assignments`: the engine that each bucket shall have, as the control plane knows it.
//! - `routes`: the engine that each bucket has. The two differ while a bucket whose property was changed
//!   still has records in the former engine; `file` keeps that across restarts.
//! - `tickets`: one order of the writes of all engines.
//! - `merge`, `compare`: answers of several engines as one.
//! - `engine`: the trait; `transact`: transactions; `open`: the store's identity.
//!
//! `docs/design/several-engines.md` has the reasons.

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
