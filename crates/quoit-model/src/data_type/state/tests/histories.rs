//! Random histories of several replicas, compared with the naive model.

use super::model::{Event, History, Seen, comparable, live_of, request, value};
use super::strategies::{Context, HistoryStep, REPLICAS, history_steps};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// The replicas, and the requests that each has seen.
struct World {
    datatype: Datatype,
    replicas: Vec<Replica>,
    seen: Vec<Seen>,
    history: History,
    deltas: Vec<(usize, Delta)>,
    reads: Vec<(CausalClock, BTreeSet<Event>)>,
    incarnation_count: u8,
}

impl World {
    fn new(datatype: Datatype) -> Self {
        let mut world = Self {
            datatype,
            replicas: Vec::new(),
            seen: vec![Seen::new(); REPLICAS],
            history: History::default(),
            deltas: Vec::new(),
            reads: vec![(CausalClock::default(), BTreeSet::new())],
            incarnation_count: 0,
        };
        world.replicas = (0..REPLICAS).map(|_| world.newcomer()).collect();
        world
    }

    fn newcomer(&mut self) -> Replica {
        self.incarnation_count += 1;
        Replica::new(&char::from(b'a' + self.incarnation_count).to_string(), self.datatype)
    }

    fn happen(&mut self, step: HistoryStep) -> Result<(), TestCaseError> {
        let replica = match step {
            HistoryStep::Operate { replica, operation, context, now_us } => {
                self.replicas[replica].now_us = now_us;
                self.operate(replica, &operation, &context)?;
                replica
            }
            HistoryStep::Join { replica, delta } => {
                if !self.deltas.is_empty() {
                    let (request, delta) = delta.get(&self.deltas);
                    self.replicas[replica].join(delta);
                    self.seen[replica].insert(*request);
                }
                replica
            }
            HistoryStep::Merge { replica, from } => {
                self.merge(replica, from);
                replica
            }
            HistoryStep::Delete { replica } => {
                // The counters of a store have gaps, as here.
                let counter = self.history.requests.len() as u64 * 10 + 1;
                self.replicas[replica].delete(counter);
                let event = (self.replicas[replica].plain(), counter);
                let request = self.history.delete(&self.seen[replica], event);
                self.seen[replica].insert(request);
                replica
            }
            HistoryStep::Forget { replica } => {
                self.replicas[replica] = self.newcomer();
                self.seen[replica].clear();
                replica
            }
            HistoryStep::Read { replica } => {
                let events = self.history.events(&self.seen[replica]);
                self.reads.push((self.replicas[replica].clock.clone(), events));
                replica
            }
        };
        self.check(replica)
    }

    fn operate(
        &mut self,
        replica: usize,
        operation: &Operation,
        context: &Context,
    ) -> Result<(), TestCaseError> {
        let seen = &self.seen[replica];
        let context = match context {
            Context::None => None,
            Context::Fresh => {
                Some((self.replicas[replica].clock.clone(), self.history.events(seen)))
            }
            Context::Read(index) => Some(index.get(&self.reads).clone()),
        };
        let Replica { actor, now_us, .. } = &self.replicas[replica];
        let events = context.as_ref().map(|(_, events)| events);
        let expected = request(&self.history, seen, operation, events, actor, *now_us);
        let before = self.replicas[replica].clone();
        let clock = context.as_ref().map(|(clock, _)| clock);
        let replica_state = &mut self.replicas[replica];
        match (replica_state.try_apply(operation, clock), expected) {
            (Ok(delta), Some(done)) => {
                let mut sent = Vec::new();
                delta.encode_into(&mut sent);
                prop_assert_eq!(Delta::decode(&sent.into()), Ok(delta.clone()));
                let (actor, run) = delta.events();
                let events = (run.first..=run.last).map(|counter| (actor.clone(), counter));
                prop_assert_eq!(events.collect::<BTreeSet<Event>>(), done.events.clone());
                self.history.requests.push(done);
                let request = self.history.requests.len() - 1;
                self.seen[replica].insert(request);
                self.deltas.push((request, delta));
            }
            (Err(ApplyError::NoSuchElement { .. } | ApplyError::NoSuchField { .. }), None) => {
                prop_assert_eq!(&replica_state.state, &before.state, "half an operation");
                prop_assert_eq!(&replica_state.clock, &before.clock);
            }
            (made, expected) => prop_assert!(false, "{made:?} instead of {expected:?}"),
        }
        Ok(())
    }

    fn merge(&mut self, replica: usize, from: usize) {
        let other = self.replicas[from].clone();
        self.replicas[replica].merge(&other);
        let seen = self.seen[from].clone();
        self.seen[replica].extend(seen);
    }

    fn check(&self, replica: usize) -> Result<(), TestCaseError> {
        let Replica { state, clock, .. } = &self.replicas[replica];
        let seen = &self.seen[replica];
        let live = self.history.live(seen);
        prop_assert_eq!(state.value(), value(&live, self.datatype));
        prop_assert_eq!(state.is_live(), !live.is_empty());
        let mut stored = Vec::new();
        state.encode_into(&mut stored);
        prop_assert_eq!(&State::decode(&stored.into()).unwrap(), state);
        prop_assert_eq!(live_of(state), comparable(live.clone()));
        let events = self.history.events(seen);
        for (actor, counter) in &events {
            let dot = Dot { actor: actor.clone(), counter: *counter, time_secs: 0 };
            prop_assert!(clock.contains(&dot), "{dot:?} was forgotten");
        }
        for (other, other_seen) in self.replicas.iter().zip(&self.seen) {
            if seen == other_seen {
                prop_assert_eq!(state, &other.state, "same events, different states");
                prop_assert_eq!(clock, &other.clock);
            }
            let same_live = live_of(state) == live_of(&other.state);
            prop_assert_eq!(state.digest() == other.state.digest(), same_live);
        }
        Ok(())
    }

    /// Every replica sees everything that any replica has seen and any delta says, in another order
    /// and partly twice.
    fn come_to_rest(&mut self) -> Result<(), TestCaseError> {
        let mut newcomer = self.newcomer();
        let mut seen = Seen::new();
        for (request, delta) in self.deltas.iter().rev() {
            newcomer.join(delta);
            seen.insert(*request);
        }
        for replica in 0..REPLICAS {
            newcomer.merge(&self.replicas[replica]);
            seen.extend(&self.seen[replica]);
        }
        for replica in 0..REPLICAS {
            for (_, delta) in &self.deltas {
                self.replicas[replica].join(delta);
            }
            self.replicas[replica].merge(&newcomer);
            self.replicas[replica].merge(&newcomer);
            self.seen[replica].clone_from(&seen);
        }
        (0..REPLICAS).try_for_each(|replica| self.check(replica))
    }
}

fn run(datatype: Datatype, history_steps: Vec<HistoryStep>) -> Result<(), TestCaseError> {
    let mut world = World::new(datatype);
    history_steps.into_iter().try_for_each(|step| world.happen(step))?;
    world.come_to_rest()
}

proptest! {
    #[test]
    fn counters_are_what_the_model_says(history_steps in history_steps(Datatype::Counter)) {
        run(Datatype::Counter, history_steps)?;
    }

    #[test]
    fn sets_are_what_the_model_says(history_steps in history_steps(Datatype::Set)) {
        run(Datatype::Set, history_steps)?;
    }

    #[test]
    fn grow_only_sets_are_what_the_model_says(history_steps in history_steps(Datatype::Gset)) {
        run(Datatype::Gset, history_steps)?;
    }

    #[test]
    fn maps_are_what_the_model_says(history_steps in history_steps(Datatype::Map)) {
        run(Datatype::Map, history_steps)?;
    }

    #[test]
    fn hyperloglogs_are_what_the_model_says(history_steps in history_steps(Datatype::Hll)) {
        run(Datatype::Hll, history_steps)?;
    }
}
