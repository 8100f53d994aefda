//! The values that phases pass on: inputs, objects as functions see them, terms, and their JSON.

pub(crate) mod datum;
pub(crate) mod found;
pub(crate) mod input;
pub(crate) mod json;
