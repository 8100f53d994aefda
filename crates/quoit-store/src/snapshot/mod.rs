//! Snapshots: the index written to disk, for a fast start.
//!
//! A snapshot has the entries of each partition as they are in memory, and a state of the engine's own,
//! which says (among other facts) from which position of the log on a start has to replay records. The
//! writer copies a partition in parts, each under the partition's lock, so that requests use the index in
//! between. It holds no lock while the disk writes.
//!
//! `docs/design/snapshot.md` describes the format and gives the reasons.

mod format;
mod load;
#[cfg(test)]
mod tests;
mod write;

pub use load::Snapshot;
pub use write::SnapshotWriter;
