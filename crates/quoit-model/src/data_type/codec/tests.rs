use crate::clock::Actor;
use crate::data_type::{
    CausalClock, Delta, EventOrigin, FieldKind, FieldName, FieldOperation, FieldUpdate,
    MAP_DEPTH_MAX, MapOperation, Operation, SetChange, State, StoredFormError,
};
use crate::hll::Precision;
use crate::props::Datatype;
use crate::test_objects::{actor, dot};
use bytes::Bytes;
use proptest::prelude::*;

fn coordinator(actor: &Actor) -> EventOrigin<'_> {
    EventOrigin { actor, time_secs: 63_900_000_000, now_us: 9, hll_precision: Precision::MIN }
}

fn stored(state: &State) -> Bytes {
    let mut bytes = Vec::new();
    state.encode_into(&mut bytes);
    bytes.into()
}

fn sent(delta: &Delta) -> Bytes {
    let mut bytes = Vec::new();
    delta.encode_into(&mut bytes);
    bytes.into()
}

/// The state and the delta of one operation.
fn one(operation: &Operation) -> (State, Delta) {
    let mut state = State::empty(operation.datatype());
    let mut clock = CausalClock::default();
    let mut context = CausalClock::default();
    context.add(&dot(b"other", 5));
    let actor = actor(b"actor");
    let delta = state.apply(&mut clock, operation, Some(&context), coordinator(&actor)).unwrap();
    (state, delta)
}

fn everything() -> MapOperation {
    let text = Bytes::from_static;
    let set = vec![SetChange::Add(text(b"x")), SetChange::Remove(text(b"y"))];
    let update = FieldUpdate::new;
    MapOperation {
        removes: vec![FieldName::new("gone", FieldKind::Set)],
        updates: vec![
            update("c", FieldOperation::Counter(i64::MIN)),
            update("s", FieldOperation::Set(set)),
            update("r", FieldOperation::Register(text(b"value"))),
            update("f", FieldOperation::Flag(true)),
            update("f", FieldOperation::Flag(false)),
        ],
    }
}

/// One state of each data type, with deferred removes.
fn samples() -> Vec<(State, Delta)> {
    let text = Bytes::from_static;
    let mut map = everything();
    map.updates.push(FieldUpdate::new("m", FieldOperation::Map(everything())));
    let set = vec![SetChange::Remove(text(b"y")), SetChange::Add(text(b""))];
    let operations = [
        Operation::Counter(7),
        Operation::Set(set),
        Operation::Gset(vec![text(b"a"), text(b"b"), text(b"a")]),
        Operation::Hll(vec![text(b"a"), text(b"b")]),
        Operation::Map(map),
    ];
    operations.iter().map(one).collect()
}

#[test]
fn states_and_deltas_come_back() {
    for (state, delta) in samples() {
        assert_eq!(State::decode(&stored(&state)), Ok(state));
        assert_eq!(Delta::decode(&sent(&delta)), Ok(delta));
    }
}

#[test]
fn a_stored_set_is_as_the_document_says() {
    let operation = Operation::Gset(vec![Bytes::from_static(b"x"), Bytes::from_static(b"yz")]);
    let (state, delta) = one(&operation);
    let state_form = [
        &[0x44, 2, 1, 5][..],
        b"actor",
        &[0, 2, 0, 1, 2],
        &[1, b'x', 2, 0, 2],
        &[2, b'y', b'z', 2, 0, 3],
    ];
    assert_eq!(stored(&state), state_form.concat());
    let delta_form = [
        &[0x64, 2, 5][..],
        b"actor",
        &[1, 2, 0x80, 0xbe, 0xf2, 0x85, 0xee, 1],
        &[0, 1, 0, 2],
        &[1, b'x', 1, 1],
        &[2, b'y', b'z', 1, 2],
    ];
    assert_eq!(sent(&delta), delta_form.concat());
}

#[test]
fn what_is_cut_off_or_too_long_is_refused() {
    for (state, delta) in samples() {
        let (state, delta) = (stored(&state), sent(&delta));
        for end in 0..state.len() {
            assert!(State::decode(&state.slice(..end)).is_err(), "{end} of {state:?}");
        }
        for end in 0..delta.len() {
            assert!(Delta::decode(&delta.slice(..end)).is_err(), "{end} of {delta:?}");
        }
        let longer = |bytes: &Bytes| Bytes::from([bytes, &b"\0"[..]].concat());
        assert!(State::decode(&longer(&state)).is_err());
        assert!(Delta::decode(&longer(&delta)).is_err());
    }
}

#[test]
fn other_formats_are_named() {
    let refused = State::decode(&Bytes::from_static(b"\x45\x02")).unwrap_err();
    let text = "stored data type has format 0x45, this version reads 0x44; upgrade the node";
    assert_eq!(refused.to_string(), text);
}

#[test]
fn states_that_no_writer_makes_are_refused() {
    let refused = |bytes: &[u8]| match State::decode(&Bytes::copy_from_slice(bytes)) {
        Err(StoredFormError::BadForm { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let unsorted = [0x44, 1, 1, 1, b'a', 0, 0, 2, 1, b'y', 2, 0, 1, 1, b'x', 2, 0, 2];
    assert_eq!(refused(&unsorted), "entries that are not sorted");
    assert_eq!(refused(&[0x44, 1, 1, 1, b'a', 0, 0, 1, 1, b'y', 0]), "an entry of nothing");
    assert_eq!(refused(&[0x44, 1, 1, 1, b'a', 0, 0, 0]), "an actor without a write");
    assert_eq!(
        refused(&[0x44, 1, 1, 1, b'a', 0, 2, 1, 1]),
        "a write of an actor that is not listed"
    );
    assert_eq!(
        refused(&[0x44, 1, 1, 1, b'a', 0, 4, 0, 2, 0, 2]),
        "writes that are not sorted events"
    );
    assert_eq!(refused(&[0x44, 9]), "an unknown type");
    let deferred = "a write of an event that is deferred";
    let events = [1, 1, b'a', 1, 0, 0];
    assert_eq!(refused(&[&[0x44, 0, 1, 1, b'a', 0, 3, 0, 1][..], &events].concat()), deferred);
    assert_eq!(refused(&[&[0x44, 0, 1, 1, b'a'][..], &events, &[2, 0, 1, 0]].concat()), deferred);
}

#[test]
fn maps_are_read_as_deep_as_they_may_be_written() {
    let mut operation = MapOperation::default();
    for _ in 1..MAP_DEPTH_MAX {
        let updates = vec![FieldUpdate::new("m", FieldOperation::Map(operation))];
        operation = MapOperation { updates, ..MapOperation::default() };
    }
    let (state, delta) = one(&Operation::Map(operation));
    assert_eq!(State::decode(&stored(&state)), Ok(state));
    assert_eq!(Delta::decode(&sent(&delta)), Ok(delta));
    let deeper = [&[0x44, 3, 1, 1, b'a'][..], &[0, 2, 0, 1, 1, 0, 4].repeat(100_000)].concat();
    assert!(matches!(State::decode(&deeper.into()), Err(StoredFormError::BadForm { .. })));
}

#[test]
fn totals_of_a_counter_may_fill_their_numbers() {
    let (mut state, _) = one(&Operation::Counter(-1));
    let mut clock = CausalClock::default();
    clock.add(&dot(b"actor", 1));
    let actor = actor(b"actor");
    for _ in 0..4 {
        let increment = Operation::Counter(i64::MAX);
        state.apply(&mut clock, &increment, None, coordinator(&actor)).unwrap();
    }
    assert_eq!(State::decode(&stored(&state)), Ok(state));
    // 2^128 - 1 and 2^128.
    let counter = |last| {
        let mut form = vec![0x44, 0, 1, 1, b'a', 0, 2, 0, 1, 2, 0, 1];
        form.extend([0xff; 18]);
        form.extend([last, 0]);
        State::decode(&form.into())
    };
    assert!(counter(3).is_ok());
    assert!(counter(4).is_err());
}

proptest! {
    #[test]
    fn changed_bytes_are_refused_or_read_as_something(
        sample in 0..5usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (state, delta) = samples().swap_remove(sample);
        let changed = |bytes: Bytes| {
            let mut bytes = bytes.to_vec();
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Bytes::from(bytes)
        };
        if let Ok(state) = State::decode(&changed(stored(&state))) {
            let _ = state.value();
            prop_assert_eq!(State::decode(&stored(&state)), Ok(state));
        }
        if let Ok(delta) = Delta::decode(&changed(sent(&delta))) {
            prop_assert_eq!(Delta::decode(&sent(&delta)), Ok(delta.clone()));
            let (mut state, mut clock) = (state, CausalClock::default());
            if delta.datatype() == state.datatype() {
                state.join(&mut clock, &delta).unwrap();
            }
        }
    }
}

#[test]
fn numbers_of_types_stay_what_they_are() {
    let number = |datatype| stored(&State::empty(datatype))[1];
    let datatypes =
        [Datatype::Counter, Datatype::Set, Datatype::Gset, Datatype::Map, Datatype::Hll];
    assert_eq!(datatypes.map(number), [0, 1, 2, 3, 4]);
}
