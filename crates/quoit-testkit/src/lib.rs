//! Nodes for tests, examples and benchmarks.
//!
//! A [`TestNode`] is assembled as in the program ([`quoit_node`]), from parts that leave nothing behind:
//! disks, engine and network are in memory unless a test brings its own. The crate also has the keys, the
//! values and the waiting that tests of several crates share.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod node;
mod objects;
mod wait;

pub use node::{StartError, TestNode, address_of, events, memory_engine};
pub use objects::{at_record, key, key_in, put_of, values};
pub use wait::until;
