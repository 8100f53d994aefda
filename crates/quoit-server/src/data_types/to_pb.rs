//! Data type values in Protocol Buffers messages.

use quoit_model::data_type::{FieldKind, FieldName, Value};
use quoit_model::props::Datatype;
use quoit_wire::messages::{DataType, DtUpdateResp, DtValue, MapEntry, MapField, MapFieldType};

/// The number of a data type in messages.
pub const fn data_type_of(datatype: Datatype) -> DataType {
    match datatype {
        Datatype::Counter => DataType::Counter,
        Datatype::Set => DataType::Set,
        Datatype::Map => DataType::Map,
        Datatype::Hll => DataType::Hll,
        Datatype::Gset => DataType::Gset,
    }
}

/// The value of a record of this data type.
pub fn fetched_value(datatype: Datatype, value: Value) -> DtValue {
    let mut message = DtValue::default();
    match value {
        Value::Counter(number) => message.counter_value = Some(within_64_bits(number)),
        Value::Set(elements) if datatype == Datatype::Gset => message.gset_value = elements,
        Value::Set(elements) => message.set_value = elements,
        Value::Map(entries) => message.map_value = map_entries(entries),
        Value::Hll(estimate) => message.hll_value = Some(estimate),
        // Registers and flags only occur in maps.
        Value::Register(_) | Value::Flag(_) => {}
    }
    message
}

/// The value of a record of this data type after an update.
pub fn updated_value(datatype: Datatype, value: Value) -> DtUpdateResp {
    let DtValue { counter_value, set_value, map_value, hll_value, gset_value } =
        fetched_value(datatype, value);
    DtUpdateResp {
        key: None,
        context: None,
        counter_value,
        set_value,
        map_value,
        hll_value,
        gset_value,
    }
}

/// The nearest number that a message can hold.
pub fn within_64_bits(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX })
}

fn map_entries(entries: Vec<(FieldName, Value)>) -> Vec<MapEntry> {
    entries.into_iter().map(map_entry).collect()
}

/// A field of a map.
pub fn map_entry((name, value): (FieldName, Value)) -> MapEntry {
    let kind = match name.kind {
        FieldKind::Counter => MapFieldType::Counter,
        FieldKind::Set => MapFieldType::Set,
        FieldKind::Register => MapFieldType::Register,
        FieldKind::Flag => MapFieldType::Flag,
        FieldKind::Map => MapFieldType::Map,
    };
    let field = MapField { name: name.name, kind: kind as i32 };
    let mut message = MapEntry { field, ..MapEntry::default() };
    match value {
        Value::Counter(number) => message.counter_value = Some(within_64_bits(number)),
        Value::Set(elements) => message.set_value = elements,
        Value::Register(value) => message.register_value = Some(value),
        Value::Flag(is_enabled) => message.flag_value = Some(is_enabled),
        Value::Map(entries) => message.map_value = map_entries(entries),
        // Maps can't contain HyperLogLogs.
        Value::Hll(_) => {}
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_member_of_their_type() {
        let fetched = fetched_value(Datatype::Counter, Value::Counter(-7));
        assert_eq!(fetched, DtValue { counter_value: Some(-7), ..DtValue::default() });
        let elements = vec!["a".into(), "b".into()];
        let fetched = fetched_value(Datatype::Gset, Value::Set(elements.clone()));
        assert_eq!(fetched, DtValue { gset_value: elements.clone(), ..DtValue::default() });
        let updated = updated_value(Datatype::Set, Value::Set(elements.clone()));
        assert_eq!(updated, DtUpdateResp { set_value: elements, ..DtUpdateResp::default() });
        let updated = updated_value(Datatype::Hll, Value::Hll(3));
        assert_eq!(updated, DtUpdateResp { hll_value: Some(3), ..DtUpdateResp::default() });
    }

    #[test]
    fn numbers_beyond_64_bits_are_shown_as_the_last_one() {
        let beyond = i128::from(i64::MAX) + 1;
        let fetched = |number| fetched_value(Datatype::Counter, Value::Counter(number));
        assert_eq!(fetched(beyond).counter_value, Some(i64::MAX));
        assert_eq!(fetched(-beyond - 1).counter_value, Some(i64::MIN));
    }

    #[test]
    fn counters_and_flags_of_maps_are_there_even_when_nothing() {
        let entry = |name: &'static str, kind, value| (FieldName::new(name, kind), value);
        let inner = vec![
            entry("c", FieldKind::Counter, Value::Counter(0)),
            entry("f", FieldKind::Flag, Value::Flag(false)),
        ];
        let register = entry("r", FieldKind::Register, Value::Register("v".into()));
        let value = Value::Map(vec![entry("m", FieldKind::Map, Value::Map(inner)), register]);
        let message = |name: &'static str, kind: MapFieldType| MapEntry {
            field: MapField { name: name.into(), kind: kind as i32 },
            ..MapEntry::default()
        };
        let inner = vec![
            MapEntry { counter_value: Some(0), ..message("c", MapFieldType::Counter) },
            MapEntry { flag_value: Some(false), ..message("f", MapFieldType::Flag) },
        ];
        let expected = vec![
            MapEntry { map_value: inner, ..message("m", MapFieldType::Map) },
            MapEntry { register_value: Some("v".into()), ..message("r", MapFieldType::Register) },
        ];
        assert_eq!(fetched_value(Datatype::Map, value).map_value, expected);
    }
}
