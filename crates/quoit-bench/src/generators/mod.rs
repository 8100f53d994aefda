//! Generators of keys and values. Each can contain the other.

pub mod keygen;
pub mod valgen;
