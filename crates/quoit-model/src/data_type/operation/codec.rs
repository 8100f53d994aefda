//! Encoding of operations, for forwarding to the node that coordinates them.
//!
//! The form is a format byte (1), the number of the data type, and the changes. Counts and lengths
//! are varints; amounts are varints whose lowest bit is the sign.

use super::{FieldOperation, FieldUpdate, MapOperation, Operation, SetChange};
use crate::cursor::{Cursor, put_counted, put_varint};
use crate::data_type::codec::number_in;
use crate::data_type::{FieldKind, FieldName, StoredFormError};
use crate::field_name::MAP_DEPTH_MAX;
use bytes::Bytes;

const FORMAT: u8 = 1;

const COUNTER: u8 = 1;
const SET: u8 = 2;
const GSET: u8 = 3;
const HLL: u8 = 4;
const MAP: u8 = 5;

const FIELD_KINDS: [FieldKind; 5] =
    [FieldKind::Counter, FieldKind::Set, FieldKind::Register, FieldKind::Flag, FieldKind::Map];

type OperationResult<T> = Result<T, StoredFormError>;

impl Operation {
    /// Encodes the operation.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        match self {
            Self::Counter(amount) => {
                out.push(COUNTER);
                put_amount(&mut out, *amount);
            }
            Self::Set(changes) => {
                out.push(SET);
                put_changes(&mut out, changes);
            }
            Self::Gset(elements) => {
                out.push(GSET);
                put_elements(&mut out, elements);
            }
            Self::Hll(elements) => {
                out.push(HLL);
                put_elements(&mut out, elements);
            }
            Self::Map(map) => {
                out.push(MAP);
                put_map(&mut out, map);
            }
        }
        out
    }

    /// Decodes an operation; elements share the input.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are cut off or not an operation, or maps are nested too
    /// deeply.
    pub fn decode(input: &Bytes) -> Result<Self, StoredFormError> {
        let mut cursor = Cursor::new(input);
        if cursor.u8()? != FORMAT {
            return Err(bad("an operation of another format", &cursor));
        }
        let operation = match cursor.u8()? {
            COUNTER => Self::Counter(amount(&mut cursor)?),
            SET => Self::Set(changes(&mut cursor)?),
            GSET => Self::Gset(list(&mut cursor, |cursor| Ok(cursor.counted_bytes()?))?),
            HLL => Self::Hll(list(&mut cursor, |cursor| Ok(cursor.counted_bytes()?))?),
            MAP => Self::Map(map(&mut cursor, 1)?),
            _ => return Err(bad("an operation of no type", &cursor)),
        };
        if cursor.remaining() > 0 {
            return Err(bad("bytes behind an operation", &cursor));
        }
        Ok(operation)
    }
}

fn bad(what: &'static str, cursor: &Cursor<'_>) -> StoredFormError {
    StoredFormError::BadForm { what, at: cursor.at() }
}

fn put_amount(out: &mut Vec<u8>, amount: i64) {
    put_varint(out, ((amount << 1) ^ (amount >> 63)).cast_unsigned());
}

fn amount(cursor: &mut Cursor<'_>) -> OperationResult<i64> {
    let coded = cursor.varint()?;
    Ok((coded >> 1).cast_signed() ^ -(coded & 1).cast_signed())
}

fn put_elements(out: &mut Vec<u8>, elements: &[Bytes]) {
    put_varint(out, elements.len() as u64);
    elements.iter().for_each(|element| put_counted(out, element));
}

fn list<T>(
    cursor: &mut Cursor<'_>,
    mut item: impl FnMut(&mut Cursor<'_>) -> OperationResult<T>,
) -> OperationResult<Vec<T>> {
    let count = cursor.count()?;
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(item(cursor)?);
    }
    Ok(items)
}

fn put_changes(out: &mut Vec<u8>, changes: &[SetChange]) {
    put_varint(out, changes.len() as u64);
    for change in changes {
        let (adds, element) = match change {
            SetChange::Add(element) => (true, element),
            SetChange::Remove(element) => (false, element),
        };
        out.push(adds.into());
        put_counted(out, element);
    }
}

fn changes(cursor: &mut Cursor<'_>) -> OperationResult<Vec<SetChange>> {
    list(cursor, |cursor| {
        let adds = boolean(cursor)?;
        let element = cursor.counted_bytes()?;
        Ok(if adds { SetChange::Add(element) } else { SetChange::Remove(element) })
    })
}

fn boolean(cursor: &mut Cursor<'_>) -> OperationResult<bool> {
    match cursor.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(bad("a truth value that is neither true nor false", cursor)),
    }
}

fn put_kind(out: &mut Vec<u8>, kind: FieldKind) {
    out.push(number_in(&FIELD_KINDS, &kind));
}

fn kind(cursor: &mut Cursor<'_>) -> OperationResult<FieldKind> {
    let number = usize::from(cursor.u8()?);
    FIELD_KINDS.get(number).copied().ok_or_else(|| bad("a field of no kind", cursor))
}

fn put_map(out: &mut Vec<u8>, map: &MapOperation) {
    put_varint(out, map.removes.len() as u64);
    for FieldName { name, kind } in &map.removes {
        put_kind(out, *kind);
        put_counted(out, name);
    }
    put_varint(out, map.updates.len() as u64);
    for FieldUpdate { name, operation } in &map.updates {
        put_kind(out, operation.kind());
        put_counted(out, name);
        match operation {
            FieldOperation::Counter(amount) => put_amount(out, *amount),
            FieldOperation::Set(changes) => put_changes(out, changes),
            FieldOperation::Register(value) => put_counted(out, value),
            FieldOperation::Flag(enables) => out.push((*enables).into()),
            FieldOperation::Map(map) => put_map(out, map),
        }
    }
}

/// Reads the changes of a map. `depth` is that of this map, from 1.
fn map(cursor: &mut Cursor<'_>, depth: usize) -> OperationResult<MapOperation> {
    if depth > MAP_DEPTH_MAX {
        return Err(bad("maps nested too deeply", cursor));
    }
    let removes = list(cursor, |cursor| {
        let kind = kind(cursor)?;
        Ok(FieldName { name: cursor.counted_bytes()?, kind })
    })?;
    let updates = list(cursor, |cursor| {
        let kind = kind(cursor)?;
        let name = cursor.counted_bytes()?;
        let operation = match kind {
            FieldKind::Counter => FieldOperation::Counter(amount(cursor)?),
            FieldKind::Set => FieldOperation::Set(changes(cursor)?),
            FieldKind::Register => FieldOperation::Register(cursor.counted_bytes()?),
            FieldKind::Flag => FieldOperation::Flag(boolean(cursor)?),
            FieldKind::Map => FieldOperation::Map(map(cursor, depth + 1)?),
        };
        Ok(FieldUpdate { name, operation })
    })?;
    Ok(MapOperation { removes, updates })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::Index;

    fn bytes() -> impl Strategy<Value = Bytes> {
        prop::collection::vec(any::<u8>(), 0..4).prop_map(Bytes::from)
    }

    fn any_changes() -> impl Strategy<Value = Vec<SetChange>> {
        let change =
            prop_oneof![bytes().prop_map(SetChange::Add), bytes().prop_map(SetChange::Remove)];
        prop::collection::vec(change, 0..4)
    }

    fn any_map() -> impl Strategy<Value = MapOperation> {
        let kind = prop::sample::select(FIELD_KINDS.as_slice());
        let name = (bytes(), kind).prop_map(|(name, kind)| FieldName { name, kind });
        let removes = prop::collection::vec(name, 0..3).boxed();
        let leaf = prop_oneof![
            any::<i64>().prop_map(FieldOperation::Counter),
            any_changes().prop_map(FieldOperation::Set),
            bytes().prop_map(FieldOperation::Register),
            any::<bool>().prop_map(FieldOperation::Flag),
        ];
        let operation = leaf.prop_recursive(3, 12, 3, move |inner| {
            let update =
                (bytes(), inner).prop_map(|(name, operation)| FieldUpdate { name, operation });
            (removes.clone(), prop::collection::vec(update, 0..3)).prop_map(|(removes, updates)| {
                FieldOperation::Map(MapOperation { removes, updates })
            })
        });
        let update =
            (bytes(), operation).prop_map(|(name, operation)| FieldUpdate { name, operation });
        prop::collection::vec(update, 0..3)
            .prop_map(|updates| MapOperation { removes: Vec::new(), updates })
    }

    fn any_operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            any::<i64>().prop_map(Operation::Counter),
            any_changes().prop_map(Operation::Set),
            prop::collection::vec(bytes(), 0..3).prop_map(Operation::Gset),
            prop::collection::vec(bytes(), 0..3).prop_map(Operation::Hll),
            any_map().prop_map(Operation::Map),
        ]
    }

    proptest! {
        #[test]
        fn every_operation_comes_back(operation in any_operation()) {
            prop_assert_eq!(Operation::decode(&operation.encode().into()), Ok(operation));
        }

        #[test]
        fn cut_off_and_changed_bytes_never_panic(
            operation in any_operation(),
            (cut, place, byte) in (any::<Index>(), any::<Index>(), any::<u8>()),
        ) {
            let mut bytes = operation.encode();
            let cut_off = bytes[..cut.index(bytes.len())].to_vec();
            prop_assert!(Operation::decode(&cut_off.into()).is_err());
            let place = place.index(bytes.len());
            bytes[place] = byte;
            let _ = Operation::decode(&bytes.into());
        }
    }

    #[test]
    fn maps_nested_too_deeply_are_refused() {
        let deep = [vec![FORMAT, MAP], [0, 1, 4, 0].repeat(100_000)].concat();
        let fault = Operation::decode(&deep.into()).unwrap_err();
        assert!(fault.to_string().contains("maps nested too deeply"), "{fault}");
    }
}
