//! Nodes for tests, examples and benchmarks.
//!
//! A [`TestNode`] is put together as the program does it ([`quoit_node`]), from parts that leave nothing
//! behind: disks, engine and network are in memory unless a test brings its own. Keys, values and waiting of
//! tests of several crates stand beside it.

mod node;
mod objects;
mod wait;

pub use node::{StartError, TestNode, address_of, events, memory_engine};
pub use objects::{at_record, key, key_in, put_of, values};
pub use wait::until;
