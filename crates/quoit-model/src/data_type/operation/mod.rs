//! Operations of clients on data types.

use super::{FieldKind, FieldName};
use crate::field_name::MAP_DEPTH_MAX;
use crate::props::Datatype;
use bytes::Bytes;
use thiserror::Error;

mod codec;

/// A request of a client to change a data type. Either all of its changes are applied, or none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Adds a number to a counter; a negative number decrements.
    Counter(i64),
    /// Changes a set, in the order given.
    Set(Vec<SetChange>),
    /// Adds elements to a grow-only set.
    Gset(Vec<Bytes>),
    /// Adds elements to a HyperLogLog.
    Hll(Vec<Bytes>),
    /// Changes a map.
    Map(MapOperation),
}

/// One change of a set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SetChange {
    /// Adds an element. Adding an element that is present makes a new event, which protects the
    /// element from removes that have not seen it.
    Add(Bytes),
    /// Removes an element.
    Remove(Bytes),
}

/// Changes of a map: first fields are removed, then fields are updated, in the order given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MapOperation {
    /// Fields to remove, with their contents.
    pub removes: Vec<FieldName>,
    /// Fields to change; absent fields are created.
    pub updates: Vec<FieldUpdate>,
}

/// A change of one field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldUpdate {
    /// The field's name; the operation determines its kind.
    pub name: Bytes,
    /// Operation on the field.
    pub operation: FieldOperation,
}

/// Operation on a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FieldOperation {
    /// Adds a number to a counter; a negative number decrements.
    Counter(i64),
    /// Changes a set, in the order given.
    Set(Vec<SetChange>),
    /// Assigns to a register.
    Register(Bytes),
    /// Enables (true) or disables a flag.
    Flag(bool),
    /// Changes a map.
    Map(MapOperation),
}

/// Error of an operation that is invalid for any stored state.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum OperationError {
    /// The operation is for another data type than that of the bucket type.
    #[error(
        "operation is of type {}, records of this bucket type are of type {}; use a bucket type \
         with the property datatype={}",
        .operation.as_str(), .bucket.as_str(), .operation.as_str()
    )]
    WrongType {
        /// Data type that the operation is for.
        operation: Datatype,
        /// Data type of the bucket type.
        bucket: Datatype,
    },
    /// The operation nests maps deeper than [`MAP_DEPTH_MAX`].
    #[error("operation nests maps deeper than {MAP_DEPTH_MAX}; nest them less deeply")]
    TooDeep,
}

impl Operation {
    /// The data type that the operation is for.
    #[must_use]
    pub const fn datatype(&self) -> Datatype {
        match self {
            Self::Counter(_) => Datatype::Counter,
            Self::Set(_) => Datatype::Set,
            Self::Gset(_) => Datatype::Gset,
            Self::Hll(_) => Datatype::Hll,
            Self::Map(_) => Datatype::Map,
        }
    }

    /// Checks the operation without the record: that it is for the data type of the bucket type,
    /// and that it does not nest maps too deeply.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the checks fails.
    pub fn check(&self, bucket: Datatype) -> Result<(), OperationError> {
        if self.datatype() != bucket {
            return Err(OperationError::WrongType { operation: self.datatype(), bucket });
        }
        match self {
            Self::Map(map) => map.check_depth(1),
            _ => Ok(()),
        }
    }
}

impl MapOperation {
    /// Checks the nesting. `depth` is that of this map, from 1. Stops at the maximum depth.
    fn check_depth(&self, depth: usize) -> Result<(), OperationError> {
        let holds_maps = |field: &FieldName| field.kind == FieldKind::Map;
        if depth == MAP_DEPTH_MAX && self.removes.iter().any(holds_maps) {
            return Err(OperationError::TooDeep);
        }
        for update in &self.updates {
            if let FieldOperation::Map(map) = &update.operation {
                if depth == MAP_DEPTH_MAX {
                    return Err(OperationError::TooDeep);
                }
                map.check_depth(depth + 1)?;
            }
        }
        Ok(())
    }
}

impl FieldUpdate {
    /// Makes a change of a field.
    #[must_use]
    pub fn new(name: impl Into<Bytes>, operation: FieldOperation) -> Self {
        Self { name: name.into(), operation }
    }

    /// Name and kind of the field.
    #[must_use]
    pub fn field(&self) -> FieldName {
        FieldName { name: self.name.clone(), kind: self.operation.kind() }
    }
}

impl FieldOperation {
    /// The kind of field that the operation is for.
    #[must_use]
    pub const fn kind(&self) -> FieldKind {
        match self {
            Self::Counter(_) => FieldKind::Counter,
            Self::Set(_) => FieldKind::Set,
            Self::Register(_) => FieldKind::Register,
            Self::Flag(_) => FieldKind::Flag,
            Self::Map(_) => FieldKind::Map,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An operation on `depth` nested maps; the innermost one also updates another field.
    fn nested(depth: usize, innermost: FieldOperation) -> Operation {
        let mut operation = innermost;
        let mut map = MapOperation::default();
        for _ in 0..depth {
            map = MapOperation { updates: vec![FieldUpdate::new("m", operation)], ..map };
            operation = FieldOperation::Map(std::mem::take(&mut map));
        }
        match operation {
            FieldOperation::Map(map) => Operation::Map(map),
            other => panic!("{other:?} is no map"),
        }
    }

    #[test]
    fn an_operation_fits_its_own_type_alone() {
        let operations = [
            Operation::Counter(1),
            Operation::Set(Vec::new()),
            Operation::Gset(Vec::new()),
            Operation::Hll(Vec::new()),
            Operation::Map(MapOperation::default()),
        ];
        for operation in &operations {
            for bucket in operations.iter().map(Operation::datatype) {
                let fits = operation.datatype() == bucket;
                assert_eq!(operation.check(bucket).is_ok(), fits, "{operation:?} {bucket:?}");
            }
        }
        let refused = Operation::Counter(1).check(Datatype::Set).unwrap_err();
        let text = "operation is of type counter, records of this bucket type are of type set; use \
                    a bucket type with the property datatype=counter";
        assert_eq!(refused.to_string(), text);
    }

    #[test]
    fn maps_nest_up_to_the_bound() {
        let flag = || FieldOperation::Flag(true);
        assert_eq!(nested(MAP_DEPTH_MAX, flag()).check(Datatype::Map), Ok(()));
        let too_deep = Err(OperationError::TooDeep);
        assert_eq!(nested(MAP_DEPTH_MAX + 1, flag()).check(Datatype::Map), too_deep);
        let empty = FieldOperation::Map(MapOperation::default());
        assert_eq!(nested(MAP_DEPTH_MAX, empty).check(Datatype::Map), too_deep);
    }

    #[test]
    fn maps_too_deep_to_be_there_are_not_removed_either() {
        let removing = |kind| {
            let removes = vec![FieldName::new("f", kind)];
            let map = MapOperation { removes, ..MapOperation::default() };
            nested(MAP_DEPTH_MAX - 1, FieldOperation::Map(map)).check(Datatype::Map)
        };
        assert_eq!(removing(FieldKind::Set), Ok(()));
        assert_eq!(removing(FieldKind::Map), Err(OperationError::TooDeep));
    }

    #[test]
    fn an_update_names_its_field() {
        let update = FieldUpdate::new("tags", FieldOperation::Set(Vec::new()));
        assert_eq!(update.field(), FieldName::new("tags", FieldKind::Set));
    }
}
