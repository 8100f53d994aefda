//! Storage engines behind one trait: the Bitcask engine, the memory engine, and their disk seam.

pub mod engine;
pub mod error;
pub mod index;
pub mod seam;
