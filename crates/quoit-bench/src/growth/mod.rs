//! Cost of a set or a map while it grows: `quoit bench crdt-growth`.
//!
//! Not a load but an experiment with one client and one connection: items are added one by one, and
//! around each write the record is read as the data type that it is and as a plain object. Where a
//! store reads and writes the whole record for each item, the times grow with it.

mod error;
mod experiment;
mod table;

pub use error::GrowthError;
pub(crate) use experiment::Experiment;
pub use experiment::GrowthKind;
pub(crate) use table::{COLUMNS, ends, median};
pub use table::{GrowthRow, TIMES, TimeColumn};
