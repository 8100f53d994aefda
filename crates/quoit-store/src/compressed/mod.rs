//! Values that are stored compressed, on whatever engine.
//!
//! [`CompressedEngine`] stands before an engine. It compresses a value where [`CompressionChoice`] says so
//! and it saves space, and it always returns the value as it was given. The engine behind keeps bytes.
//! Compressed and plain values stay readable for ever, whatever the choice is now.
//!
//! [`frame`](crate::frame) has the form of a compressed value.

mod compare;
mod engine;
mod transact;

pub use engine::{CompressedEngine, CompressionChoice};
