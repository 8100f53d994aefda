//! The index written out, for a fast start.
//!
//! A snapshot has the entries of each partition as they are in memory, and a state of the engine's
//! own that says, among other things, from which place of the log on the entries have to be caught
//! up. A writer is handed a partition piece by piece, each copied under the partition's lock, so
//! that others use the index meanwhile; nothing is held while the disk writes.
//!
//! `docs/design/snapshot.md` has the format and the reasons.

mod format;
mod load;
#[cfg(test)]
mod tests;
mod write;

pub use load::Snapshot;
pub use write::SnapshotWriter;
