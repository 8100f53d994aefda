//! Key files: the keys of a sealed segment, in order, without the values.
//!
//! Listings of keys and buckets merge key files and never read values. A node whose index snapshot is
//! missing or damaged rebuilds the index from key files. An entry has the name of a record, its position in
//! the segment, and the facts that the index needs.
//!
//! [`KeyRunBuilder`] collects the entries of a segment and [`KeyRun::write`] writes them; [`KeyFileWriter`]
//! writes entries that are in order already. [`KeyFile`] opens a key file; [`FileCursor`] iterates over it,
//! [`KeyMerge`] over several together, and [`KeyListing`] over a range of them.
//!
//! `docs/design/key-file.md` describes the format and gives the reasons.

mod block;
mod entry;
mod footer;
mod merge;
mod reader;
mod run;
#[cfg(test)]
mod tests;
mod writer;

pub use entry::{KeyEntry, KeyWrite, WriteKind};
pub use footer::KeyFileFooter;
pub use merge::{KeyListing, KeyMerge, KeySource, MergedEntry};
pub use reader::{FileCursor, KeyFile};
pub use run::{KeyRun, KeyRunBuilder};
pub use writer::KeyFileWriter;
