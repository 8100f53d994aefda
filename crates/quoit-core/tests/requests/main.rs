//! Promises of the store to its clients.
#![allow(clippy::unwrap_used, reason = "a fixture that fails is a test that fails")]

mod cluster;
mod one_node;
