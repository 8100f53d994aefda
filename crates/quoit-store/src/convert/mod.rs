//! Conversion: moves the data of one engine to another, while no process uses either.
//!
//! A base directory contains the directory of the old engine. During a conversion it also contains
//! `converting`, with the file `CONVERSION`, which has the engines and the progress, and `new`, the
//! directory of the new engine. The old data is valid until the file says that the new data is complete;
//! from then on the new data is. The conversion may be killed at any moment; the same command continues it:
//!
//! 1. [`Conversion::begin`] creates the new directory, with the identity of the old store, and the file.
//! 2. [`Conversion::copy`] copies records partition by partition. From time to time it syncs and notes the
//!    progress. At the end it compares both engines by their digests.
//! 3. [`Conversion::complete`] gives the new store the old one's incarnation and counters, so that no event
//!    is made twice, and makes the new data the valid one. If records are missing, a new incarnation
//!    begins: of the new store, and of the store of several engines if it is one of these ([`note_loss`]).
//! 4. [`Conversion::switch`] puts the new directory in the place of the old one, and removes the old one.
//!
//! No node may start while the file exists: [`started_conversion`] checks that.

mod copy;
mod error;
mod state;
mod switch;

pub use copy::{CopySettings, Progress};
pub use error::ConvertError;
pub use state::StartedConversion;
pub use switch::{Conversion, note_loss, started_conversion};

#[cfg(test)]
mod tests;
