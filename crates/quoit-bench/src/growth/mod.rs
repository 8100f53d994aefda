//! The cost of a set or a map while it grows: `quoit bench crdt-growth`.
//!
//! This is not a load but an experiment with one client and one connection. Items are added one at a time.
//! Around each write the record is read as a data type and as a plain object. If the store reads and writes
//! the whole record for each item, the times grow with its size.

mod error;
mod experiment;
mod table;

pub use error::GrowthError;
pub use experiment::GrowthKind;
pub(crate) use experiment::{Experiment, GrowthItem};
pub(crate) use table::{COLUMNS, ends, median};
pub use table::{GrowthRow, TIMES, TimeColumn};
