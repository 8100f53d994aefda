use super::*;
use crate::test_objects::{any_object, dot};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const REPLICAS: usize = 4;
const NAMES: [&[u8]; REPLICAS] = [b"p", b"q", b"r", b"s"];

/// An event of the model: replica and counter.
type Event = (usize, u64);
type Events = BTreeSet<Event>;

/// A causal history, written out: every write that a replica has seen, with all events that its
/// writer knew. The siblings are the writes that no other writer knew.
#[derive(Clone, PartialEq, Debug, Default)]
struct History {
    writes: BTreeMap<Event, Events>,
}

impl History {
    fn seen(&self) -> Events {
        let known = self.writes.values().flatten();
        known.chain(self.writes.keys()).copied().collect()
    }

    fn siblings(&self) -> Events {
        let replaced: Events = self.writes.values().flatten().copied().collect();
        self.writes.keys().filter(|event| !replaced.contains(event)).copied().collect()
    }

    fn merge(&mut self, other: &Self) {
        self.writes.extend(other.writes.iter().map(|(event, known)| (*event, known.clone())));
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A write with one of the contexts captured so far, or without a context.
    Write { replica: usize, context: Option<prop::sample::Index>, modified_us: u64 },
    /// A write by a client that has read the replica's object.
    Update { replica: usize, modified_us: u64 },
    /// A client reads an object and keeps the context.
    Capture { replica: usize },
    /// One replica merges the object of another.
    Merge { from: usize, to: usize },
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let replica = 0..REPLICAS;
    let context = proptest::option::weighted(0.8, any::<prop::sample::Index>());
    let step = prop_oneof![
        4 => (replica.clone(), context, 1u64..5).prop_map(|(replica, context, modified_us)| {
            Step::Write { replica, context, modified_us }
        }),
        1 => (replica.clone(), 1u64..5)
            .prop_map(|(replica, modified_us)| Step::Update { replica, modified_us }),
        3 => replica.clone().prop_map(|replica| Step::Capture { replica }),
        4 => (replica.clone(), replica).prop_map(|(from, to)| Step::Merge { from, to }),
    ];
    prop::collection::vec(step, 1..40)
}

/// Runs a script on objects and on the model side by side.
struct World {
    policy: WritePolicy,
    objects: Vec<Object>,
    histories: Vec<History>,
    contexts: Vec<(VersionVector, Events)>,
    counters: [u64; REPLICAS],
    /// All earlier states.
    past: Vec<(Object, History)>,
}

impl World {
    fn new(policy: WritePolicy) -> Self {
        Self {
            policy,
            objects: vec![Object::default(); REPLICAS],
            histories: vec![History::default(); REPLICAS],
            contexts: Vec::new(),
            counters: [0; REPLICAS],
            past: Vec::new(),
        }
    }

    fn run(policy: WritePolicy, steps: &[Step]) -> Self {
        let mut world = Self::new(policy);
        for step in steps {
            let changed = world.step(step);
            let state = (world.objects[changed].clone(), world.histories[changed].clone());
            world.past.push(state);
        }
        world
    }

    fn step(&mut self, step: &Step) -> usize {
        match step {
            Step::Capture { replica } => {
                self.contexts.push(self.context_of(*replica));
                *replica
            }
            Step::Merge { from, to } => {
                let from_history = self.histories[*from].clone();
                self.objects[*to] = self.merged(&self.objects[*to], &self.objects[*from]);
                self.histories[*to].merge(&from_history);
                *to
            }
            Step::Write { replica, context, modified_us } => {
                let context = match context {
                    Some(index) if !self.contexts.is_empty() => {
                        self.contexts[index.index(self.contexts.len())].clone()
                    }
                    _ => Default::default(),
                };
                self.write(*replica, context, *modified_us)
            }
            Step::Update { replica, modified_us } => {
                self.write(*replica, self.context_of(*replica), *modified_us)
            }
        }
    }

    /// Merges two replicas under the policy.
    fn merged(&self, a: &Object, b: &Object) -> Object {
        match self.policy {
            WritePolicy::LastWriteWins => a.merge_last_write_wins(b),
            _ => a.merge(b),
        }
    }

    fn context_of(&self, replica: usize) -> (VersionVector, Events) {
        (self.objects[replica].clock.clone(), self.histories[replica].seen())
    }

    fn write(
        &mut self,
        replica: usize,
        (context, known): (VersionVector, Events),
        last_modified_us: u64,
    ) -> usize {
        // Counters of a store are monotone but not contiguous.
        self.counters[replica] += last_modified_us;
        let counter = self.counters[replica];
        let value = Bytes::from(format!("{replica} {counter}"));
        let new = NewValue { value, last_modified_us, ..NewValue::default() };
        let event = dot(NAMES[replica], counter);
        let stored = Some(&self.objects[replica]);
        // Where the last write wins, the coordinator does not read the stored object.
        let blind = self.policy == WritePolicy::LastWriteWins;
        let stored = stored.filter(|object| !object.clock.is_empty() && !blind);
        self.objects[replica] = Object::write(stored, &context, new, event, self.policy);
        self.histories[replica].writes.insert((replica, counter), known);
        replica
    }
}

fn siblings_of(object: &Object) -> Events {
    let events: Events = object.siblings.iter().map(event_of).collect();
    assert_eq!(events.len(), object.siblings.len(), "no sibling twice");
    events
}

fn event_of(sibling: &Sibling) -> Event {
    let dot = sibling.dot.as_ref().expect("written here");
    let replica = NAMES.iter().position(|name| *name == dot.actor.0.as_slice()).expect("a replica");
    assert_eq!(sibling.value, format!("{replica} {}", dot.counter), "a dot stands for its value");
    (replica, dot.counter)
}

proptest! {
    #[test]
    fn siblings_are_exactly_the_writes_that_no_other_writer_knew(steps in any_steps()) {
        let world = World::run(WritePolicy::Siblings, &steps);
        for (object, history) in &world.past {
            prop_assert_eq!(siblings_of(object), history.siblings());
        }
    }

    #[test]
    fn the_clock_knows_exactly_the_events_of_the_history(steps in any_steps()) {
        let world = World::run(WritePolicy::Siblings, &steps);
        let all = world.past.iter().flat_map(|(_, history)| history.seen());
        let all: Events = all.collect();
        for (object, history) in &world.past {
            let known = |event: &&Event| object.clock.contains(&dot(NAMES[event.0], event.1));
            let events: Events = all.iter().filter(known).copied().collect();
            prop_assert_eq!(events, history.seen());
        }
    }

    #[test]
    fn what_supersedes_a_clock_is_not_changed_by_objects_that_have_it(
        steps in any_steps(),
        policy in prop::sample::select(vec![
            WritePolicy::Siblings,
            WritePolicy::LatestModified,
            WritePolicy::WriteOnce,
        ]),
    ) {
        let world = World::run(policy, &steps);
        for (ours, _) in &world.past {
            for (theirs, _) in &world.past {
                if ours.supersedes(&theirs.clock) {
                    prop_assert_eq!(ours.merge(theirs).digest(), ours.digest());
                }
                let is_later_alone = ours.siblings.len() == 1
                    && ours.clock.descends(&theirs.clock)
                    && !theirs.clock.is_empty()
                    && ours.siblings[0].dot.as_ref().is_some_and(|dot| !theirs.clock.contains(dot));
                if is_later_alone {
                    prop_assert!(ours.supersedes(&theirs.clock), "{:?} {:?}", ours, theirs);
                }
            }
        }
    }

    #[test]
    fn merge_is_commutative_associative_and_idempotent(steps in any_steps()) {
        let world = World::run(WritePolicy::Siblings, &steps);
        let [a, b, c, _] = &world.objects[..] else { unreachable!("four replicas") };
        prop_assert_eq!(a.merge(b).digest(), b.merge(a).digest());
        prop_assert_eq!(siblings_of(&a.merge(b)), siblings_of(&b.merge(a)));
        let (left, right) = (a.merge(b).merge(c), a.merge(&b.merge(c)));
        prop_assert_eq!(left.digest(), right.digest());
        prop_assert_eq!(siblings_of(&left), siblings_of(&right));
        prop_assert_eq!(&a.merge(a), a);
        prop_assert_eq!(&left.merge(b), &left);
    }

    #[test]
    fn the_merge_of_last_writes_is_commutative_associative_and_idempotent(
        [a, b, c] in [any_object(), any_object(), any_object()],
    ) {
        let merge = Object::merge_last_write_wins;
        prop_assert_eq!(merge(&a, &b).digest(), merge(&b, &a).digest());
        let (left, right) = (merge(&merge(&a, &b), &c), merge(&a, &merge(&b, &c)));
        prop_assert_eq!(left.digest(), right.digest());
        prop_assert_eq!(merge(&left, &b).digest(), left.digest());
        prop_assert_eq!(&merge(&left, &left), &left);
        let most = [&a, &b, &c].iter().map(|object| object.last_modified_us()).max();
        prop_assert_eq!(Some(left.last_modified_us()), most);
    }

    #[test]
    fn of_last_writes_replicas_that_took_different_ones_before_are_equal_after_the_last(
        replicas in prop::collection::vec(0..REPLICAS, 1..20),
        last in 0..REPLICAS,
    ) {
        let mut world = World::new(WritePolicy::LastWriteWins);
        for (count, replica) in replicas.iter().enumerate() {
            world.write(*replica, Default::default(), count as u64 + 1);
        }
        world.objects[last] = Object::default();
        world.write(last, Default::default(), replicas.len() as u64 + 1);
        for to in 0..REPLICAS {
            world.step(&Step::Merge { from: last, to });
        }
        let digests: Vec<_> = world.objects.iter().map(Object::digest).collect();
        prop_assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
    }

    #[test]
    fn of_blind_writes_with_rising_times_every_order_of_merges_keeps_the_last(
        replicas in prop::collection::vec(0..REPLICAS, 1..20),
        merges in prop::collection::vec((0..REPLICAS, 0..REPLICAS, 0..20usize), 0..20),
    ) {
        let mut world = World::new(WritePolicy::LastWriteWins);
        for (count, replica) in replicas.iter().enumerate() {
            world.write(*replica, Default::default(), count as u64 + 1);
            for (from, to, _) in merges.iter().filter(|(_, _, when)| *when == count) {
                world.step(&Step::Merge { from: *from, to: *to });
            }
        }
        let merge = |all: Object, object: &Object| all.merge_last_write_wins(object);
        let all = world.objects.iter().fold(Object::default(), merge);
        prop_assert_eq!(all.siblings.len(), 1);
        prop_assert_eq!(all.last_modified_us(), replicas.len() as u64);
        let last = *replicas.last().expect("a write");
        prop_assert_eq!(&all.siblings[0], &world.objects[last].siblings[0]);
    }

    #[test]
    fn digests_are_equal_exactly_where_causal_states_are(steps in any_steps()) {
        let world = World::run(WritePolicy::Siblings, &steps);
        let states: Vec<_> = world.past.iter()
            .map(|(object, history)| (object.digest(), (history.seen(), history.siblings())))
            .collect();
        for (digest, state) in &states {
            for (other_digest, other_state) in &states {
                prop_assert_eq!(digest == other_digest, state == other_state);
            }
        }
    }

    #[test]
    fn without_siblings_replicas_converge_on_one_value(
        steps in any_steps(),
        lww: bool,
        order in Just((0..REPLICAS).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let policy = if lww { WritePolicy::LastWriteWins } else { WritePolicy::LatestModified };
        let world = World::run(policy, &steps);
        let merge = |all: Object, replica: &usize| world.merged(&all, &world.objects[*replica]);
        let mut one = (0..REPLICAS).collect::<Vec<_>>().iter().fold(Object::default(), merge);
        let mut other = order.iter().fold(Object::default(), merge);
        prop_assert_eq!(one.digest(), other.digest());
        one.resolve_latest();
        other.resolve_latest();
        let written = world.past.iter().any(|(_, history)| !history.writes.is_empty());
        prop_assert_eq!(one.siblings.len(), usize::from(written));
        prop_assert_eq!(one.siblings, other.siblings);
    }

    #[test]
    fn the_value_seen_is_the_latest_of_the_new_one_and_those_unknown_to_its_writer(
        steps in any_steps(),
    ) {
        let mut world = World::new(WritePolicy::LatestModified);
        for step in steps {
            let before = world.objects.clone();
            let (replica, context, new_us) = match &step {
                Step::Update { replica, modified_us } => {
                    (*replica, world.objects[*replica].clock.clone(), *modified_us)
                }
                Step::Write { replica, context: None, modified_us } => {
                    (*replica, VersionVector::default(), *modified_us)
                }
                _ => {
                    world.step(&step);
                    continue;
                }
            };
            world.step(&step);
            let unknown = before[replica].siblings.iter();
            let unknown = unknown.filter(|old| !context.contains(old.dot.as_ref().expect("dot")));
            let latest_us = unknown.map(|old| old.last_modified_us).max();
            let mut seen = world.objects[replica].clone();
            seen.resolve_latest();
            prop_assert_eq!(seen.siblings[0].last_modified_us, latest_us.unwrap_or(0).max(new_us));
        }
    }
}

/// a beats c by its time, c beats b by its time, and b's writer knew a. If replicas stored what
/// they chose, each would have dropped the value that the other one kept.
#[test]
fn choices_by_time_against_causality_lose_nothing() {
    let write = |context: &[Dot], value, time_us, name: &[u8]| {
        let (context, new) = (vector(context), new_value(value, time_us));
        Object::write(None, &context, new, dot(name, 1), WritePolicy::LatestModified)
    };
    let (a, c) = (write(&[], "a", 3, b"p"), write(&[], "c", 2, b"r"));
    let b = write(&[dot(b"p", 1)], "b", 1, b"q");
    let mut merged = a.merge(&c).merge(&b.merge(&c));
    merged.resolve_latest();
    assert_eq!(values(&merged), ["c"]);
}

fn new_value(value: &'static str, last_modified_us: u64) -> NewValue {
    NewValue { value: value.into(), last_modified_us, ..NewValue::default() }
}

fn values(object: &Object) -> Vec<&str> {
    let text = |sibling| std::str::from_utf8(sibling).expect("test values are text");
    object.siblings.iter().map(|sibling| text(&sibling.value)).collect()
}

fn vector(dots: &[Dot]) -> VersionVector {
    VersionVector::from_entries(dots.iter().cloned())
}

/// Applies writes of (context, value, time) at one replica, with counters 1, 2, 3, and so on.
fn check(policy: WritePolicy, writes: &[(&[Dot], &'static str, u64)], expected: &[&str]) {
    let mut stored = None;
    for (counter, (context, value, last_modified_us)) in (1..).zip(writes) {
        let new = new_value(value, *last_modified_us);
        let event = dot(b"p", counter);
        stored = Some(Object::write(stored.as_ref(), &vector(context), new, event, policy));
    }
    let mut object = stored.expect("at least one write");
    if policy == WritePolicy::LatestModified {
        object.resolve_latest();
    }
    assert_eq!(values(&object), expected);
    assert_eq!(object.clock.counter(&dot(b"p", 1).actor), writes.len() as u64);
}

#[test]
fn a_context_replaces_what_it_covers_and_nothing_else() {
    let p = |counter| dot(b"p", counter);
    let siblings = WritePolicy::Siblings;
    check(siblings, &[(&[], "a", 1), (&[], "b", 2)], &["a", "b"]);
    check(siblings, &[(&[], "a", 1), (&[p(1)], "b", 2)], &["b"]);
    check(siblings, &[(&[], "a", 1), (&[], "b", 2), (&[p(1)], "c", 3)], &["b", "c"]);
    check(siblings, &[(&[], "a", 1), (&[], "b", 2), (&[p(2)], "c", 3)], &["c"]);
    check(siblings, &[(&[], "a", 1), (&[dot(b"q", 9)], "b", 2)], &["a", "b"]);
    check(siblings, &[(&[], "a", 1), (&[dot(b"q", 9), p(1)], "b", 2)], &["b"]);
}

#[test]
fn without_siblings_the_later_of_concurrent_values_stays() {
    let p = |counter| dot(b"p", counter);
    let latest = WritePolicy::LatestModified;
    check(latest, &[(&[], "a", 1), (&[], "b", 2)], &["b"]);
    check(latest, &[(&[], "a", 2), (&[], "b", 1)], &["a"]);
    check(latest, &[(&[], "a", 2), (&[], "b", 2)], &["b"]);
    check(latest, &[(&[], "a", 2), (&[p(1)], "b", 1)], &["b"]);
}

#[test]
fn without_siblings_only_values_later_than_the_new_one_stay_beside_it() {
    let stored_count = |old_us, new_us| {
        let write = |stored, counter, time_us| {
            let (context, new) = (vector(&[]), new_value("v", time_us));
            Object::write(stored, &context, new, dot(b"p", counter), WritePolicy::LatestModified)
        };
        write(Some(&write(None, 1, old_us)), 2, new_us).siblings.len()
    };
    assert_eq!([stored_count(1, 2), stored_count(2, 2), stored_count(2, 1)], [1, 1, 2]);
}

#[test]
fn the_last_write_wins_whatever_its_time_and_context() {
    let lww = WritePolicy::LastWriteWins;
    check(lww, &[(&[], "a", 2), (&[], "b", 1)], &["b"]);
    check(lww, &[(&[], "a", 1), (&[dot(b"q", 1)], "b", 2)], &["b"]);
}

#[test]
fn write_once_does_not_look_at_contexts() {
    check(WritePolicy::WriteOnce, &[(&[], "a", 1), (&[dot(b"p", 1)], "b", 2)], &["a", "b"]);
}

#[test]
fn a_write_once_value_replaces_nothing_that_has_no_clock() {
    let write = |stored, value, name: &[u8]| {
        let (context, new) = (vector(&[]), new_value(value, 1));
        Object::write(stored, &context, new, dot(name, 1), WritePolicy::WriteOnce)
    };
    let mut stored = write(None, "a", b"p");
    stored.clock = VersionVector::default();
    let written = write(Some(&stored), "b", b"q");
    assert_eq!(written.siblings.len(), 2);
}

#[test]
fn a_write_once_value_replaces_nothing_on_a_replica_that_its_writer_had_read() {
    let write = |context: &[Dot], value, name: &[u8]| {
        let new = new_value(value, 1);
        Object::write(None, &vector(context), new, dot(name, 1), WritePolicy::WriteOnce)
    };
    let (first, second) = (write(&[], "a", b"p"), write(&[dot(b"p", 1)], "b", b"q"));
    assert_eq!(values(&first.merge(&second)), ["a", "b"]);
}

fn undotted(value: &'static str, clock: &[Dot]) -> Object {
    Object::given(vector(clock), new_value(value, 1))
}

#[test]
fn values_without_dots_follow_their_whole_clocks() {
    let (old, newer) = (undotted("old", &[dot(b"p", 1)]), undotted("newer", &[dot(b"p", 2)]));
    let concurrent = undotted("concurrent", &[dot(b"q", 1)]);
    assert_eq!(values(&old.merge(&newer)), ["newer"]);
    assert_eq!(values(&newer.merge(&old)), ["newer"]);
    assert_eq!(values(&newer.merge(&concurrent)), ["newer", "concurrent"]);
    assert_eq!(old.merge(&old), old);
    let equal_clock = undotted("other", &[dot(b"p", 1)]);
    assert_eq!(values(&old.merge(&equal_clock)), ["old", "other"]);
}

#[test]
fn a_write_replaces_values_without_dots_when_it_knew_the_whole_clock() {
    let stored = undotted("old", &[dot(b"p", 1), dot(b"q", 1)]);
    let write = |context: &[Dot]| {
        let new = new_value("new", 2);
        let policy = WritePolicy::Siblings;
        Object::write(Some(&stored), &vector(context), new, dot(b"own", 1), policy)
    };
    assert_eq!(values(&write(&[dot(b"p", 1), dot(b"q", 1)])), ["new"]);
    let concurrent = write(&[dot(b"p", 1)]);
    assert_eq!(values(&concurrent), ["old", "new"]);
    assert_eq!(concurrent.merge(&stored), concurrent);
    assert_eq!(stored.merge(&concurrent).digest(), concurrent.digest());
}

#[test]
fn a_put_as_is_adds_no_event_and_yields_to_a_later_object() {
    let stored = undotted("stored", &[dot(b"p", 2)]);
    let given = |clock: &[Dot], time_us| Object::given(vector(clock), new_value("given", time_us));
    assert_eq!(stored.merge(&given(&[dot(b"p", 1)], 9)), stored);
    let later = stored.merge(&given(&[dot(b"p", 3)], 9));
    assert_eq!((values(&later), later.clock.entries().len()), (vec!["given"], 1));
    assert_eq!(values(&stored.merge(&given(&[dot(b"q", 1)], 9))), ["stored", "given"]);
    let last = |given: Object| stored.merge_last_write_wins(&given);
    assert_eq!(values(&last(given(&[dot(b"p", 1)], 9))), ["given"]);
    assert_eq!(last(given(&[dot(b"p", 3)], 0)).siblings, stored.siblings);
}

#[test]
fn a_given_value_that_expires_counts_as_one_that_replaced_others() {
    for expires_at_secs in [None, Some(7)] {
        let meta = Metadata { expires_at_secs, ..Metadata::default() };
        let new = NewValue { meta, ..NewValue::default() };
        let given = Object::given(vector(&[dot(b"p", 1)]), new);
        assert_eq!(given.siblings[0].meta.replaces, expires_at_secs.is_some());
    }
}

#[test]
fn a_write_may_replace_what_is_stored_and_what_its_writer_has_read() {
    let (nothing, read) = (VersionVector::default(), vector(&[dot(b"p", 1)]));
    for policy in [WritePolicy::Siblings, WritePolicy::LatestModified] {
        assert!(!policy.may_replace(false, &nothing));
        assert!(policy.may_replace(false, &read), "{policy:?}: another replica may have it");
        assert!(policy.may_replace(true, &nothing), "{policy:?}: other replicas may have less");
    }
}

#[test]
fn no_object_supersedes_its_own_clock_or_an_empty_one() {
    let clock = vector(&[dot(b"p", 1)]);
    let new = NewValue { value: Bytes::from_static(b"given"), ..NewValue::default() };
    let given = Object::given(clock.clone(), new.clone());
    let without_values = Object { clock: clock.clone(), ..Object::default() };
    assert_ne!(without_values.merge(&given), without_values, "the value has no event");
    assert!(!without_values.supersedes(&clock));
    let nothing = VersionVector::default();
    let written = Object::write(None, &nothing, new, dot(b"p", 2), WritePolicy::Siblings);
    assert!(written.supersedes(&clock));
    assert!(!written.supersedes(&nothing), "an empty clock says nothing");
}

#[test]
fn of_equal_times_a_live_value_beats_a_tombstone() {
    let tombstone = Sibling {
        dot: Some(dot(b"q", 1)),
        deleted: true,
        last_modified_us: 5,
        ..Sibling::default()
    };
    let live = Sibling { dot: Some(dot(b"p", 1)), deleted: false, ..tombstone.clone() };
    for siblings in [[live.clone(), tombstone.clone()], [tombstone, live]] {
        let clock = vector(&[dot(b"p", 1), dot(b"q", 1)]);
        let mut object = Object { clock, siblings: siblings.into_iter().collect() };
        object.resolve_latest();
        assert!(!object.is_tombstone());
        assert_eq!(object.siblings.len(), 1);
    }
}

#[test]
fn an_actor_whose_events_are_made_at_two_copies_loses_a_value() {
    let written = |counter: u64| {
        let new = NewValue { value: counter.to_string().into(), ..NewValue::default() };
        let nothing = VersionVector::default();
        Object::write(None, &nothing, new, dot(b"f", counter), WritePolicy::Siblings)
    };
    // Neither writer knew of the other, so both values should stay.
    let merged = written(1).merge(&written(2));
    let values: Vec<&[u8]> = merged.siblings.iter().map(|sibling| &sibling.value[..]).collect();
    assert_eq!(values, [b"2"], "the clock of the second copy claims the event of the first");
}
