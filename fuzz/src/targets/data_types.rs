//! States and deltas of data types, operations sent between nodes, and contexts that clients send back.

use bytes::Bytes;
use quoit_model::clock::Actor;
use quoit_model::data_type::context::{check_context, decode_context, encode_context};
use quoit_model::data_type::{
    CausalClock, Delta, EventOrigin, FieldKind, FieldName, FieldOperation, FieldUpdate,
    MapOperation, Operation, SetChange, State,
};
use quoit_model::hll::Precision;

use crate::Target;

pub(crate) const STATES: Target =
    Target { name: "data-type-states", run: run_state, seeds: state_seeds };

pub(crate) const DELTAS: Target =
    Target { name: "data-type-deltas", run: run_delta, seeds: delta_seeds };

pub(crate) const CONTEXTS: Target =
    Target { name: "data-type-contexts", run: run_context, seeds: context_seeds };

pub(crate) const OPERATIONS: Target =
    Target { name: "data-type-operations", run: run_operation, seeds: operation_seeds };

/// Identity of the record that the contexts belong to.
const RECORD: u64 = 42;

/// Checks that a decoded state survives being encoded and decoded again, has a value, and does not change
/// by being merged with itself.
fn run_state(input: &[u8]) {
    let Ok(state) = State::decode(&Bytes::copy_from_slice(input)) else { return };
    assert_eq!(
        State::decode(&stored(&state)),
        Ok(state.clone()),
        "a state changes by being stored"
    );
    let _ = (state.value(), state.digest());
    let (mut clock, mut merged) = (CausalClock::default(), state.clone());
    merged.merge(&mut clock, &state, &CausalClock::default());
    assert_eq!(merged.value(), state.value(), "a state merges with itself to another");
}

/// Checks that a decoded delta survives being encoded and decoded again, and that joining it twice equals
/// joining it once.
fn run_delta(input: &[u8]) {
    let Ok(delta) = Delta::decode(&Bytes::copy_from_slice(input)) else { return };
    assert_eq!(Delta::decode(&sent(&delta)), Ok(delta.clone()), "a delta changes by being sent");
    for (mut state, mut clock) in [(State::empty(delta.datatype()), CausalClock::default())]
        .into_iter()
        .chain(samples().into_iter().map(|(state, clock, _)| (state, clock)))
    {
        if state.join(&mut clock, &delta).is_ok() {
            let once = state.clone();
            state.join(&mut clock, &delta).expect("it is of the type");
            assert_eq!(state, once, "a delta does more when it comes again");
        }
    }
}

/// Checks that the clock in a decoded context survives being encoded and decoded again, and that removes
/// can use it.
fn run_context(input: &[u8]) {
    let Ok(context) = decode_context(input, RECORD) else { return };
    let again = decode_context(&encode_context(&context, RECORD), RECORD);
    assert_eq!(again.as_ref(), Ok(&context), "a context changes by being sent");
    for (mut state, mut clock, _) in samples() {
        let _ = check_context(&context, &clock, &actor(), 9);
        let remove = Operation::Set(vec![SetChange::Remove(Bytes::from_static(b"x"))]);
        let _ = state.apply(&mut clock, &remove, Some(&context), coordinator(&actor()));
    }
}

/// Checks that a decoded operation survives being encoded and decoded again, that it is applied as a whole
/// or not at all, and that its delta has the same effect on another replica.
fn run_operation(input: &[u8]) {
    let Ok(operation) = Operation::decode(&Bytes::copy_from_slice(input)) else { return };
    let again = Operation::decode(&operation.encode().into());
    assert_eq!(again.as_ref(), Ok(&operation), "an operation changes by being sent");
    let (mut state, mut clock) = (State::empty(operation.datatype()), CausalClock::default());
    for context in [None, Some(ahead())] {
        let (mut other, mut other_clock) = (state.clone(), clock.clone());
        let applied = state.apply(&mut clock, &operation, context.as_ref(), coordinator(&actor()));
        match applied {
            Ok(delta) => {
                other.join(&mut other_clock, &delta).expect("it is of the type");
                assert_eq!((&other, &other_clock), (&state, &clock), "a delta says something else");
            }
            Err(_) => assert_eq!((other, other_clock), (state.clone(), clock.clone()), "half done"),
        }
    }
}

fn stored(state: &State) -> Bytes {
    let mut out = Vec::new();
    state.encode_into(&mut out);
    out.into()
}

fn sent(delta: &Delta) -> Bytes {
    let mut out = Vec::new();
    delta.encode_into(&mut out);
    out.into()
}

fn actor() -> Actor {
    Actor(b"actor-01\0\0\0\0\0\0\0\x07".as_slice().into())
}

fn coordinator(actor: &Actor) -> EventOrigin<'_> {
    let (time_secs, now_us) = (63_900_000_000, 1_700_000_000_000_000);
    EventOrigin { actor, time_secs, now_us, hll_precision: Precision::MIN }
}

fn map_operation() -> MapOperation {
    let text = Bytes::from_static;
    let set = vec![SetChange::Add(text(b"x")), SetChange::Remove(text(b"y"))];
    MapOperation {
        removes: vec![FieldName::new("gone", FieldKind::Set)],
        updates: vec![
            FieldUpdate::new("c", FieldOperation::Counter(-7)),
            FieldUpdate::new("s", FieldOperation::Set(set)),
            FieldUpdate::new("r", FieldOperation::Register(text(b"value"))),
            FieldUpdate::new("f", FieldOperation::Flag(true)),
            FieldUpdate::new("f", FieldOperation::Flag(false)),
        ],
    }
}

/// An operation of each type.
fn operations() -> [Operation; 5] {
    let text = Bytes::from_static;
    let mut map = map_operation();
    map.updates.push(FieldUpdate::new("m", FieldOperation::Map(map_operation())));
    [
        Operation::Counter(7),
        Operation::Set(vec![SetChange::Remove(text(b"y")), SetChange::Add(text(b"x"))]),
        Operation::Gset(vec![text(b"a"), text(b"b")]),
        Operation::Hll(vec![text(b"a"), text(b"b")]),
        Operation::Map(map),
    ]
}

/// A state of each data type with its clock, and the delta that made it. Some removes are deferred.
fn samples() -> Vec<(State, CausalClock, Delta)> {
    let sample = |operation: &Operation| {
        let (mut state, mut clock) = (State::empty(operation.datatype()), CausalClock::default());
        let context = ahead();
        let applied = state.apply(&mut clock, operation, Some(&context), coordinator(&actor()));
        let delta = applied.expect("removes with a context never fail");
        (state, clock, delta)
    };
    operations().iter().map(sample).collect()
}

/// A clock with events beyond a gap.
fn ahead() -> CausalClock {
    let mut clock = CausalClock::default();
    for (name, counter) in [(b"another!", 1), (b"another!", 5), (b"thethird", 2)] {
        let actor = Actor(name.as_slice().into());
        clock.add(&quoit_model::clock::Dot { actor, counter, time_secs: 0 });
    }
    clock
}

fn state_seeds() -> Vec<Vec<u8>> {
    samples().iter().map(|(state, _, _)| stored(state).to_vec()).collect()
}

fn delta_seeds() -> Vec<Vec<u8>> {
    samples().iter().map(|(_, _, delta)| sent(delta).to_vec()).collect()
}

fn operation_seeds() -> Vec<Vec<u8>> {
    operations().iter().map(Operation::encode).collect()
}

fn context_seeds() -> Vec<Vec<u8>> {
    let clocks = samples().into_iter().map(|(_, clock, _)| clock).chain([ahead()]);
    clocks.map(|clock| encode_context(&clock, RECORD).to_vec()).collect()
}
