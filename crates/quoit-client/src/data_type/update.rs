//! Updates of data types.

use bytes::Bytes;
use quoit_wire::messages::{
    CounterOp, DtOp, FlagOp, GSetOp, HllOp, MapField, MapFieldType, MapOp, SetOp,
};

/// Type of a map's field.
pub use quoit_wire::messages::MapFieldType as FieldKind;

fn copy(bytes: impl AsRef<[u8]>) -> Bytes {
    Bytes::copy_from_slice(bytes.as_ref())
}

fn copy_all<T: AsRef<[u8]>>(elements: impl IntoIterator<Item = T>) -> Vec<Bytes> {
    elements.into_iter().map(copy).collect()
}

/// One update of a data type. The server carries it out as a whole or not at all.
///
/// ```
/// use quoit_client::{DataTypeUpdate, MapUpdate, SetUpdate};
///
/// let visit = DataTypeUpdate::counter(1);
/// let guests = DataTypeUpdate::from(SetUpdate::new().insert("ann").insert("bob"));
/// let profile = DataTypeUpdate::from(
///     MapUpdate::new()
///         .assign("name", "Ann")
///         .enable("subscribed")
///         .count("logins", 1)
///         .update_set("languages", SetUpdate::new().insert("en")),
/// );
/// # drop((visit, guests, profile));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DataTypeUpdate {
    pub(crate) operation: DtOp,
    /// True if the update removes something, which needs a context.
    pub(crate) needs_context: bool,
}

impl DataTypeUpdate {
    /// Adds to a counter; a negative amount subtracts.
    #[must_use]
    pub fn counter(amount: i64) -> DataTypeUpdate {
        let counter_op = Some(CounterOp { increment: Some(amount) });
        DataTypeUpdate { operation: DtOp { counter_op, ..DtOp::default() }, needs_context: false }
    }

    /// Adds elements to a grow-only set.
    pub fn gset<T: AsRef<[u8]>>(elements: impl IntoIterator<Item = T>) -> DataTypeUpdate {
        let gset_op = Some(GSetOp { adds: copy_all(elements) });
        DataTypeUpdate { operation: DtOp { gset_op, ..DtOp::default() }, needs_context: false }
    }

    /// Adds elements to a HyperLogLog.
    pub fn hll<T: AsRef<[u8]>>(elements: impl IntoIterator<Item = T>) -> DataTypeUpdate {
        let hll_op = Some(HllOp { adds: copy_all(elements) });
        DataTypeUpdate { operation: DtOp { hll_op, ..DtOp::default() }, needs_context: false }
    }
}

impl From<SetUpdate> for DataTypeUpdate {
    fn from(update: SetUpdate) -> DataTypeUpdate {
        let needs_context = update.needs_context();
        let set_op = Some(update.0);
        DataTypeUpdate { operation: DtOp { set_op, ..DtOp::default() }, needs_context }
    }
}

impl From<MapUpdate> for DataTypeUpdate {
    fn from(update: MapUpdate) -> DataTypeUpdate {
        let needs_context = update.needs_context;
        let map_op = Some(update.operation);
        DataTypeUpdate { operation: DtOp { map_op, ..DtOp::default() }, needs_context }
    }
}

/// Changes of a set. The server makes all adds first, then all removes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SetUpdate(SetOp);

impl SetUpdate {
    /// No change. It creates an empty set if there is no set.
    #[must_use]
    pub fn new() -> SetUpdate {
        SetUpdate::default()
    }

    /// Adds an element.
    #[must_use]
    pub fn insert(mut self, element: impl AsRef<[u8]>) -> SetUpdate {
        self.0.adds.push(copy(element));
        self
    }

    /// Removes an element that the client has seen: concurrent adds of it stay.
    #[must_use]
    pub fn remove(mut self, element: impl AsRef<[u8]>) -> SetUpdate {
        self.0.removes.push(copy(element));
        self
    }

    fn needs_context(&self) -> bool {
        !self.0.removes.is_empty()
    }
}

impl<T: AsRef<[u8]>> Extend<T> for SetUpdate {
    /// Adds elements.
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        self.0.adds.extend(elements.into_iter().map(copy));
    }
}

/// Changes of a map. The server makes all removes of fields first, then the other changes in their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MapUpdate {
    operation: MapOp,
    needs_context: bool,
}

impl MapUpdate {
    /// No change. It creates an empty map if there is no map.
    #[must_use]
    pub fn new() -> MapUpdate {
        MapUpdate::default()
    }

    /// Removes a field with the content that the client has seen: concurrent updates of it stay.
    #[must_use]
    pub fn remove(mut self, kind: FieldKind, name: impl AsRef<[u8]>) -> MapUpdate {
        self.operation.removes.push(field(kind, name));
        self.needs_context = true;
        self
    }

    /// Adds to a counter; a negative amount subtracts.
    #[must_use]
    pub fn count(self, name: impl AsRef<[u8]>, amount: i64) -> MapUpdate {
        self.change(FieldKind::Counter, name, |update| {
            update.counter_op = Some(CounterOp { increment: Some(amount) });
        })
    }

    /// Assigns to a register.
    #[must_use]
    pub fn assign(self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> MapUpdate {
        self.change(FieldKind::Register, name, |update| update.register_op = Some(copy(value)))
    }

    /// Enables a flag.
    #[must_use]
    pub fn enable(self, name: impl AsRef<[u8]>) -> MapUpdate {
        self.change(FieldKind::Flag, name, |update| update.flag_op = Some(FlagOp::Enable as i32))
    }

    /// Disables a flag that the client has seen: concurrent enables of it stay.
    #[must_use]
    pub fn disable(mut self, name: impl AsRef<[u8]>) -> MapUpdate {
        self.needs_context = true;
        self.change(FieldKind::Flag, name, |update| update.flag_op = Some(FlagOp::Disable as i32))
    }

    /// Changes a set.
    #[must_use]
    pub fn update_set(mut self, name: impl AsRef<[u8]>, set: SetUpdate) -> MapUpdate {
        self.needs_context |= set.needs_context();
        self.change(FieldKind::Set, name, |update| update.set_op = Some(set.0))
    }

    /// Changes a map.
    #[must_use]
    pub fn update_map(mut self, name: impl AsRef<[u8]>, map: MapUpdate) -> MapUpdate {
        self.needs_context |= map.needs_context;
        self.change(FieldKind::Map, name, |update| update.map_op = Some(map.operation))
    }

    fn change(
        mut self,
        kind: MapFieldType,
        name: impl AsRef<[u8]>,
        set_operation: impl FnOnce(&mut quoit_wire::messages::MapUpdate),
    ) -> MapUpdate {
        let field = field(kind, name);
        let mut update = quoit_wire::messages::MapUpdate { field, ..Default::default() };
        set_operation(&mut update);
        self.operation.updates.push(update);
        self
    }
}

fn field(kind: MapFieldType, name: impl AsRef<[u8]>) -> MapField {
    MapField { name: copy(name), kind: kind as i32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_away_needs_a_context_wherever_it_is() {
        let needs = |update: DataTypeUpdate| update.needs_context;
        let set = || SetUpdate::new().insert("a");
        let map = |inner| MapUpdate::new().update_map("m", inner);
        assert!(!needs(DataTypeUpdate::counter(-1)));
        assert!(!needs(set().into()) && needs(set().remove("b").into()));
        let adds = MapUpdate::new().update_set("s", set()).enable("f").count("c", -1);
        assert!(!needs(map(adds).into()));
        for inner in [
            MapUpdate::new().update_set("s", set().remove("b")),
            MapUpdate::new().disable("f"),
            MapUpdate::new().remove(FieldKind::Counter, "c"),
        ] {
            assert!(needs(map(inner).into()));
        }
    }
}
