//! Generators of keys and of values, which may be made of each other.

pub mod keygen;
pub mod valgen;
