//! Values of data types.

use bytes::Bytes;
use quoit_wire::messages::{DataType, DtValue, MapEntry, MapFieldType};
use std::collections::{BTreeMap, BTreeSet};

/// The value of a record with a data type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataTypeValue {
    /// The number.
    Counter(i64),
    /// The elements of a set.
    Set(BTreeSet<Bytes>),
    /// The elements of a grow-only set.
    Gset(BTreeSet<Bytes>),
    /// The estimated number of distinct elements of a HyperLogLog.
    Hll(u64),
    /// The fields of a map.
    Map(MapValue),
}

/// The fields of a map by type. A map may have a field of the same name once for each type.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MapValue {
    /// Counters.
    pub counters: BTreeMap<Bytes, i64>,
    /// Sets.
    pub sets: BTreeMap<Bytes, BTreeSet<Bytes>>,
    /// Registers that have a value.
    pub registers: BTreeMap<Bytes, Bytes>,
    /// Flags, enabled or not.
    pub flags: BTreeMap<Bytes, bool>,
    /// Maps.
    pub maps: BTreeMap<Bytes, MapValue>,
}

impl DataTypeValue {
    /// Decodes the value of a message. Missing numbers are 0.
    pub(crate) fn of(kind: DataType, message: DtValue) -> DataTypeValue {
        match kind {
            DataType::Counter => Self::Counter(message.counter_value.unwrap_or_default()),
            DataType::Set => Self::Set(message.set_value.into_iter().collect()),
            DataType::Gset => Self::Gset(message.gset_value.into_iter().collect()),
            DataType::Hll => Self::Hll(message.hll_value.unwrap_or_default()),
            DataType::Map => Self::Map(MapValue::of(message.map_value)),
        }
    }

    /// The number, if it is a counter.
    #[must_use]
    pub fn as_counter(&self) -> Option<i64> {
        if let Self::Counter(number) = self { Some(*number) } else { None }
    }

    /// The elements, if it is a set or a grow-only set.
    #[must_use]
    pub fn as_set(&self) -> Option<&BTreeSet<Bytes>> {
        if let Self::Set(elements) | Self::Gset(elements) = self { Some(elements) } else { None }
    }

    /// The estimate, if it is a HyperLogLog.
    #[must_use]
    pub fn as_hll(&self) -> Option<u64> {
        if let Self::Hll(estimate) = self { Some(*estimate) } else { None }
    }

    /// The fields, if it is a map.
    #[must_use]
    pub fn as_map(&self) -> Option<&MapValue> {
        if let Self::Map(fields) = self { Some(fields) } else { None }
    }
}

impl MapValue {
    fn of(entries: Vec<MapEntry>) -> MapValue {
        let mut map = MapValue::default();
        for entry in entries {
            let kind = entry.field.kind();
            let name = entry.field.name;
            match kind {
                MapFieldType::Counter => {
                    map.counters.insert(name, entry.counter_value.unwrap_or_default());
                }
                MapFieldType::Set => {
                    map.sets.insert(name, entry.set_value.into_iter().collect());
                }
                MapFieldType::Register => {
                    map.registers.extend(entry.register_value.map(|value| (name, value)));
                }
                MapFieldType::Flag => {
                    map.flags.insert(name, entry.flag_value.unwrap_or_default());
                }
                MapFieldType::Map => {
                    map.maps.insert(name, MapValue::of(entry.map_value));
                }
            }
        }
        map
    }
}
