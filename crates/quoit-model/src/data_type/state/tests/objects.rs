//! Random histories of whole objects: operations on the data type, plain values and deletes.

use super::model::{Event, History, Seen, apart, comparable, live_of, request};
use super::strategies::{REPLICAS, operation};
use super::*;
use crate::merge::{NewValue, WritePolicy};
use crate::object::Object;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
enum ObjectHistoryStep {
    /// An operation by a client that had read nothing, or any object of the history.
    Operate { replica: usize, operation: Operation, read: Option<prop::sample::Index> },
    /// A plain value or a delete by a client that had read nothing, or any object of the history.
    Write { replica: usize, deleted: bool, read: Option<prop::sample::Index> },
    /// A replica receives the object that any replica has or had.
    Merge { replica: usize, from: prop::sample::Index },
}

fn history_steps(datatype: Datatype) -> impl Strategy<Value = Vec<ObjectHistoryStep>> {
    let replica = || 0..REPLICAS;
    let read = || prop::option::of(any::<prop::sample::Index>());
    let step = prop_oneof![
        5 => (replica(), operation(datatype), read()).prop_map(
            |(replica, operation, read)| ObjectHistoryStep::Operate { replica, operation, read }
        ),
        2 => (replica(), any::<bool>(), read())
            .prop_map(|(replica, deleted, read)| ObjectHistoryStep::Write { replica, deleted, read }),
        5 => (replica(), any::<prop::sample::Index>())
            .prop_map(|(replica, from)| ObjectHistoryStep::Merge { replica, from }),
    ];
    vec(step, 0..30)
}

struct World {
    datatype: Datatype,
    /// If true, plain writes may know more than their replica; otherwise removes may. The two are
    /// not combined: a plain write over deferred removes that it knows of without having seen them
    /// here makes the replica forget them.
    writes_ahead: bool,
    objects: Vec<(Object, Seen)>,
    history: History,
    /// Every object of the history, with the requests that it had seen.
    once: Vec<(Object, Seen)>,
}

impl World {
    fn new(datatype: Datatype, writes_ahead: bool) -> Self {
        let nothing = (Object::default(), Seen::new());
        let objects = vec![nothing.clone(); REPLICAS];
        Self { datatype, writes_ahead, objects, history: History::default(), once: vec![nothing] }
    }

    fn happen(&mut self, step: ObjectHistoryStep) -> Result<(), TestCaseError> {
        let replica = match step {
            ObjectHistoryStep::Operate { replica, operation, read } => {
                self.operate(replica, &operation, read);
                replica
            }
            ObjectHistoryStep::Write { replica, deleted, read } => {
                self.write(replica, deleted, read);
                replica
            }
            ObjectHistoryStep::Merge { replica, from } => {
                let (object, seen) = from.get(&self.once).clone();
                self.objects[replica].0 = self.objects[replica].0.merge(&object);
                self.objects[replica].1.extend(seen);
                replica
            }
        };
        self.once.push(self.objects[replica].clone());
        self.check(replica)
    }

    /// An object that a client had read, and the requests that it had seen.
    fn read(
        &self,
        replica: usize,
        read: prop::sample::Index,
        may_be_ahead: bool,
    ) -> (Object, Seen) {
        let (object, seen) = read.get(&self.once);
        let is_ahead = !seen.is_subset(&self.objects[replica].1);
        match is_ahead && !may_be_ahead {
            true => self.objects[replica].clone(),
            false => (object.clone(), seen.clone()),
        }
    }

    fn operate(
        &mut self,
        replica: usize,
        operation: &Operation,
        read: Option<prop::sample::Index>,
    ) {
        let (object, seen) = self.objects[replica].clone();
        let actor = actor(&[b'a' + replica as u8]);
        let read = read.map(|index| self.read(replica, index, !self.writes_ahead));
        let events = read.as_ref().map(|(_, seen)| self.history.events(seen));
        let clock = read.map(|(object, _)| CausalClock::from(object.clock));
        let now_us = self.history.requests.len() as u64;
        let done = request(&self.history, &seen, operation, events.as_ref(), &actor, now_us);
        let coordinator =
            EventOrigin { actor: &actor, time_secs: 0, now_us, hll_precision: PRECISION };
        let context = clock.as_ref();
        let updated = Object::update_data_type(Some(object), operation, context, coordinator, None);
        assert_eq!(updated.is_ok(), done.is_some(), "{updated:?}");
        if let (Some(done), Ok(object)) = (done, updated) {
            let request = self.history.operate(done, &seen);
            self.objects[replica].0 = object;
            self.objects[replica].1.insert(request);
        }
    }

    fn write(&mut self, replica: usize, deleted: bool, read: Option<prop::sample::Index>) {
        let read = read.map(|index| self.read(replica, index, self.writes_ahead));
        let (read, context) = read.unwrap_or_default();
        let counter = self.history.requests.len() as u64 * 10 + 1;
        let dot = Dot { actor: actor(&[b'A' + replica as u8]), counter, time_secs: 0 };
        let (object, seen) = &mut self.objects[replica];
        let new = NewValue { deleted, value: Bytes::from_static(b"plain"), ..NewValue::default() };
        let event = (dot.actor.clone(), counter);
        *object = Object::write(Some(object), &read.clock, new, dot, WritePolicy::Siblings);
        seen.extend(&context);
        seen.insert(self.history.write_plain(&context, event, deleted));
    }

    fn check(&self, replica: usize) -> Result<(), TestCaseError> {
        let (object, seen) = &self.objects[replica];
        let (live, beside) = apart(self.history.live(seen));
        let state = object.data_type().unwrap().unwrap_or_else(|| State::empty(self.datatype));
        prop_assert_eq!(live_of(&state), comparable(live.clone()));
        let plain = object.siblings.iter().filter(|sibling| !sibling.is_data_type());
        let events = plain.map(|sibling| {
            let dot = sibling.dot.as_ref().expect("written here");
            (sibling.deleted, (dot.actor.clone(), dot.counter))
        });
        prop_assert_eq!(events.collect::<BTreeSet<(bool, Event)>>(), beside.clone());
        let is_there = !live.is_empty() || beside.iter().any(|(deleted, _)| !deleted);
        prop_assert_eq!(object.is_tombstone(), !is_there);

        let mut stored = Vec::new();
        object.encode_into(&mut stored);
        prop_assert_eq!(&Object::decode(&stored.into()).unwrap(), object);
        for (other, other_seen) in &self.once {
            let same = self.history.events(seen) == self.history.events(other_seen);
            prop_assert_eq!(object.digest() == other.digest(), same);
        }
        Ok(())
    }
}

fn run(
    datatype: Datatype,
    writes_ahead: bool,
    history_steps: Vec<ObjectHistoryStep>,
) -> Result<(), TestCaseError> {
    let mut world = World::new(datatype, writes_ahead);
    history_steps.into_iter().try_for_each(|step| world.happen(step))?;
    let all = world.objects.clone();
    for replica in 0..REPLICAS {
        for (object, seen) in all.iter().rev() {
            world.objects[replica].0 = world.objects[replica].0.merge(object);
            world.objects[replica].1.extend(seen);
        }
        world.check(replica)?;
    }
    Ok(())
}

proptest! {
    #[test]
    fn objects_with_counters_are_what_the_model_says(
        history_steps in history_steps(Datatype::Counter),
        writes_ahead: bool,
    ) {
        run(Datatype::Counter, writes_ahead, history_steps)?;
    }

    #[test]
    fn objects_with_sets_are_what_the_model_says(
        history_steps in history_steps(Datatype::Set),
        writes_ahead: bool,
    ) {
        run(Datatype::Set, writes_ahead, history_steps)?;
    }

    #[test]
    fn objects_with_maps_are_what_the_model_says(
        history_steps in history_steps(Datatype::Map),
        writes_ahead: bool,
    ) {
        run(Datatype::Map, writes_ahead, history_steps)?;
    }
}
