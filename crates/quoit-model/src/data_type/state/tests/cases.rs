//! Results of concurrent operations, case by case.

use super::*;
use crate::data_type::{
    DEFERRED_RUNS_MAX, FieldKind, FieldOperation, FieldUpdate, MapOperation, SetChange,
};

fn add(element: &'static str) -> SetChange {
    SetChange::Add(Bytes::from_static(element.as_bytes()))
}

fn remove(element: &'static str) -> SetChange {
    SetChange::Remove(Bytes::from_static(element.as_bytes()))
}

fn elements(elements: &[&'static str]) -> Value {
    Value::Set(elements.iter().map(|element| Bytes::from_static(element.as_bytes())).collect())
}

fn set(changes: &[SetChange]) -> Operation {
    Operation::Set(changes.to_vec())
}

fn field(name: &str) -> FieldName {
    let (name, kind) = name.rsplit_once('_').unwrap();
    let kinds =
        [FieldKind::Counter, FieldKind::Set, FieldKind::Register, FieldKind::Flag, FieldKind::Map];
    let kind = kinds.into_iter().find(|known| known.as_str() == kind).unwrap();
    FieldName::new(Bytes::copy_from_slice(name.as_bytes()), kind)
}

fn updates(updates: &[(&str, FieldOperation)]) -> MapOperation {
    let update = |(name, operation): &(&str, FieldOperation)| {
        let update = FieldUpdate::new(field(name).name, operation.clone());
        assert_eq!(update.field(), field(name));
        update
    };
    MapOperation { updates: updates.iter().map(update).collect(), ..MapOperation::default() }
}

fn update(all: &[(&str, FieldOperation)]) -> Operation {
    Operation::Map(updates(all))
}

fn remove_field(name: &str) -> Operation {
    Operation::Map(MapOperation { removes: vec![field(name)], ..MapOperation::default() })
}

fn map(fields: &[(&str, Value)]) -> Value {
    Value::Map(fields.iter().map(|(name, value)| (field(name), value.clone())).collect())
}

fn assign(value: &'static str) -> FieldOperation {
    FieldOperation::Register(Bytes::from_static(value.as_bytes()))
}

fn register(value: &'static str) -> Value {
    Value::Register(Bytes::from_static(value.as_bytes()))
}

impl Replica {
    fn apply(&mut self, operation: &Operation) -> Delta {
        self.try_apply(operation, None).unwrap()
    }

    /// Applies an operation with the context that a client of this replica has just read.
    fn apply_seen(&mut self, operation: &Operation) -> Delta {
        let context = self.clock.clone();
        self.try_apply(operation, Some(&context)).unwrap()
    }
}

/// Two replicas that both have seen the operations.
fn two(datatype: Datatype, operations: &[Operation]) -> [Replica; 2] {
    let mut one = Replica::new("a", datatype);
    operations.iter().for_each(|operation| drop(one.apply(operation)));
    let mut other = Replica::new("b", datatype);
    other.merge(&one);
    [one, other]
}

/// The value to which both replicas converge.
fn converged([mut one, mut other]: [Replica; 2]) -> Value {
    let before = one.clone();
    one.merge(&other);
    other.merge(&before);
    assert_eq!(one.state, other.state);
    assert_eq!(one.clock, other.clock);
    assert_eq!(one.state.digest(), other.state.digest());
    one.state.value()
}

#[test]
fn counters_count_every_increment() {
    let mut two = two(Datatype::Counter, &[Operation::Counter(5)]);
    two[0].apply(&Operation::Counter(3));
    two[1].apply(&Operation::Counter(-10));
    two[1].apply(&Operation::Counter(1));
    assert_eq!(converged(two), Value::Counter(-1));
}

#[test]
fn counters_count_beyond_the_numbers_of_one_increment() {
    let increments = [Operation::Counter(i64::MAX), Operation::Counter(i64::MAX)];
    let [mut one, other] = two(Datatype::Counter, &increments);
    one.apply(&Operation::Counter(i64::MAX));
    assert_eq!(converged([one, other]), Value::Counter(3 * i128::from(i64::MAX)));
}

#[test]
fn an_add_wins_over_a_remove_that_has_not_seen_it() {
    let mut two = two(Datatype::Set, &[set(&[add("x"), add("y")])]);
    two[0].apply_seen(&set(&[remove("x"), remove("y")]));
    two[1].apply(&set(&[add("x")]));
    assert_eq!(converged(two), elements(&["x"]));
}

#[test]
fn a_remove_deletes_only_what_its_context_has_seen() {
    let [mut one, _] = two(Datatype::Set, &[set(&[add("x")])]);
    let context = one.clock.clone();
    one.apply(&set(&[add("x")]));
    one.try_apply(&set(&[remove("x")]), Some(&context)).unwrap();
    assert_eq!(one.state.value(), elements(&["x"]));
    one.apply_seen(&set(&[remove("x")]));
    assert_eq!(one.state.value(), elements(&[]));
}

#[test]
fn a_remove_without_context_deletes_what_is_here() {
    let mut two = two(Datatype::Set, &[set(&[add("x"), add("y")])]);
    two[0].apply(&set(&[remove("x")]));
    assert_eq!(converged(two), elements(&["y"]));
}

#[test]
fn a_remove_without_context_of_what_is_not_here_undoes_the_request() {
    let [mut one, _] = two(Datatype::Set, &[set(&[add("x")])]);
    let before = one.clone();
    let refused = one.try_apply(&set(&[add("y"), remove("x"), remove("z")]), None);
    assert_eq!(refused, Err(ApplyError::NoSuchElement { element: Bytes::from_static(b"z") }));
    let text =
        "element \"z\" is not in the set; fetch the set and send its context with the remove";
    assert_eq!(refused.unwrap_err().to_string(), text);
    assert_eq!((one.state, one.clock), (before.state, before.clock));
}

#[test]
fn a_remove_with_context_of_what_is_not_here_is_fine() {
    let [mut one, _] = two(Datatype::Set, &[set(&[add("x")])]);
    one.apply_seen(&set(&[remove("z")]));
    assert_eq!(one.state.value(), elements(&["x"]));
}

#[test]
fn a_remove_waits_for_what_its_context_has_seen() {
    let mut reader = Replica::new("a", Datatype::Set);
    let added = reader.apply(&set(&[add("x"), add("y")]));
    let mut behind = Replica::new("b", Datatype::Set);
    behind.try_apply(&set(&[remove("x")]), Some(&reader.clock)).unwrap();
    assert_eq!(behind.state.value(), elements(&[]));
    behind.join(&added);
    assert_eq!(behind.state.value(), elements(&["y"]));
    assert_eq!(converged([reader, behind]), elements(&["y"]));
}

#[test]
fn changes_of_a_set_are_done_in_order() {
    let [mut one, _] = two(Datatype::Set, &[set(&[add("x")])]);
    one.apply(&set(&[remove("x"), add("y"), remove("y"), add("z"), add("x")]));
    assert_eq!(one.state.value(), elements(&["x", "z"]));
}

#[test]
fn a_context_too_far_ahead_is_refused_before_it_fills_the_record() {
    let mut ahead = CausalClock::default();
    for counter in 1..=100 {
        ahead.add(&crate::test_objects::dot(b"z", 2 * counter));
    }
    let mut one = Replica::new("a", Datatype::Set);
    let names = |range: std::ops::Range<usize>| {
        Operation::Set(range.map(|n| SetChange::Remove(Bytes::from(n.to_string()))).collect())
    };
    one.try_apply(&names(0..DEFERRED_RUNS_MAX / 100), Some(&ahead)).unwrap();
    let refused = one.try_apply(&names(200..201), Some(&ahead));
    let run_count = DEFERRED_RUNS_MAX + 100;
    assert_eq!(refused, Err(ApplyError::TooManyDeferred { run_count }));
}

#[test]
fn grow_only_sets_are_united() {
    let gset = |element: &'static [u8]| Operation::Gset(vec![Bytes::from_static(element)]);
    let mut two = two(Datatype::Gset, &[gset(b"x")]);
    two[0].apply(&gset(b"y"));
    two[1].apply(&gset(b"z"));
    assert_eq!(converged(two), elements(&["x", "y", "z"]));
}

#[test]
fn hyperloglogs_count_what_either_has_counted() {
    let hll = |names: std::ops::Range<u32>| {
        Operation::Hll(names.map(|name| Bytes::from(name.to_string())).collect())
    };
    let mut apart = two(Datatype::Hll, &[hll(0..3)]);
    apart[0].apply(&hll(3..6));
    apart[1].apply(&hll(2..9));
    let [together, _] = two(Datatype::Hll, &[hll(0..9)]);
    assert_eq!(converged(apart), together.state.value());
}

#[test]
fn an_update_wins_over_a_remove_of_the_field() {
    let mut two = two(Datatype::Map, &[update(&[("f_flag", FieldOperation::Flag(true))])]);
    two[0].apply_seen(&remove_field("f_flag"));
    two[1].apply(&update(&[("f_flag", FieldOperation::Flag(true))]));
    assert_eq!(converged(two), map(&[("f_flag", Value::Flag(true))]));
}

#[test]
fn a_field_updated_while_removed_holds_only_what_the_update_added() {
    let tags = |element| update(&[("tags_set", FieldOperation::Set(vec![add(element)]))]);
    let mut two = two(Datatype::Map, &[tags("old")]);
    two[0].apply_seen(&remove_field("tags_set"));
    two[1].apply(&tags("x"));
    assert_eq!(converged(two), map(&[("tags_set", elements(&["x"]))]));
}

#[test]
fn a_counter_updated_while_removed_keeps_what_that_actor_had_counted() {
    let visits = |by| update(&[("visits_counter", FieldOperation::Counter(by))]);
    let mut two = two(Datatype::Map, &[visits(5)]);
    two[1].apply(&visits(3));
    let read = two[1].clone();
    two[0].merge(&read);
    two[0].apply_seen(&remove_field("visits_counter"));
    two[1].apply(&visits(2));
    assert_eq!(converged(two), map(&[("visits_counter", Value::Counter(5))]));
}

#[test]
fn a_counter_removed_and_counted_again_begins_at_nothing() {
    let visits = |by| update(&[("visits_counter", FieldOperation::Counter(by))]);
    let [mut one, other] = two(Datatype::Map, &[visits(5)]);
    one.apply_seen(&remove_field("visits_counter"));
    one.apply(&visits(1));
    assert_eq!(converged([one, other]), map(&[("visits_counter", Value::Counter(1))]));
}

#[test]
fn within_a_request_fields_are_removed_before_they_are_updated() {
    let mut both = updates(&[
        ("n_counter", FieldOperation::Counter(1)),
        ("s_set", FieldOperation::Set(vec![add("new")])),
    ]);
    both.removes = vec![field("n_counter"), field("s_set")];
    let before = update(&[
        ("n_counter", FieldOperation::Counter(5)),
        ("s_set", FieldOperation::Set(vec![add("old")])),
    ]);
    let [mut one, other] = two(Datatype::Map, &[before]);
    one.apply(&Operation::Map(both));
    let value = map(&[("n_counter", Value::Counter(1)), ("s_set", elements(&["new"]))]);
    assert_eq!(converged([one, other]), value);
}

#[test]
fn an_update_after_a_remove_starts_from_what_the_context_had_not_seen() {
    let tags = |element| FieldOperation::Set(vec![add(element)]);
    let [mut one, _] = two(Datatype::Map, &[update(&[("tags_set", tags("seen"))])]);
    let context = one.clock.clone();
    one.apply(&update(&[("tags_set", tags("unseen"))]));
    let mut both = updates(&[("tags_set", tags("new"))]);
    both.removes = vec![field("tags_set")];
    one.try_apply(&Operation::Map(both), Some(&context)).unwrap();
    assert_eq!(one.state.value(), map(&[("tags_set", elements(&["new", "unseen"]))]));
}

#[test]
fn a_field_that_is_not_there_is_not_removed_without_context() {
    let [mut one, _] = two(Datatype::Map, &[update(&[("f_flag", FieldOperation::Flag(true))])]);
    let refused = one.try_apply(&remove_field("f_set"), None);
    assert_eq!(refused, Err(ApplyError::NoSuchField { field: field("f_set") }));
    one.apply_seen(&remove_field("f_set"));
    assert_eq!(one.state.value(), map(&[("f_flag", Value::Flag(true))]));
}

#[test]
fn a_failure_deep_inside_undoes_the_whole_request() {
    let mut one = Replica::new("a", Datatype::Map);
    let inner = updates(&[("s_set", FieldOperation::Set(vec![add("x"), remove("y")]))]);
    let outer = update(&[
        ("n_counter", FieldOperation::Counter(1)),
        ("inner_map", FieldOperation::Map(inner)),
    ]);
    let refused = one.try_apply(&outer, None);
    assert_eq!(refused, Err(ApplyError::NoSuchElement { element: Bytes::from_static(b"y") }));
    assert_eq!(one.state, State::empty(Datatype::Map));
    assert!(one.clock.is_empty());
}

#[test]
fn one_context_covers_maps_inside_maps() {
    let tags = |changes: &[SetChange]| {
        let inner = updates(&[("tags_set", FieldOperation::Set(changes.to_vec()))]);
        update(&[("inner_map", FieldOperation::Map(inner))])
    };
    let [mut one, mut other] = two(Datatype::Map, &[tags(&[add("x"), add("y")])]);
    other.apply(&tags(&[add("y")]));
    one.apply_seen(&tags(&[remove("x"), remove("y")]));
    let value = map(&[("inner_map", map(&[("tags_set", elements(&["y"]))]))]);
    assert_eq!(converged([one, other]), value);
}

#[test]
fn a_counter_whose_last_additions_have_come_before_others_counts_each_once() {
    let visits = |by| update(&[("visits_counter", FieldOperation::Counter(by))]);
    let as_field = |value| map(&[("visits_counter", Value::Counter(value))]);
    for datatype in [Datatype::Counter, Datatype::Map] {
        let is_field = datatype == Datatype::Map;
        let operation = |by| if is_field { visits(by) } else { Operation::Counter(by) };
        let value = |sum| if is_field { as_field(sum) } else { Value::Counter(sum) };
        let mut source = Replica::new("a", datatype);
        let deltas = [1, 20, 300, 4_000].map(|by| source.apply(&operation(by)));
        let mut late = Replica::new("b", datatype);
        // The deltas of the second and third addition have not arrived; the sum of the fourth
        // includes them.
        for (arrived, expected) in [(0, 1), (3, 4_321), (2, 4_321), (1, 4_321)] {
            late.join(&deltas[arrived]);
            assert_eq!(late.state.value(), value(expected), "addition {arrived} has come");
        }
        let mut other = Replica::new("c", datatype);
        other.join(&deltas[0]);
        let mut newest = Replica::new("d", datatype);
        newest.join(&deltas[3]);
        other.merge(&newest);
        assert_eq!(other.state.value(), value(4_321), "merged");
    }
}

#[test]
fn the_later_assignment_wins() {
    let mut two = two(Datatype::Map, &[]);
    (two[0].now_us, two[1].now_us) = (7, 8);
    two[0].apply(&update(&[("r_register", assign("z"))]));
    two[1].apply(&update(&[("r_register", assign("a"))]));
    assert_eq!(converged(two), map(&[("r_register", register("a"))]));
}

#[test]
fn of_assignments_at_one_time_the_larger_bytes_win() {
    let mut two = two(Datatype::Map, &[]);
    two[0].apply(&update(&[("r_register", assign("z"))]));
    two[1].apply(&update(&[("r_register", assign("a"))]));
    assert_eq!(converged(two), map(&[("r_register", register("z"))]));
}

#[test]
fn an_assignment_by_an_older_clock_is_ignored() {
    let [mut one, other] = two(Datatype::Map, &[]);
    one.now_us = 9;
    one.apply(&update(&[("r_register", assign("first"))]));
    one.now_us = 5;
    one.apply(&update(&[("r_register", assign("older"))]));
    assert_eq!(converged([one, other]), map(&[("r_register", register("first"))]));
}

#[test]
fn enabling_wins_over_disabling() {
    let switch = |on| update(&[("f_flag", FieldOperation::Flag(on))]);
    let mut apart = two(Datatype::Map, &[switch(true)]);
    apart[0].apply_seen(&switch(false));
    assert_eq!(converged(apart.clone()), map(&[("f_flag", Value::Flag(false))]));
    apart[1].apply(&switch(true));
    assert_eq!(converged(apart), map(&[("f_flag", Value::Flag(true))]));
}

#[test]
fn an_operation_that_changes_nothing_makes_the_record() {
    for operation in [set(&[]), update(&[]), Operation::Gset(Vec::new())] {
        let mut one = Replica::new("a", operation.datatype());
        assert!(!one.state.is_live());
        one.apply(&operation);
        assert!(one.state.is_live());
        assert!(!one.clock.is_empty());
    }
}

#[test]
fn a_delete_takes_what_it_has_seen_and_leaves_the_rest() {
    let mut two = two(Datatype::Set, &[set(&[add("x")])]);
    two[0].delete(1000);
    assert!(!two[0].state.is_live());
    let mut quiet = two.clone();
    quiet[1].merge(&two[0]);
    assert!(!quiet[1].state.is_live() && quiet[1].state.is_void());
    two[1].apply(&set(&[add("y")]));
    assert_eq!(converged(two), elements(&["y"]));
}

#[test]
fn contexts_of_types_without_removes_are_ignored() {
    let mut ahead = CausalClock::default();
    ahead.add(&crate::test_objects::dot(b"z", 7));
    for operation in [Operation::Counter(1), Operation::Gset(vec![Bytes::from_static(b"x")])] {
        let mut one = Replica::new("a", operation.datatype());
        let mut other = one.clone();
        one.try_apply(&operation, Some(&ahead)).unwrap();
        other.apply(&operation);
        assert_eq!((one.state, one.clock), (other.state, other.clock));
    }
}

#[test]
fn a_delta_of_another_type_is_refused() {
    let mut counter = Replica::new("a", Datatype::Counter);
    let delta = counter.apply(&Operation::Counter(1));
    let mut set = Replica::new("b", Datatype::Set);
    assert!(set.state.join(&mut set.clock, &delta).is_err());
    assert!(set.clock.is_empty());
}
