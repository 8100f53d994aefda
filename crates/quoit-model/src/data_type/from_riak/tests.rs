use super::*;
use crate::data_type::{CounterForm, EventOrigin, FieldKind, Operation, Value, context};
use crate::hll::Precision;

fn actor(name: u8) -> Actor {
    Actor([name; 12].as_slice().into())
}

fn dot(name: u8, counter: u64) -> Dot {
    Dot { actor: actor(name), counter, time_secs: 0 }
}

fn vector(entries: &[(u8, u64)]) -> VersionVector {
    VersionVector::from_entries(entries.iter().map(|(name, counter)| dot(*name, *counter)))
}

/// An object as Riak stores it.
fn stored(clock: &[(u8, u64)], values: &[RiakDataType]) -> Object {
    let siblings = values.iter().map(|value| {
        let mut sibling = Sibling { last_modified_us: 7, ..Sibling::default() };
        sibling.meta.content_type = Some(value.content_type().into());
        let mut bytes = Vec::new();
        value.encode_into(&mut bytes);
        Sibling { value: bytes.into(), ..sibling }
    });
    Object { clock: vector(clock), siblings: siblings.collect() }
}

fn adopted(clock: &[(u8, u64)], value: RiakDataType, datatype: Datatype) -> Object {
    let mut object = stored(clock, &[value]);
    assert_eq!(object.adopt_riak_data_type(Some(datatype)), Ok(true));
    object
}

fn value(object: &Object) -> Value {
    object.data_type().expect("an undamaged state").expect("a state").value()
}

fn texts(elements: &[&'static str]) -> Vec<Bytes> {
    elements.iter().map(|element| Bytes::from_static(element.as_bytes())).collect()
}

fn riak_set(clock: &[(u8, u64)], entries: &[(&'static str, (u8, u64))]) -> RiakDataType {
    let entry = |(element, (name, counter)): &(&'static str, (u8, u64))| {
        (Bytes::from_static(element.as_bytes()), vec![dot(*name, *counter)])
    };
    let entries = entries.iter().map(entry).collect();
    RiakDataType::Set(RiakSet { clock: vector(clock), entries, deferred: Vec::new() })
}

/// The set in the form in which clients see the object.
fn shown_set(object: &Object) -> RiakSet {
    let mut object = object.clone();
    object.show_data_type(CounterForm::Typed);
    match RiakDataType::decode(&object.siblings[0].value) {
        Ok(RiakDataType::Set(set)) => set,
        other => panic!("{other:?} is no set"),
    }
}

#[test]
fn a_set_comes_back_as_riak_has_it() {
    let object =
        adopted(&[(1, 2)], riak_set(&[(1, 10)], &[("a", (1, 4)), ("b", (1, 9))]), Datatype::Set);
    assert_eq!(value(&object), Value::Set(texts(&["a", "b"]).into_iter().collect()));
    assert_eq!(object.siblings[0].last_modified_us, 7);
    let set = shown_set(&object);
    assert_eq!(set.clock, vector(&[(1, 10)]));
    assert_eq!(set.entries[0], ("a".into(), vec![dot(1, 4)]));
    assert_eq!(clock_in_riak(&object.clock), vector(&[(1, 2)]));
}

#[test]
fn a_newer_version_of_a_set_takes_over_and_a_concurrent_one_adds() {
    let old =
        adopted(&[(1, 1)], riak_set(&[(1, 2)], &[("a", (1, 1)), ("b", (1, 2))]), Datatype::Set);
    let newer = adopted(&[(1, 2)], riak_set(&[(1, 2)], &[("b", (1, 2))]), Datatype::Set);
    let other =
        adopted(&[(1, 1), (2, 1)], riak_set(&[(1, 2), (2, 1)], &[("c", (2, 1))]), Datatype::Set);
    assert_eq!(value(&old.merge(&newer)), Value::Set(texts(&["b"]).into_iter().collect()));
    assert_eq!(value(&newer.merge(&old)), Value::Set(texts(&["b"]).into_iter().collect()));
    let all = newer.merge(&other);
    assert_eq!(
        value(&all),
        Value::Set(texts(&["c"]).into_iter().collect()),
        "both have removed b or a"
    );
    assert_eq!(all.digest(), other.merge(&newer).digest());
}

#[test]
fn versions_of_a_grow_only_set_unite_and_a_delete_in_riak_empties_them() {
    let gset = |clock: &[(u8, u64)], elements: &[&'static str]| {
        adopted(clock, RiakDataType::Gset(texts(elements)), Datatype::Gset)
    };
    let one = gset(&[(1, 2), (2, 1)], &["a", "b"]);
    let two = gset(&[(1, 1), (2, 2)], &["a", "c"]);
    let united = one.merge(&two);
    assert_eq!(value(&united), Value::Set(texts(&["a", "b", "c"]).into_iter().collect()));
    let tombstone = Sibling { deleted: true, ..Sibling::default() };
    let deleted = Object {
        clock: vector(&[(1, 2), (2, 2), (3, 1)]),
        siblings: [tombstone].into_iter().collect(),
    };
    assert!(united.merge(&deleted).is_tombstone());
    let again = gset(&[(1, 2), (2, 2), (3, 2)], &["d"]);
    assert_eq!(value(&united.merge(&again)), Value::Set(texts(&["d"]).into_iter().collect()));
}

#[test]
fn values_beside_each_other_in_one_object_are_one() {
    let gset = |element| RiakDataType::Gset(texts(&[element]));
    let mut object = stored(&[(1, 1), (2, 1)], &[gset("a"), gset("b")]);
    assert_eq!(object.adopt_riak_data_type(Some(Datatype::Gset)), Ok(true));
    assert_eq!(value(&object), Value::Set(texts(&["a", "b"]).into_iter().collect()));
    assert_eq!(object.siblings.len(), 1);
}

#[test]
fn versions_of_a_counter_never_count_twice() {
    let count =
        |name, increments, decrements| RiakCount { actor: actor(name), increments, decrements };
    let counter = |clock: &[(u8, u64)], counts| {
        adopted(clock, RiakDataType::Counter(counts), Datatype::Counter)
    };
    let one = counter(&[(1, 2)], vec![count(1, 10, 3)]);
    let two = counter(&[(1, 3), (2, 1)], vec![count(1, 12, 3), count(2, 1, 0)]);
    assert_eq!(value(&one.merge(&two)), Value::Counter(10));
    assert_eq!(value(&two.merge(&one)), Value::Counter(10));
    assert_eq!(one.merge(&one).digest(), one.digest());
}

/// An update of a counter by the store with this name.
fn counted_here(object: Option<Object>, name: u8, amount: i64) -> Object {
    let coordinator = EventOrigin {
        actor: &context::incarnation(&Actor([name; 8].as_slice().into()), 1),
        time_secs: 9,
        now_us: 9_000_000,
        hll_precision: Precision::default(),
    };
    let operation = Operation::Counter(amount);
    Object::update_data_type(object, &operation, None, coordinator, None).expect("an update")
}

/// The object in a cluster that received it in Riak's form.
fn sent(object: &Object) -> Object {
    let mut sent = object.clone();
    sent.show_data_type(CounterForm::Typed);
    sent.clock = clock_in_riak(&sent.clock);
    assert_eq!(sent.adopt_riak_data_type(Some(Datatype::Counter)), Ok(true));
    sent
}

#[test]
fn an_update_outlives_an_older_version_of_its_counter_that_comes_back_in_riaks_form() {
    let first = counted_here(None, 1, 5);
    let other = counted_here(Some(sent(&first)), 2, 37);
    // The first store has counted further in the meantime.
    let own = counted_here(Some(first.clone()), 1, 100);
    for both in [own.merge(&sent(&other)), other.merge(&sent(&own))] {
        assert_eq!(value(&both), Value::Counter(142));
        assert_eq!(value(&counted_here(Some(both), 1, 1)), Value::Counter(143));
    }
    // The merge of an object with its own converted form changes nothing, even if a count went
    // down.
    let down = counted_here(Some(own.clone()), 1, -100);
    assert_eq!(value(&down.merge(&sent(&down))), Value::Counter(5));
    assert_eq!(value(&down.merge(&sent(&first))), Value::Counter(5));
}

#[test]
fn of_counters_beside_each_other_in_one_object_the_larger_count_of_an_actor_stays() {
    let (less, more) = (counted_here(None, 1, 5), counted_here(None, 1, 5));
    let more = counted_here(Some(more), 1, 100);
    let shown = |object: &Object| {
        let mut shown = object.clone();
        shown.show_data_type(CounterForm::Typed);
        shown
    };
    for (first, second) in [(&less, &more), (&more, &less)] {
        let mut both = shown(&more);
        both.siblings = [first, second].iter().map(|one| shown(one).siblings[0].clone()).collect();
        assert_eq!(both.adopt_riak_data_type(Some(Datatype::Counter)), Ok(true));
        assert_eq!(value(&both), Value::Counter(105));
    }
}

#[test]
fn a_remove_that_waits_for_an_element_in_riak_waits_for_it_here() {
    let mut set = RiakSet { clock: vector(&[(1, 1)]), ..RiakSet::default() };
    set.entries.push(("a".into(), vec![dot(1, 1)]));
    set.deferred.push((vector(&[(2, 5)]), texts(&["late"])));
    let waiting = adopted(&[(1, 1)], RiakDataType::Set(set), Datatype::Set);
    let late = riak_set(&[(2, 5)], &[("late", (2, 5)), ("later", (2, 4))]);
    let late = adopted(&[(2, 1)], late, Datatype::Set);
    let value = value(&waiting.merge(&late));
    assert_eq!(value, Value::Set(texts(&["a", "later"]).into_iter().collect()));
}

#[test]
fn fields_of_a_map_keep_what_their_states_hold_together() {
    let name = FieldName::new("s", FieldKind::Set);
    let state = |name: u8, element: &'static str| {
        let entries = vec![(element.into(), vec![dot(name, 1)])];
        let clock = vector(&[(name, 1)]);
        (dot(name, 1), RiakEmbedded::Set(RiakSet { clock, entries, deferred: Vec::new() }))
    };
    let tombstone = RiakEmbedded::Set(RiakSet { clock: vector(&[(3, 1)]), ..RiakSet::default() });
    let states = vec![state(1, "a"), state(2, "b"), state(3, "removed")];
    let field = RiakField { name: name.clone(), states, tombstone };
    let clock = vector(&[(1, 1), (2, 1), (3, 1)]);
    let map = RiakMap { clock, fields: vec![field], deferred: Vec::new() };
    let object = adopted(&[(1, 1), (2, 1), (3, 1)], RiakDataType::Map(map), Datatype::Map);
    let Value::Map(fields) = value(&object) else { panic!("no map") };
    assert_eq!(fields, [(name, Value::Set(texts(&["a", "b"]).into_iter().collect()))]);
}

#[test]
fn other_values_stay_as_they_are() {
    let set = riak_set(&[(1, 1)], &[("a", (1, 1))]);
    let object = stored(&[(1, 1)], &[set]);
    for datatype in [None, Some(Datatype::Map), Some(Datatype::Counter)] {
        let mut same = object.clone();
        assert_eq!(same.adopt_riak_data_type(datatype), Ok(false));
        assert_eq!(same, object);
    }
    let mut damaged = object.clone();
    let value = &mut damaged.siblings[0].value;
    *value = value.slice(..value.len() - 1);
    let before = damaged.clone();
    assert!(damaged.adopt_riak_data_type(Some(Datatype::Set)).is_err());
    assert_eq!(damaged, before);
}

#[test]
fn maps_nested_too_deeply_are_refused() {
    let mut map = RiakMap::default();
    for _ in 0..MAP_DEPTH_MAX {
        let inner = RiakEmbedded::Map(std::mem::take(&mut map));
        let tombstone = RiakEmbedded::Map(RiakMap::default());
        let name = FieldName::new("m", FieldKind::Map);
        map.fields.push(RiakField { name, states: vec![(dot(1, 1), inner)], tombstone });
    }
    let mut object = stored(&[(1, 1)], &[RiakDataType::Map(map)]);
    let refused = object.adopt_riak_data_type(Some(Datatype::Map));
    assert_eq!(refused, Err(RiakDataTypeError::TooDeep));
}

/// A coordinated write of a data type in Riak's form; `written_by` is the event that this store
/// makes.
fn written(
    before: Option<&Object>,
    context: &VersionVector,
    form: &RiakDataType,
    written_by: Dot,
    datatype: Datatype,
) -> Option<Object> {
    let sibling = stored(&[], std::slice::from_ref(form)).siblings.remove(0);
    let new = NewValue {
        meta: sibling.meta,
        value: sibling.value,
        deleted: false,
        last_modified_us: 8,
        vtag: Bytes::new(),
    };
    Object::write_riak_data_type(before, context, &new, &written_by, Some(datatype))
}

fn own(counter: u64) -> Dot {
    Dot { actor: Actor([9; INCARNATION_BYTES].as_slice().into()), counter, time_secs: 0 }
}

#[test]
fn a_plain_write_of_a_state_is_one_and_replaces_what_its_writer_has_seen() {
    let nothing = VersionVector::default();
    let both = riak_set(&[(1, 2)], &[("a", (1, 1)), ("b", (1, 2))]);
    let first = written(None, &nothing, &both, own(5), Datatype::Set).expect("a state");
    assert_eq!(value(&first), Value::Set(texts(&["a", "b"]).into_iter().collect()));
    assert!(first.clock.contains(&own(5)), "{:?}", first.clock);
    let other = riak_set(&[(2, 1)], &[("c", (2, 1))]);
    let blind = written(Some(&first), &nothing, &other, own(9), Datatype::Set).expect("a state");
    assert_eq!(
        value(&blind),
        Value::Set(texts(&["a", "b", "c"]).into_iter().collect()),
        "a writer that has read nothing takes nothing away"
    );
    let after = written(Some(&blind), &blind.clock, &other, own(12), Datatype::Set);
    let after = after.expect("a state");
    assert_eq!(value(&after), Value::Set(texts(&["c"]).into_iter().collect()));
    assert_eq!(after.siblings.len(), 1);
    assert_eq!(after.merge(&first).digest(), after.digest(), "an older copy brings nothing back");
}

#[test]
fn plain_writes_of_types_without_events_need_no_context() {
    let nothing = VersionVector::default();
    let gset = |element| RiakDataType::Gset(texts(&[element]));
    let one = written(None, &nothing, &gset("a"), own(3), Datatype::Gset).expect("a state");
    let two = written(Some(&one), &nothing, &gset("b"), own(4), Datatype::Gset).expect("a state");
    assert_eq!(value(&two), Value::Set(texts(&["a", "b"]).into_iter().collect()));
    assert_eq!(two.merge(&one).digest(), two.digest());
    let counts = vec![RiakCount { actor: actor(1), increments: 7, decrements: 2 }];
    let counter = RiakDataType::Counter(counts);
    let one = written(None, &nothing, &counter, own(3), Datatype::Counter).expect("a state");
    let two = written(Some(&one), &nothing, &counter, own(4), Datatype::Counter).expect("a state");
    assert_eq!((value(&one), value(&two)), (Value::Counter(5), Value::Counter(5)));
}

#[test]
fn a_plain_write_of_anything_else_is_no_state() {
    let nothing = VersionVector::default();
    let set = riak_set(&[(1, 1)], &[("a", (1, 1))]);
    assert_eq!(written(None, &nothing, &set, own(1), Datatype::Map), None);
    let mut new = NewValue {
        meta: stored(&[], std::slice::from_ref(&set)).siblings.remove(0).meta,
        value: Bytes::from_static(&[RIAK_DATA_TYPE, 2, 0]),
        deleted: false,
        last_modified_us: 8,
        vtag: Bytes::new(),
    };
    let write = |new: &NewValue| {
        Object::write_riak_data_type(None, &nothing, new, &own(1), Some(Datatype::Set))
    };
    assert_eq!(write(&new), None, "it is damaged");
    new.value = stored(&[], &[set]).siblings.remove(0).value;
    assert!(write(&new).is_some());
    new.meta.content_type = Some("application/octet-stream".into());
    assert_eq!(write(&new), None);
}
