//! Moves the data of one engine to another, while no process uses either.
//!
//! A base directory has the directory of the old engine. While a conversion is under way it also has
//! `converting`, with the file `CONVERSION` that says what is converted and how far it has come, and `new`,
//! the directory of the new engine in the making. The old data counts until the file says that the new one is
//! complete; from then on the new one does. Whatever happens in between, killed at any moment, the same
//! command goes on from there:
//!
//! 1. [`Conversion::begin`] makes the new directory as that of the same store, and the file.
//! 2. [`Conversion::copy`] copies records partition by partition, and notes from time to time, after a sync,
//!    how far it has come. At the end both engines are compared by their digests.
//! 3. [`Conversion::complete`] gives the new store the old one's incarnation and counters, so that no event
//!    is made twice, and lets the new data count. If records are lacking, a new incarnation begins: that of
//!    the engine, and that of several engines of which it is one ([`note_loss`]).
//! 4. [`Conversion::switch`] puts the new directory in the place of the old one, and removes that.
//!
//! No node may start while the file is there: [`under_way`] tells.

mod copy;
mod error;
mod state;
mod switch;

pub use copy::{Notes, Progress};
pub use error::ConvertError;
pub use state::UnderWay;
pub use switch::{Conversion, note_loss, under_way};

#[cfg(test)]
mod tests;
