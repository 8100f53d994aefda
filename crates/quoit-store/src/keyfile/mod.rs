//! Key files: the keys of a sealed segment, in order, without the values.
//!
//! Listings of keys and buckets merge key files and never read values; a node whose snapshot of the
//! index is missing or damaged rebuilds it from them. An entry names the record, where it is in the
//! segment, and what the index has to know of it.
//!
//! [`KeyRunBuilder`] collects the entries of a segment and [`KeyRun::write`] writes them;
//! [`KeyFileWriter`] takes a stream that is in order already. [`KeyFile`] opens a key file;
//! [`FileCursor`] walks over it, [`KeyMerge`] over several together, [`KeyListing`] over those of a
//! range.
//!
//! `docs/design/key-file.md` has the format and the reasons.

mod block;
mod entry;
mod footer;
mod merge;
mod reader;
mod run;
#[cfg(test)]
mod tests;
mod writer;

pub use entry::{KeyEntry, WriteFacts, WriteKind};
pub use footer::KeyFileFooter;
pub use merge::{KeyListing, KeyMerge, KeySource, MergedEntry};
pub use reader::{FileCursor, KeyFile};
pub use run::{KeyRun, KeyRunBuilder};
pub use writer::KeyFileWriter;
