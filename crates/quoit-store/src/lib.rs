//! Storage engines behind one trait ([`engine::Engine`]): the Bitcask engine ([`bitcask`]), the engines on
//! ordered stores ([`ordered`]), the memory engine ([`memory`]), several engines behind one ([`multi`]),
//! and compressed values on any of them ([`compressed`]).
//!
//! An engine stores opaque values under record keys and tells the caller when a write is durable. It knows
//! nothing of requests, replicas or the network.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

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
#[expect(
    clippy::indexing_slicing,
    reason = "groups, pages and entries have numbers of its own tables"
)]
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
pub use opening::{IgnoredProgress, OpeningWatch, PROGRESS_BYTES};
pub use output::is_temporary_name;
