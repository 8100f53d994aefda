//! Data type operations from Protocol Buffers messages.

use quoit_model::data_type::{
    FieldKind, FieldName, FieldOperation, FieldUpdate, MapOperation, Operation, SetChange,
};
use quoit_wire::messages::{
    CounterOp, DtOp, FlagOp, MapField, MapFieldType, MapOp, MapUpdate, SetOp,
};
use thiserror::Error;

/// Reasons why a message is not an operation.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum UpdateFault {
    /// No operation is set.
    #[error("update has no operation; set one of counter_op, set_op, hll_op, gset_op and map_op")]
    NoOperation,
    /// The update of a field has no operation, or one of another type.
    #[error("update of field {0} has no operation of the field's type; set it")]
    NoFieldOperation(FieldName),
}

/// The operation of a message. If several are set, the first counts in the order counter, set, HyperLogLog,
/// grow-only set, map.
///
/// # Errors
///
/// When the message, or the update of a field, has no operation.
pub fn operation_of(message: DtOp) -> Result<Operation, UpdateFault> {
    if let Some(counter) = message.counter_op {
        Ok(Operation::Counter(amount(&counter)))
    } else if let Some(set) = message.set_op {
        Ok(Operation::Set(set_changes(set)))
    } else if let Some(hll) = message.hll_op {
        Ok(Operation::Hll(hll.adds))
    } else if let Some(gset) = message.gset_op {
        Ok(Operation::Gset(gset.adds))
    } else if let Some(map) = message.map_op {
        Ok(Operation::Map(map_operation(map)?))
    } else {
        Err(UpdateFault::NoOperation)
    }
}

fn amount(counter: &CounterOp) -> i64 {
    counter.increment.unwrap_or(1)
}

/// All adds, followed by all removes.
fn set_changes(set: SetOp) -> Vec<SetChange> {
    let adds = set.adds.into_iter().map(SetChange::Add);
    adds.chain(set.removes.into_iter().map(SetChange::Remove)).collect()
}

fn map_operation(map: MapOp) -> Result<MapOperation, UpdateFault> {
    Ok(MapOperation {
        removes: map.removes.into_iter().map(field_name).collect(),
        updates: map
            .updates
            .into_iter()
            .filter_map(|each| field_update(each).transpose())
            .collect::<Result<_, _>>()?,
    })
}

pub fn field_name(field: MapField) -> FieldName {
    let kind = match field.kind() {
        MapFieldType::Counter => FieldKind::Counter,
        MapFieldType::Set => FieldKind::Set,
        MapFieldType::Register => FieldKind::Register,
        MapFieldType::Flag => FieldKind::Flag,
        MapFieldType::Map => FieldKind::Map,
    };
    FieldName { name: field.name, kind }
}

/// The change of a field. `None` for a register without an operation: clients send it for a value that they
/// do not have, and it changes nothing.
fn field_update(update: MapUpdate) -> Result<Option<FieldUpdate>, UpdateFault> {
    let is_enabled = update.flag_op.map(|_| update.flag_op() == FlagOp::Enable);
    let field = field_name(update.field);
    let operation = match field.kind {
        FieldKind::Counter => {
            update.counter_op.map(|counter| FieldOperation::Counter(amount(&counter)))
        }
        FieldKind::Set => update.set_op.map(|set| FieldOperation::Set(set_changes(set))),
        FieldKind::Register => update.register_op.map(FieldOperation::Register),
        FieldKind::Flag => is_enabled.map(FieldOperation::Flag),
        FieldKind::Map => update.map_op.map(map_operation).transpose()?.map(FieldOperation::Map),
    };
    match operation {
        Some(operation) => Ok(Some(FieldUpdate { name: field.name, operation })),
        None if field.kind == FieldKind::Register => Ok(None),
        None => Err(UpdateFault::NoFieldOperation(field)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_wire::messages::{GSetOp, HllOp};

    fn field(name: &'static str, kind: MapFieldType) -> MapField {
        MapField { name: name.into(), kind: kind as i32 }
    }

    fn update(name: &'static str, kind: MapFieldType) -> MapUpdate {
        MapUpdate { field: field(name, kind), ..MapUpdate::default() }
    }

    #[test]
    fn of_several_operations_one_counts() {
        let all = DtOp {
            counter_op: Some(CounterOp { increment: None }),
            set_op: Some(SetOp { adds: vec!["a".into()], removes: vec!["b".into()] }),
            map_op: Some(MapOp::default()),
            hll_op: Some(HllOp { adds: vec!["h".into()] }),
            gset_op: Some(GSetOp { adds: vec!["g".into()] }),
        };
        assert_eq!(operation_of(all.clone()), Ok(Operation::Counter(1)));
        let all = DtOp { counter_op: None, ..all };
        let changes = vec![SetChange::Add("a".into()), SetChange::Remove("b".into())];
        assert_eq!(operation_of(all.clone()), Ok(Operation::Set(changes)));
        let all = DtOp { set_op: None, ..all };
        assert_eq!(operation_of(all.clone()), Ok(Operation::Hll(vec!["h".into()])));
        let all = DtOp { hll_op: None, ..all };
        assert_eq!(operation_of(all.clone()), Ok(Operation::Gset(vec!["g".into()])));
        let all = DtOp { gset_op: None, ..all };
        assert_eq!(operation_of(all), Ok(Operation::Map(MapOperation::default())));
        assert_eq!(operation_of(DtOp::default()), Err(UpdateFault::NoOperation));
    }

    #[test]
    fn maps_have_every_kind_of_field() {
        let inner = MapOp { removes: vec![field("x", MapFieldType::Register)], updates: vec![] };
        let map = MapOp {
            removes: vec![field("y", MapFieldType::Map)],
            updates: vec![
                MapUpdate {
                    counter_op: Some(CounterOp { increment: Some(-2) }),
                    ..update("c", MapFieldType::Counter)
                },
                MapUpdate { set_op: Some(SetOp::default()), ..update("s", MapFieldType::Set) },
                MapUpdate { register_op: Some("v".into()), ..update("r", MapFieldType::Register) },
                MapUpdate {
                    flag_op: Some(FlagOp::Disable as i32),
                    ..update("f", MapFieldType::Flag)
                },
                MapUpdate { map_op: Some(inner), ..update("m", MapFieldType::Map) },
            ],
        };
        let inner = MapOperation {
            removes: vec![FieldName::new("x", FieldKind::Register)],
            ..MapOperation::default()
        };
        let expected = MapOperation {
            removes: vec![FieldName::new("y", FieldKind::Map)],
            updates: vec![
                FieldUpdate::new("c", FieldOperation::Counter(-2)),
                FieldUpdate::new("s", FieldOperation::Set(Vec::new())),
                FieldUpdate::new("r", FieldOperation::Register("v".into())),
                FieldUpdate::new("f", FieldOperation::Flag(false)),
                FieldUpdate::new("m", FieldOperation::Map(inner)),
            ],
        };
        let message = DtOp { map_op: Some(map), ..DtOp::default() };
        assert_eq!(operation_of(message), Ok(Operation::Map(expected)));
    }

    #[test]
    fn a_register_without_an_operation_is_left_as_it_is() {
        let value =
            MapUpdate { register_op: Some("v".into()), ..update("other", MapFieldType::Register) };
        let updates = vec![update("r", MapFieldType::Register), value];
        let map = MapOp { removes: vec![], updates };
        let message = DtOp { map_op: Some(map), ..DtOp::default() };
        let updates = vec![FieldUpdate::new("other", FieldOperation::Register("v".into()))];
        let expected = MapOperation { removes: vec![], updates };
        assert_eq!(operation_of(message), Ok(Operation::Map(expected)));
    }

    #[test]
    fn a_field_needs_an_operation_of_its_type() {
        let wrong =
            MapUpdate { counter_op: Some(CounterOp::default()), ..update("s", MapFieldType::Set) };
        let map = MapOp { removes: vec![], updates: vec![wrong] };
        let message = DtOp { map_op: Some(map), ..DtOp::default() };
        let fault = operation_of(message).unwrap_err();
        let text = "update of field s_set has no operation of the field's type; set it";
        assert_eq!(fault.to_string(), text);
    }
}
