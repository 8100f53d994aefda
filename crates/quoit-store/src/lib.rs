//! Storage engines behind one trait: the Bitcask engine, the engines on ordered stores, the memory engine,
//! several of them behind one, compressed values on any of them.

mod aside;
pub mod bitcask;
mod buckets;
mod caught_up;
pub mod compare;
pub mod compressed;
pub mod convert;
mod durability;
pub mod engine;
pub mod error;
mod expired;
mod file_names;
mod found_damage;
pub mod frame;
mod identity;
pub mod index;
mod index_activity;
mod index_page;
pub mod keyfile;
mod marker;
pub mod memory;
pub mod multi;
mod opened;
mod opening;
pub mod ordered;
mod output;
mod pending;
mod range;
mod record;
mod record_loss;
pub mod snapshot;
mod store_file;
mod tag;

pub use aside::{SalvageWork, is_set_aside, needs_salvage_to_finish, set_aside};
pub use expired::after_expiry;
pub use identity::StoreIdentity;
pub use index_activity::IndexActivity;
pub use marker::{engine_in, engine_of};
pub use opened::OpenedStore;
pub use opening::{OpeningWatch, TOLD_BYTES, Unwatched};
pub use output::is_temporary_name;
