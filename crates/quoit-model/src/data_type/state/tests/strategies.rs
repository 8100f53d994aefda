//! Random operations on few names, so that they concern the same items.

use super::*;
use crate::data_type::{FieldKind, FieldOperation, FieldUpdate, MapOperation, SetChange};
use proptest::collection::vec;
use proptest::prelude::*;

fn element() -> impl Strategy<Value = Bytes> {
    prop_oneof![Just(Bytes::from_static(b"x")), Just(Bytes::from_static(b"y"))]
}

fn set_changes() -> impl Strategy<Value = Vec<SetChange>> {
    let change =
        prop_oneof![element().prop_map(SetChange::Add), element().prop_map(SetChange::Remove)];
    vec(change, 0..3)
}

fn field_name(kind: FieldKind) -> FieldName {
    FieldName::new("f", kind)
}

fn any_kind() -> impl Strategy<Value = FieldKind> {
    prop_oneof![
        Just(FieldKind::Counter),
        Just(FieldKind::Set),
        Just(FieldKind::Register),
        Just(FieldKind::Flag),
        Just(FieldKind::Map),
    ]
}

fn map_operation(depth: u32) -> BoxedStrategy<MapOperation> {
    let flat = prop_oneof![
        (-3i64..4).prop_map(FieldOperation::Counter),
        set_changes().prop_map(FieldOperation::Set),
        element().prop_map(FieldOperation::Register),
        any::<bool>().prop_map(FieldOperation::Flag),
    ];
    let update = if depth == 0 {
        flat.boxed()
    } else {
        prop_oneof![3 => flat, 2 => map_operation(depth - 1).prop_map(FieldOperation::Map)].boxed()
    };
    let updates = vec(update.prop_map(|operation| FieldUpdate::new("f", operation)), 0..4);
    let removes = prop_oneof![
        2 => Just(Vec::new()),
        1 => vec(any_kind().prop_map(field_name), 1..3),
    ];
    (removes, updates).prop_map(|(removes, updates)| MapOperation { removes, updates }).boxed()
}

/// An operation on a record of this data type.
pub(super) fn operation(datatype: Datatype) -> BoxedStrategy<Operation> {
    match datatype {
        Datatype::Counter => (-3i64..4).prop_map(Operation::Counter).boxed(),
        Datatype::Set => set_changes().prop_map(Operation::Set).boxed(),
        Datatype::Gset => vec(element(), 0..3).prop_map(Operation::Gset).boxed(),
        Datatype::Map => map_operation(1).prop_map(Operation::Map).boxed(),
        Datatype::Hll => vec(element(), 0..3).prop_map(Operation::Hll).boxed(),
    }
}

/// Knowledge of a client when it sent an operation.
#[derive(Clone, Debug)]
pub(super) enum Context {
    None,
    Fresh,
    /// A context that a client has read at any time, on any replica.
    Read(prop::sample::Index),
}

/// A step of a history.
#[derive(Clone, Debug)]
pub(super) enum HistoryStep {
    Operate {
        replica: usize,
        operation: Operation,
        context: Context,
        now_us: u64,
    },
    Join {
        replica: usize,
        delta: prop::sample::Index,
    },
    Merge {
        replica: usize,
        from: usize,
    },
    Delete {
        replica: usize,
    },
    /// The replica loses all its data, and continues with another incarnation.
    Forget {
        replica: usize,
    },
    Read {
        replica: usize,
    },
}

pub(super) const REPLICAS: usize = 3;

pub(super) fn history_steps(datatype: Datatype) -> impl Strategy<Value = Vec<HistoryStep>> {
    let replica = || 0..REPLICAS;
    let context = prop_oneof![
        2 => Just(Context::None),
        2 => Just(Context::Fresh),
        3 => any::<prop::sample::Index>().prop_map(Context::Read),
    ];
    let step = prop_oneof![
        10 => (replica(), operation(datatype), context, 0u64..4).prop_map(
            |(replica, operation, context, now_us)| {
                HistoryStep::Operate { replica, operation, context, now_us }
            }
        ),
        10 => (replica(), any::<prop::sample::Index>())
            .prop_map(|(replica, delta)| HistoryStep::Join { replica, delta }),
        3 => (replica(), replica()).prop_map(|(replica, from)| HistoryStep::Merge { replica, from }),
        1 => replica().prop_map(|replica| HistoryStep::Delete { replica }),
        1 => replica().prop_map(|replica| HistoryStep::Forget { replica }),
        3 => replica().prop_map(|replica| HistoryStep::Read { replica }),
    ];
    vec(step, 0..40)
}
