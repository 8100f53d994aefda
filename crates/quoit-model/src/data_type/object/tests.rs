use super::*;
use crate::data_type::{CounterForm, FieldOperation, FieldUpdate, MapOperation, SetChange, Value};
use crate::hll::Precision;
use crate::riak_data_type::{RiakDataType, RiakEmbedded};
use proptest::prelude::*;

fn actor(name: u8) -> Actor {
    Actor([name; 8].as_slice().into())
}

/// A replica of one record, with an incarnation of its own.
#[derive(Clone, Debug)]
struct Replica {
    incarnation: Actor,
    plain_counter: u64,
    object: Option<Object>,
}

impl Replica {
    fn new(number: u8) -> Self {
        let incarnation = crate::data_type::context::incarnation(&actor(number), 77);
        Self { incarnation, plain_counter: 0, object: None }
    }

    fn coordinator(&self) -> EventOrigin<'_> {
        EventOrigin {
            actor: &self.incarnation,
            time_secs: 1,
            now_us: 5,
            hll_precision: Precision::DEFAULT,
        }
    }

    /// The delta that an update would make.
    fn delta(&self, operation: &Operation, context: Option<&CausalClock>) -> Delta {
        let object = self.object.clone().unwrap_or_default();
        let state = object.data_type().unwrap();
        let state = state.unwrap_or_else(|| State::empty(operation.datatype()));
        let clock = object.causal_clock().unwrap();
        state.delta(&clock, operation, context, self.coordinator()).unwrap()
    }

    fn update(&mut self, operation: &Operation, context: Option<&CausalClock>) -> State {
        let coordinator = EventOrigin {
            actor: &self.incarnation,
            time_secs: 1,
            now_us: 5,
            hll_precision: Precision::DEFAULT,
        };
        let updated =
            Object::update_data_type(self.object.take(), operation, context, coordinator, None);
        let object = self.object.insert(updated.expect("an operation that can be done"));
        object.data_type().unwrap().expect("an operation leaves a state")
    }

    /// Writes a plain value or, if `deleted` is true, deletes the record.
    fn write(&mut self, context: &VersionVector, deleted: bool) {
        self.plain_counter += 1;
        let counter = 1000 * u64::from(self.incarnation.0[0]) + self.plain_counter;
        let dot = Dot { actor: actor(self.incarnation.0[0]), counter, time_secs: 1 };
        let value = Bytes::from_static(b"put by a client");
        let new = NewValue { value, deleted, last_modified_us: 6, ..NewValue::default() };
        let policy = WritePolicy::Siblings;
        self.object = Some(Object::write(self.object.as_ref(), context, new, dot, policy));
    }

    fn take(&mut self, other: &Self) {
        let Some(theirs) = &other.object else { return };
        self.object = Some(match &self.object {
            Some(ours) => ours.merge(theirs),
            None => theirs.clone(),
        });
    }

    fn clock(&self) -> VersionVector {
        self.object.as_ref().map(|object| object.clock.clone()).unwrap_or_default()
    }

    fn elements(&self) -> Vec<Bytes> {
        let object = self.object.as_ref().expect("an object");
        match object.data_type().expect("readable").map(|state| state.value()) {
            Some(Value::Set(elements)) => elements,
            other => panic!("{other:?}"),
        }
    }

    /// Number of values of clients, without tombstones.
    fn value_count(&self) -> usize {
        let siblings = &self.object.as_ref().expect("an object").siblings;
        siblings.iter().filter(|one| !one.deleted && !one.is_data_type()).count()
    }
}

fn add(element: &'static str) -> Operation {
    Operation::Set(vec![SetChange::Add(element.into())])
}

fn remove(element: &'static str) -> Operation {
    Operation::Set(vec![SetChange::Remove(element.into())])
}

#[derive(Clone, Debug)]
enum Step {
    Add(usize, bool),
    Remove(usize, bool),
    Delete(usize),
    Write(usize),
    Take(usize, usize),
    /// The delta of an earlier update arrives by itself.
    Join(usize, usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let place = || 0usize..3;
    prop_oneof![
        4 => (place(), any::<bool>()).prop_map(|(at, which)| Step::Add(at, which)),
        2 => (place(), any::<bool>()).prop_map(|(at, which)| Step::Remove(at, which)),
        1 => place().prop_map(Step::Delete),
        1 => place().prop_map(Step::Write),
        4 => (place(), place()).prop_map(|(at, from)| Step::Take(at, from)),
        5 => (place(), 0usize..25).prop_map(|(at, which)| Step::Join(at, which)),
    ]
}

/// The replicas after a history.
fn replicas_after(steps: &[Step]) -> [Replica; 3] {
    let mut replicas = [1, 2, 3].map(Replica::new);
    let element = |which| if which { "x" } else { "y" };
    let mut deltas = Vec::new();
    for step in steps {
        match *step {
            Step::Add(at, which) => {
                deltas.push(replicas[at].delta(&add(element(which)), None));
                replicas[at].update(&add(element(which)), None);
            }
            Step::Remove(at, which) => {
                let context = replicas[at].object.clone().unwrap_or_default().causal_clock();
                let context = context.unwrap();
                deltas.push(replicas[at].delta(&remove(element(which)), Some(&context)));
                replicas[at].update(&remove(element(which)), Some(&context));
            }
            Step::Join(at, which) => {
                let Some(delta) = deltas.get(which) else { continue };
                let stored = replicas[at].object.clone();
                if let Some(joined) = Object::join_data_type(stored, delta, 5, None).unwrap() {
                    replicas[at].object = Some(joined);
                }
            }
            Step::Delete(at) => {
                let context = replicas[at].clock();
                replicas[at].write(&context, true);
            }
            Step::Write(at) => replicas[at].write(&VersionVector::default(), false),
            Step::Take(at, from) => {
                let other = replicas[from].clone();
                replicas[at].take(&other);
            }
        }
    }
    replicas
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn replicas_of_any_history_become_one(steps in prop::collection::vec(any_step(), 1..25)) {
        let [a, b, c] = replicas_after(&steps).map(|replica| replica.object.unwrap_or_default());
        let same = |left: &Object, right: &Object| {
            left.digest() == right.digest()
                && left.data_type() == right.data_type()
                && left.is_tombstone() == right.is_tombstone()
        };
        prop_assert!(same(&a.merge(&b), &b.merge(&a)));
        prop_assert!(same(&a.merge(&b).merge(&c), &a.merge(&b.merge(&c))));
        prop_assert!(same(&a.merge(&a), &a));
        prop_assert!(same(&a.merge(&b).merge(&b), &a.merge(&b)));
    }

    #[test]
    fn equal_digests_mean_equal_states(steps in prop::collection::vec(any_step(), 1..25)) {
        let replicas = replicas_after(&steps).map(|replica| replica.object.unwrap_or_default());
        for (one, other) in [(0, 1), (1, 2), (0, 2)].map(|(one, other)| (&replicas[one], &replicas[other])) {
            if one.digest() == other.digest() {
                prop_assert_eq!(one.causal_clock(), other.causal_clock());
                let state = |object: &Object| object.data_type().unwrap().map(|state| state.digest());
                prop_assert_eq!(state(one), state(other));
            }
        }
    }

    #[test]
    fn stored_objects_come_back(steps in prop::collection::vec(any_step(), 1..25)) {
        for replica in replicas_after(&steps) {
            let object = replica.object.unwrap_or_default();
            let mut stored = Vec::new();
            object.encode_into(&mut stored);
            prop_assert_eq!(Object::decode(&stored.into()), Ok(object));
        }
    }
}

#[test]
fn a_delete_takes_what_it_has_seen_and_nothing_else() {
    let [mut ours, mut theirs] = [1, 2].map(Replica::new);
    ours.update(&add("x"), None);
    theirs.take(&ours);
    theirs.update(&add("y"), None);
    let context = ours.clock();
    ours.write(&context, true);
    assert!(ours.object.as_ref().expect("a tombstone").is_tombstone());
    assert!(!ours.object.as_ref().expect("a tombstone").has_data_type());
    ours.take(&theirs);
    theirs.take(&ours);
    for replica in [&ours, &theirs] {
        assert_eq!(replica.elements(), ["y"], "added at the same time");
    }
}

#[test]
fn a_deleted_set_starts_anew() {
    let mut replica = Replica::new(1);
    replica.update(&add("x"), None);
    let context = replica.clock();
    replica.write(&context, true);
    replica.update(&add("y"), None);
    let object = replica.object.as_ref().expect("a set");
    assert_eq!(object.siblings.len(), 1, "the tombstone is gone: {object:?}");
    assert_eq!(replica.elements(), ["y"]);
}

#[test]
fn an_old_delete_leaves_what_came_later() {
    let mut replica = Replica::new(1);
    replica.update(&add("x"), None);
    let context = replica.clock();
    replica.update(&add("y"), None);
    replica.write(&context, true);
    assert_eq!(replica.elements(), ["y"]);
}

#[test]
fn values_of_clients_stay_beside_the_state() {
    let mut replica = Replica::new(1);
    replica.write(&VersionVector::default(), false);
    replica.update(&add("x"), None);
    assert_eq!((replica.elements(), replica.value_count()), (vec!["x".into()], 1));
    replica.write(&VersionVector::default(), false);
    replica.update(&remove("x"), None);
    assert_eq!((replica.elements(), replica.value_count()), (vec![], 2));
    let context = replica.clock();
    replica.write(&context, false);
    let object = replica.object.as_ref().expect("an object");
    assert!(!object.has_data_type() && object.siblings.len() == 1, "all was replaced: {object:?}");
}

#[test]
fn a_value_without_an_event_stays_beside_a_state_of_the_same_clock() {
    let mut replica = Replica::new(0);
    replica.update(&add("a"), None);
    let state = replica.object.expect("it was updated");
    let new = NewValue { value: Bytes::from_static(b"given"), ..NewValue::default() };
    let mut both = state.clone();
    both.siblings.extend(Object::given(state.clock.clone(), new).siblings);
    for merged in [state.merge(&both), both.merge(&state)] {
        assert_eq!((merged.siblings.len(), merged.digest()), (2, both.digest()));
    }
}

#[test]
fn a_tombstone_that_one_copy_has_replaced_leaves_a_copy_of_the_same_clock() {
    let mut replica = Replica::new(0);
    replica.write(&VersionVector::default(), true);
    let deleted = replica.object.clone().expect("it was deleted");
    replica.update(&add("a"), None);
    let without = replica.object.expect("it was updated");
    assert_eq!(without.siblings.len(), 1, "the update has seen the tombstone");
    let mut with = without.clone();
    with.siblings.extend(deleted.siblings);
    for merged in [with.merge(&without), without.merge(&with)] {
        assert_eq!(merged.digest(), without.digest());
    }
}

#[test]
fn a_record_of_another_type_is_left_alone() {
    let mut replica = Replica::new(1);
    replica.update(&add("x"), None);
    let coordinator = EventOrigin {
        actor: &replica.incarnation,
        time_secs: 1,
        now_us: 5,
        hll_precision: Precision::DEFAULT,
    };
    let counter = Operation::Counter(1);
    let stored = replica.object.clone();
    let updated = Object::update_data_type(stored, &counter, None, coordinator, None);
    let fault = updated.unwrap_err();
    let text = "record holds a set, records of this bucket type are of type counter; \
                delete the record first";
    assert_eq!(fault.to_string(), text);
}

#[test]
fn damaged_states_are_kept_as_values() {
    let [mut ours, mut theirs] = [1, 2].map(Replica::new);
    ours.update(&add("x"), None);
    theirs.update(&add("y"), None);
    let object = ours.object.as_mut().expect("a set");
    object.siblings[0].value = Bytes::from_static(b"damage");
    assert!(object.data_type().is_err());
    ours.take(&theirs);
    assert_eq!(ours.object.expect("an object").siblings.len(), 2);
}

#[test]
fn a_store_goes_on_with_its_last_incarnation() {
    let store = actor(1);
    let clock = |actors: &[Actor]| {
        let dot = |actor: &Actor| Dot { actor: actor.clone(), counter: 1, time_secs: 0 };
        let clock = VersionVector::from_entries(actors.iter().map(dot));
        Object { clock, ..Object::default() }
    };
    let named = |number| crate::data_type::context::incarnation(&store, number);
    let other = crate::data_type::context::incarnation(&actor(2), 9);
    let mut plain_passing = store.clone();
    plain_passing.0.extend_from_slice(&99u64.to_be_bytes());
    let passing = crate::data_type::context::passing_incarnation(&plain_passing);
    let others = [store.clone(), plain_passing, passing, other];
    let object = clock(&[&[named(3), named(8), named(5)], &others[..]].concat());
    assert_eq!(object.incarnation_of(&store, 0), Some(&named(8)));
    assert_eq!(object.incarnation_of(&store, 8), None, "of copies that were given away");
    assert_eq!(clock(&others).incarnation_of(&store, 0), None);
}

#[test]
fn clients_are_shown_riaks_form() {
    let mut replica = Replica::new(1);
    let inner = MapOperation {
        updates: vec![FieldUpdate::new("s", FieldOperation::Set(vec![SetChange::Add("e".into())]))],
        ..MapOperation::default()
    };
    let map = MapOperation {
        updates: vec![
            FieldUpdate::new("c", FieldOperation::Counter(-3)),
            FieldUpdate::new("f", FieldOperation::Flag(true)),
            FieldUpdate::new("m", FieldOperation::Map(inner)),
            FieldUpdate::new("r", FieldOperation::Register("v".into())),
        ],
        ..MapOperation::default()
    };
    replica.update(&Operation::Map(map), None);
    let mut object = replica.object.expect("a map");
    object.show_data_type(CounterForm::Typed);
    let sibling = &object.siblings[0];
    assert!(!sibling.is_data_type());
    assert_eq!(sibling.meta.content_type.as_deref(), Some(&b"application/riak_map"[..]));
    let Ok(RiakDataType::Map(map)) = RiakDataType::decode(&sibling.value) else { panic!("no map") };
    assert_eq!(map.clock, object.clock);
    let states = map.fields.iter().map(|field| &field.states[0].1);
    let shown: Vec<_> = states
        .map(|state| match state {
            RiakEmbedded::Counter { counts, .. } => format!("-{}", counts[0].1.decrements),
            RiakEmbedded::Flag { dots, .. } => format!("{} dot", dots.len()),
            RiakEmbedded::Register { value, time_us } => format!("{value:?} at {time_us}"),
            RiakEmbedded::Set(set) => format!("{:?}", set.entries[0].0),
            RiakEmbedded::Map(map) => format!("{} field", map.fields.len()),
        })
        .collect();
    assert_eq!(shown, ["-3", "1 dot", "1 field", "b\"v\" at 5"]);
    assert!(map.fields.iter().all(|field| field.tombstone.kind() == field.name.kind));
}

#[test]
fn every_type_is_shown_with_its_content_type() {
    let elements = || vec!["a".into(), "b".into()];
    for operation in [
        Operation::Counter(5),
        Operation::Set(vec![]),
        Operation::Gset(elements()),
        Operation::Hll(elements()),
    ] {
        let mut replica = Replica::new(1);
        let state = replica.update(&operation, None);
        let mut stored = replica.object.expect("an object");
        let mut object = stored.clone();
        object.show_data_type(CounterForm::Typed);
        let shown = RiakDataType::decode(&object.siblings[0].value).expect("Riak's form");
        assert_eq!(shown.content_type(), content_type(state.datatype()));
        match shown {
            RiakDataType::Counter(counts) => {
                assert_eq!(counts[0].increments, 5);
                stored.show_data_type(CounterForm::Legacy);
                let legacy = RiakDataType::decode(&stored.siblings[0].value);
                assert_eq!(legacy, Ok(RiakDataType::LegacyCounter(counts)));
            }
            RiakDataType::Set(set) => assert!(set.entries.is_empty() && !set.clock.is_empty()),
            RiakDataType::Gset(shown) => assert_eq!(shown, elements()),
            RiakDataType::Hll(hll) => assert_eq!(hll.estimate(), 2),
            other => panic!("{other:?}"),
        }
    }
}
