//! Storage engines behind one trait: the Bitcask engine, the memory engine, and their disk seam.

pub mod bitcask;
pub mod compare;
pub mod engine;
pub mod error;
pub mod index;
pub mod keyfile;
pub mod memory;
mod output;
mod pending;
mod range;
pub mod seam;
pub mod snapshot;

pub use output::is_temporary_name;
