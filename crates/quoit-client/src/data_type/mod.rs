//! Data types: what is asked of them, and their values.

mod update;
mod value;

pub use update::{DataTypeUpdate, FieldKind, MapUpdate, SetUpdate};
pub use value::{DataTypeValue, MapValue};
