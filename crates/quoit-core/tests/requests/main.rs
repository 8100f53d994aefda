//! Tests of the store's promises to clients.
#![allow(clippy::unwrap_used, reason = "a fixture that fails is a test that fails")]

mod cluster;
mod one_node;
mod slow_disk;
mod watched_disk;
