//! The Bitcask engine: an append-only log, and an index in memory with the position of each record.
//!
//! A read takes one lookup in the index and one positioned read. A write is appended to the log by the
//! thread that asked for it; a committer thread syncs once for all waiting writes. Files only grow at their
//! end, so readers need no locks on them. Merges copy live records and leave dead ones behind.
//!
//! The parts:
//!
//! - `record`, `segment`, `directory`: formats of the files.
//! - `log`, `commit`: appending, and making durable.
//! - `store`: state that the parts share; `point`, `batch`, `transact`, `list`: requests.
//! - `keys`, `seal`: keys in memory of segments without a key file, key files of closed segments.
//! - `indexes`: secondary indexes.
//! - `checkpoint`: snapshots of the index; `merge`: reclaiming the space of dead records.
//! - `open`, `gap`, `load`, `scan`, `replay`, `rebuild`: starting.
//!
//! Lock order: stripe (one, or several by ascending partition), end of the log, keys, waiting entries of
//! secondary indexes. No thread waits for the disk while it holds one of these locks, except that an append
//! holds the stripe and the end of the log, and that a batch reads keys while it holds its stripes. The
//! committer waits for the disk under a lock of its own.
//!
//! `docs/design/log.md` describes the formats and gives the reasons.

mod batch;
mod buffer;
mod candidates;
mod checkpoint;
mod commit;
mod compare;
#[cfg(test)]
mod crash;
mod directory;
mod disk_reserve;
mod engine;
mod gap;
mod indexes;
mod key_facts;
mod keys;
mod list;
mod load;
mod log;
mod log_end;
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
mod repair;
mod replay;
mod report;
mod scan;
mod seal;
mod segment;
mod segment_creator;
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
