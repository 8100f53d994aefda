//! Values that are stored compressed, on whatever engine.
//!
//! [`CompressedEngine`] stands before an engine: what it is given to store it compresses, where somebody
//! ([`CompressionChoice`]) wants that and it gains anything, and what it shows is always as it was given. The
//! engine behind keeps bytes. Values of both kinds are read for ever, whatever is wanted now.
//!
//! What a compressed value looks like is in [`frame`].

mod compare;
mod engine;
pub mod frame;
mod transact;

pub use engine::{CompressedEngine, CompressionChoice};
