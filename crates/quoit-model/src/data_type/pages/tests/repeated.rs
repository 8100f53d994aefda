//! Operations that name a field over and over.

use super::*;

const COUNT: u32 = 50_000;

fn add(number: u32) -> SetChange {
    SetChange::Add(format!("element {number}").into())
}

fn map(updates: Vec<FieldUpdate>) -> MapOperation {
    MapOperation { updates, ..MapOperation::default() }
}

fn in_map(update: FieldUpdate) -> FieldUpdate {
    FieldUpdate::new("m", FieldOperation::Map(map(vec![update])))
}

/// The updates that change a field in many steps, and the one that does it all.
fn set_updates() -> (Vec<FieldUpdate>, FieldUpdate) {
    let update = |changes| FieldUpdate::new("tags", FieldOperation::Set(changes));
    // Not in the order of the elements or of their hashes.
    let numbers = || (0..COUNT).rev();
    (
        numbers().map(|number| update(vec![add(number)])).collect(),
        update(numbers().map(add).collect()),
    )
}

fn map_updates() -> (Vec<FieldUpdate>, FieldUpdate) {
    let count = |number: u32| {
        FieldUpdate::new(format!("count {number}"), FieldOperation::Counter(i64::from(number)))
    };
    let update = |updates| FieldUpdate::new("m", FieldOperation::Map(map(updates)));
    let numbers = || (0..COUNT).rev();
    (
        numbers().map(|number| update(vec![count(number)])).collect(),
        update(numbers().map(count).collect()),
    )
}

/// Each would go on for minutes if an update looked at all that those before it have named or changed.
fn check((many, once): (Vec<FieldUpdate>, FieldUpdate)) {
    let (many, once) = (Operation::Map(map(many)), Operation::Map(map(vec![once])));
    assert_eq!(many.wanted(), once.wanted());
    let one = actor(b"one");
    let [many, once] = [many, once].map(|operation| {
        let (mut state, mut clock) = (State::empty(Datatype::Map), CausalClock::default());
        let delta = state.apply(&mut clock, &operation, None, coordinator(&one)).unwrap();
        (state.value(), delta.wanted())
    });
    assert_eq!(many, once);
}

#[test]
fn a_set_that_is_named_in_many_updates_costs_what_these_say() {
    check(set_updates());
}

#[test]
fn a_set_in_a_map_that_is_named_in_many_updates_costs_what_these_say() {
    let (many, once) = set_updates();
    check((many.into_iter().map(in_map).collect(), in_map(once)));
}

#[test]
fn a_map_that_is_named_in_many_updates_costs_what_these_say() {
    check(map_updates());
}

/// What a request names but does not change is not in what it tells other stores, however deep it is.
#[test]
fn what_does_not_change_is_in_no_delta() {
    let one = actor(b"one");
    let (state, clock) = (State::empty(Datatype::Map), CausalClock::default());
    let gone = vec![SetChange::Remove("gone".into())];
    let [with, without] = [gone, Vec::new()].map(|changes| {
        let tags = || FieldUpdate::new("tags", FieldOperation::Set(changes.clone()));
        let inner = MapOperation {
            removes: changes.iter().map(|_| FieldName::new("gone", FieldKind::Map)).collect(),
            updates: vec![tags(), tags()],
        };
        let updates = vec![tags(), FieldUpdate::new("m", FieldOperation::Map(inner))];
        let context = Some(&clock);
        state.delta(&clock, &Operation::Map(map(updates)), context, coordinator(&one)).unwrap()
    });
    assert_eq!(with, without);
}
