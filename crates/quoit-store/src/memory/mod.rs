//! The memory engine: ordered maps, bounded if wanted, gone when the process ends.
//!
//! For caches and tests. Its records are as durable as memory: every write counts as durable at
//! once, and nothing survives the process. Nothing waits but for the lock of a partition.

mod engine;
mod indexes;
mod listing;
mod stripe;
mod transact;

pub use engine::{MemoryEngine, MemorySettings};
