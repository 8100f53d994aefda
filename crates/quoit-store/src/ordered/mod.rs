//! The engines on ordered key-value stores: `leveldb` and `leveled` on log-structured merge trees,
//! `innostore` on a B+tree.
//!
//! One adapter serves all of them. A write is decided under the lock of its partition. It takes effect at
//! once in a batch in memory, and a worker moves the batch to the ordered store, together with all writes
//! that were added meanwhile. Records, names, counts and digests of one write are in one atomic batch.
//! Reads look at the batches in memory first.
//!
//! The parts:
//!
//! - `backend`: the trait of ordered stores; `lsm` with `retired`, `tree`: its implementations; `journal`,
//!   `files`: repair after power failures and damage.
//! - `keys`, `value`: formats; `tallies`: counts and digests.
//! - `overlay`: writes that wait for the store, and reads that merge both.
//! - `cache`: records that were read or written recently.
//! - `store`: state that the parts share; `point`, `change`, `list`, `visit`, `compare`, `verify`:
//!   requests.
//! - `salvage`: reading files that cannot be opened any more.
//! - `commit`, `maintenance`: the workers; `rebuild`: recovery after a loss; `derived_data`: comparison of
//!   names and index entries with records.
//! - `engine`: the trait, opening and closing.
//!
//! Lock order: changes of a partition (one, or several by ascending partition), counts of a partition,
//! guards of the cache, batches. Threads wait for the disk only under the first.
//!
//! `docs/design/ordered-engines.md` gives the reasons.

mod backend;
mod cache;
mod change;
mod commit;
mod compare;
mod derived_data;
mod engine;
mod files;
mod indexes;
mod interrupted_creation;
mod journal;
mod keys;
mod list;
mod lsm;
mod maintenance;
mod open;
mod overlay;
mod point;
mod rebuild;
mod repair;
mod retired;
mod salvage;
mod settings;
mod store;
mod tallies;
#[cfg(test)]
mod test_store;
mod tree;
mod value;
mod verify;
mod visit;

pub(crate) use backend::{OrderedStore, Space, StoreStatistics, VisitFn};
pub use engine::{MAINTENANCE_WORKER, OrderedEngine, WRITE_WORKER};
pub use lsm::LsmSettings;
pub use open::OrderedReport;
pub(crate) use overlay::{Overlay, PendingWrites, ScanRange};
pub use salvage::{RecordFate, SalvageEvent, Salvaged, UnreadableRange, salvage};
pub use settings::OrderedSettings;
pub use tree::TreeSettings;
pub(crate) use tree::{TreeFile, TreeStore, checksum_file_name};
