//! Data types: their updates and their values.

mod update;
mod value;

pub use update::{DataTypeUpdate, FieldKind, MapUpdate, SetUpdate};
pub use value::{DataTypeValue, MapValue};
