//! The engines on ordered key-value stores: `leveldb` and `leveled` on log-structured merge trees,
//! `innostore` on a B+tree.
//!
//! One adapter serves all of them. A write is decided under the lock of its partition, counts at once in a
//! batch in memory, and is moved to the ordered store by one worker, with all writes that have come in
//! meanwhile: records, names, counts and digests of one write are in one atomic batch. Reads look at the
//! batches first.
//!
//! The parts:
//!
//! - `backend`: the trait of ordered stores; `lsm` with `retired`, `tree`: its implementations; `journal`,
//!   `files`: repair after power cuts and damage.
//! - `keys`, `value`: the formats; `tallies`: counts and digests.
//! - `overlay`: writes that wait for the store, and reads of both together.
//! - `cache`: records that were read or written lately.
//! - `store`: the state that the parts share; `point`, `change`, `list`, `visit`, `compare`, `verify`: the
//!   requests.
//! - `salvage`: reading files that can't be opened any more.
//! - `commit`, `upkeep`: the workers; `rebuild`: recovery after a loss; `agree`: comparison of names and
//!   index entries with records.
//! - `engine`: the trait, opening and closing.
//!
//! Locks are taken in this order: changes of a partition (one, or several by ascending partition), counts of
//! a partition, guards of the cache, batches. The disk is waited for under the first alone.
//!
//! `docs/design/ordered-engines.md` has the reasons.

mod agree;
mod backend;
mod cache;
mod change;
mod commit;
mod compare;
mod engine;
mod files;
mod half_made;
mod indexes;
mod journal;
mod keys;
mod list;
mod lsm;
mod mend;
mod open;
mod overlay;
mod point;
mod rebuild;
mod retired;
mod salvage;
mod settings;
mod store;
mod tallies;
mod tree;
mod upkeep;
mod value;
mod verify;
mod visit;

pub(crate) use backend::{Figures, OrderedStore, Space, Visit};
pub use engine::{OrderedEngine, UPKEEP_WORKER, WRITE_WORKER};
pub use lsm::LsmSettings;
pub use open::OrderedReport;
pub(crate) use overlay::{Overlay, PendingWrites, Range};
pub use salvage::{RecordFate, SalvageEvent, Salvaged, Unread, salvage};
pub use settings::OrderedSettings;
pub use tree::TreeSettings;
pub(crate) use tree::{TreeFile, TreeStore, sums_name};
