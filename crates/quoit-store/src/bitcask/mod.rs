//! The Bitcask engine: an append-only log, and an index in memory that knows where each record is.
//!
//! A read is a look into the index and one positioned read. A write is appended to the log by the thread that
//! asked for it; a committer syncs for all writes that wait. Files only grow at their end, so readers need no
//! locks on them; merges leave dead records behind.
//!
//! The parts:
//!
//! - `record`, `segment`, `meta`, `directory`: the formats of the files.
//! - `log`, `commit`: writing, and making durable.
//! - `store`: the state that the parts share; `point`, `batch`, `list`: the requests.
//! - `keys`, `seal`: keys of young segments in memory, key files of closed ones.
//! - `indexes`: secondary indexes.
//! - `checkpoint`: snapshots of the index; `merge`: reclaiming the space of dead records.
//! - `open`, `gap`, `load`, `scan`, `replay`, `rebuild`: starting.
//!
//! Locks are taken in this order: stripe (one, or several by ascending partition), end of the log, keys,
//! waiting entries of secondary indexes. No thread waits for the disk while it holds a lock other than the
//! committer's own, with these exceptions: appending holds the stripe and the log's end, and batches read
//! keys under their stripes.
//!
//! `docs/design/log.md` has the formats and the reasons.

mod batch;
mod begin;
mod buffer;
mod candidates;
mod checkpoint;
mod commit;
mod compare;
#[cfg(test)]
mod crash;
mod directory;
mod engine;
mod facts;
mod gap;
mod indexes;
mod keys;
mod list;
mod load;
mod log;
mod mend;
mod merge;
mod misnamed;
mod missing;
mod open;
mod planted;
mod point;
mod read;
mod rebuild;
mod recent;
mod record;
mod replay;
mod report;
mod room;
mod scan;
mod seal;
mod segment;
mod settings;
mod store;
mod synced;
mod transact;
mod verify;
mod visit;

pub use crate::durability::Durability;
pub use crate::record_loss::RecordLoss;
pub use engine::{BitcaskEngine, COMMIT_WORKER, MERGE_WORKER, SEAL_WORKER, SNAPSHOT_WORKER};
pub use report::OpenReport;
pub use settings::{BitcaskSettings, MergePolicy, MergeSettings};
