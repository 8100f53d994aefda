//! Compression of values, in front of any engine.
//!
//! [`CompressedEngine`] wraps an engine. It compresses a value if [`CompressionChoice`] says so and it
//! saves space, and always returns the value as it was written. The wrapped engine stores the bytes.
//! Compressed and plain values remain readable whatever the choice is later.
//!
//! [`frame`](crate::frame) describes the format of a compressed value.

mod compare;
mod engine;
mod transact;

pub use engine::{CompressedEngine, CompressionChoice};
