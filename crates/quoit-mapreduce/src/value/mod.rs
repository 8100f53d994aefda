//! Values that flow between phases: inputs, objects for functions, terms, and their JSON forms.

pub(crate) mod datum;
pub(crate) mod found;
pub(crate) mod input;
pub(crate) mod json;
