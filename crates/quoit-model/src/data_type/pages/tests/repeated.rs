//! Operations that name a field many times.

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

/// Updates that change a field in many steps, and one update that does the same at once.
fn set_updates() -> (Vec<FieldUpdate>, FieldUpdate) {
    let update = |changes| FieldUpdate::new("tags", FieldOperation::Set(changes));
    // Neither in the order of the elements nor in that of their hashes.
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

/// Checks that both have the same effect. This would take minutes if an update looked at everything
/// that earlier updates have named or changed.
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

/// This would take minutes if every remove searched the whole field again.
#[test]
fn a_large_field_that_is_removed_many_times_in_a_request_is_looked_at_once() {
    let one = actor(b"one");
    let mut stored = Paged::empty(Datatype::Map);
    let fill = FieldUpdate::new("tags", FieldOperation::Set((0..COUNT / 5).map(add).collect()));
    let old = stored.clock.clone();
    stored.apply(&Operation::Map(map(vec![in_map(fill)])), None, coordinator(&one)).unwrap();
    let tags = FieldName::new("tags", FieldKind::Set);
    let removes = |count| MapOperation { removes: vec![tags.clone(); count], updates: Vec::new() };
    let update = |map: &MapOperation| FieldUpdate::new("m", FieldOperation::Map(map.clone()));
    let add = map(vec![FieldUpdate::new("tags", FieldOperation::Set(vec![add(COUNT + 1)]))]);
    let once = map(vec![update(&removes(1))]);
    let again = || [update(&add), update(&removes(1))];
    // In one list, in many updates, and with an addition before each remove. Without a context, an
    // absent field can't be removed.
    let seen = stored.clock.clone();
    let count = COUNT as usize;
    let all = [
        (map(vec![update(&removes(count))]), Some(&seen)),
        (map(vec![update(&removes(1)); count]), Some(&seen)),
        (map(vec![update(&removes(1)); count]), Some(&old)),
        (map(std::iter::repeat_with(again).take(count).flatten().collect()), None),
    ];
    for (many, context) in all {
        let pages = Stored { pages: stored.stored.pages.clone(), ..Stored::default() };
        let (root, clock) = (stored.root.clone(), stored.clock.clone());
        let mut removed = Paged { root: root.clone(), clock: clock.clone(), stored: pages };
        removed.apply(&Operation::Map(many), context, coordinator(&one)).unwrap();
        let read_count = removed.stored.read_count;
        let pages = Stored { pages: stored.stored.pages.clone(), ..Stored::default() };
        let mut expected = Paged { root, clock, stored: pages };
        expected.apply(&Operation::Map(once.clone()), context, coordinator(&one)).unwrap();
        assert_eq!(read_count, expected.stored.read_count);
        assert_eq!(removed.whole().value(), expected.whole().value());
        assert_eq!(removed.root.item_count(), 1);
    }
}

/// A delta does not contain items that the request names but does not change, at any depth.
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
