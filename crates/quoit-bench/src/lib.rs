//! The load generator.
pub mod term;
