//! Values that two events have written, because the put was forwarded twice.

use super::*;
use crate::test_objects::dot;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const REPLICAS: usize = 4;
const NAMES: [&[u8]; REPLICAS] = [b"p", b"q", b"r", b"s"];

#[derive(Clone, Debug)]
enum Step {
    /// A write that one or two replicas coordinate, with one of the contexts that were read so far.
    Write {
        replica: usize,
        second: Option<usize>,
        context: Option<prop::sample::Index>,
    },
    Read {
        replica: usize,
    },
    /// One replica merges the object of another.
    Merge {
        from: usize,
        to: usize,
    },
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let replica = 0..REPLICAS;
    let second = proptest::option::of(replica.clone());
    let context = proptest::option::weighted(0.7, any::<prop::sample::Index>());
    let step = prop_oneof![
        4 => (replica.clone(), second, context).prop_map(|(replica, second, context)| {
            Step::Write { replica, second: second.filter(|second| *second != replica), context }
        }),
        3 => replica.clone().prop_map(|replica| Step::Read { replica }),
        4 => (replica.clone(), replica).prop_map(|(from, to)| Step::Merge { from, to }),
    ];
    prop::collection::vec(step, 1..30)
}

/// Replicas of a record, with everything that was written and read.
#[derive(Default)]
struct World {
    objects: [Object; REPLICAS],
    counters: [u64; REPLICAS],
    contexts: Vec<VersionVector>,
    /// Events of each value.
    events: BTreeMap<Bytes, Vec<Dot>>,
    /// Contexts of all writes.
    replaced: Vec<VersionVector>,
}

impl World {
    fn run(steps: &[Step]) -> Self {
        let mut world = Self::default();
        for step in steps {
            match step {
                Step::Read { replica } => {
                    world.contexts.push(world.objects[*replica].clock.clone());
                }
                Step::Merge { from, to } => {
                    world.objects[*to] = world.objects[*to].merge(&world.objects[*from]);
                }
                Step::Write { replica, second, context } => {
                    let read = context.filter(|_| !world.contexts.is_empty());
                    let context = read.map(|at| at.get(&world.contexts).clone());
                    world.write(*replica, *second, context.unwrap_or_default());
                }
            }
        }
        world
    }

    fn write(&mut self, replica: usize, second: Option<usize>, context: VersionVector) {
        let vtag = Bytes::from(format!("tag {}", self.events.len()));
        for replica in [Some(replica), second].into_iter().flatten() {
            self.counters[replica] += 1;
            let dot = dot(NAMES[replica], self.counters[replica]);
            self.events.entry(vtag.clone()).or_default().push(dot.clone());
            let new = NewValue { vtag: vtag.clone(), ..NewValue::default() };
            let stored = Some(&self.objects[replica]);
            self.objects[replica] =
                Object::write(stored, &context, new, dot, WritePolicy::Siblings);
        }
        self.replaced.push(context);
    }

    /// The replicas after each has merged all others several times.
    fn converged(&self) -> Vec<Object> {
        let mut objects = self.objects.to_vec();
        for _ in 0..3 {
            for to in 0..REPLICAS {
                for from in 0..REPLICAS {
                    objects[to] = objects[to].merge(&objects[from]);
                }
            }
        }
        objects
    }
}

proptest! {
    #[test]
    fn merges_of_repeated_writes_are_commutative_and_idempotent(steps in any_steps()) {
        let objects = World::run(&steps).objects;
        for a in &objects {
            prop_assert_eq!(a.merge(a).digest(), a.digest());
            for b in &objects {
                let merged = a.merge(b);
                prop_assert_eq!(merged.digest(), b.merge(a).digest());
                prop_assert_eq!(merged.merge(b).digest(), merged.digest());
            }
        }
    }

    #[test]
    fn replicas_converge_on_each_value_once_and_lose_none(steps in any_steps()) {
        let world = World::run(&steps);
        let objects = world.converged();
        for object in &objects {
            prop_assert_eq!(object.digest(), objects[0].digest());
        }
        let tags: Vec<&Bytes> = objects[0].siblings.iter().map(|sibling| &sibling.vtag).collect();
        let there: BTreeSet<&Bytes> = tags.iter().copied().collect();
        prop_assert_eq!(tags.len(), there.len(), "a value stands there twice");
        let is_replaced = |dot: &Dot| world.replaced.iter().any(|context| context.contains(dot));
        for (tag, events) in &world.events {
            if !events.iter().any(is_replaced) {
                prop_assert!(there.contains(tag), "{tag:?} is lost");
            }
            if events.iter().all(is_replaced) {
                prop_assert!(!there.contains(tag), "{tag:?} was replaced");
            }
        }
    }
}

#[test]
fn a_coordinator_that_has_the_value_already_adds_no_second_one() {
    let new = || NewValue { value: "v".into(), vtag: "tag".into(), ..NewValue::default() };
    let write = |stored: Option<&Object>, event| {
        Object::write(stored, &VersionVector::default(), new(), event, WritePolicy::Siblings)
    };
    for (first, second) in [(b"a", b"b"), (b"b", b"a")] {
        let written = write(None, dot(first, 1));
        let again = write(Some(&written), dot(second, 1));
        let events: Vec<_> = again.siblings.iter().map(|sibling| sibling.dot.clone()).collect();
        assert_eq!(events, [Some(dot(b"a", 1))], "the lesser event stays");
        assert!(again.clock.contains(&dot(b"a", 1)) && again.clock.contains(&dot(b"b", 1)));
    }
}

#[test]
fn different_values_of_one_tag_stay_as_riak_has_them() {
    let write = |actor, value: &'static str| {
        let new = NewValue { value: value.into(), vtag: "tag".into(), ..NewValue::default() };
        Object::write(None, &VersionVector::default(), new, dot(actor, 1), WritePolicy::Siblings)
    };
    assert_eq!(write(b"a", "one").merge(&write(b"b", "other")).siblings.len(), 2);
    assert_eq!(write(b"a", "one").merge(&write(b"b", "one")).siblings.len(), 1);
}

#[test]
fn values_without_tags_are_values_of_their_own() {
    let write = |actor| {
        let new = NewValue { value: "v".into(), ..NewValue::default() };
        Object::write(None, &VersionVector::default(), new, dot(actor, 1), WritePolicy::Siblings)
    };
    assert_eq!(write(b"a").merge(&write(b"b")).siblings.len(), 2);
}
