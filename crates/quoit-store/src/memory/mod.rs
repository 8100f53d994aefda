//! The memory engine: ordered maps, optionally bounded, gone when the process ends.
//!
//! For caches and tests. Every write counts as durable at once, but no record survives the process. Calls
//! wait only for the lock of a partition.

mod engine;
mod indexes;
mod listing;
mod stripe;
mod transact;

pub use engine::{MemoryEngine, MemorySettings};
