//! The clock of a data type: which events its state has seen.

use super::{EventSet, Run};
use crate::clock::{Actor, Dot, VersionVector};
use quoit_planted::planted;
use smallvec::SmallVec;

/// A set of events: a version vector, and the dot cloud: events beyond a gap, because deltas came out
/// of order or got lost on the way.
///
/// No actor's cloud begins where its entry of the vector ends: when a gap closes, what was behind it
/// moves to the vector. So equal sets compare equal. An event that was in the cloud does not bring its
/// time to the vector: the entry keeps the time that it had.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CausalClock {
    vector: VersionVector,
    cloud: EventSet,
}

impl From<VersionVector> for CausalClock {
    fn from(vector: VersionVector) -> Self {
        Self { vector, cloud: EventSet::default() }
    }
}

impl CausalClock {
    /// A clock of a vector and further events, which may overlap.
    #[must_use]
    pub fn new(vector: VersionVector, cloud: EventSet) -> Self {
        let mut clock = Self { vector, cloud };
        clock.settle();
        clock
    }

    /// The events without gaps: of each actor the counter up to which all are known.
    #[must_use]
    pub fn vector(&self) -> &VersionVector {
        &self.vector
    }

    /// The events beyond gaps.
    #[must_use]
    pub fn cloud(&self) -> &EventSet {
        &self.cloud
    }

    /// Whether no event is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.vector.is_empty() && self.cloud.is_empty()
    }

    /// Whether the event is known.
    #[must_use]
    pub fn contains(&self, dot: &Dot) -> bool {
        self.vector.contains(dot) || (!self.cloud.is_empty() && self.cloud.contains(dot))
    }

    /// Whether every event of `other` is known.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        if self.cloud.is_empty() && other.cloud.is_empty() {
            return self.vector.descends(&other.vector);
        }
        let entries = other.vector.entries().iter().filter(|entry| entry.counter > 0);
        let mut entries =
            entries.map(|entry| (&entry.actor, Run { first: 1, last: entry.counter }));
        entries.all(|(actor, run)| self.has_run(actor, run)) && self.has_all(&other.cloud)
    }

    /// Whether all events of a run are known.
    #[must_use]
    pub fn has_run(&self, actor: &Actor, run: Run) -> bool {
        // It can't be partly in the vector and partly in the cloud: there is a gap between.
        self.vector.counter(actor) >= run.last || self.cloud.has_run(actor, run)
    }

    /// Whether every event of a set is known.
    #[must_use]
    pub fn has_all(&self, events: &EventSet) -> bool {
        let has_all =
            |(actor, runs): (&Actor, &[Run])| runs.iter().all(|run| self.has_run(actor, *run));
        events.iter().all(has_all)
    }

    /// Counter of the next event of an actor that makes its events one after the other. `None` when
    /// there can be no more.
    #[must_use]
    pub fn next_counter(&self, actor: &Actor) -> Option<u64> {
        self.last(actor).checked_add(1)
    }

    /// Counter of an actor's last event; 0 when none is known.
    #[must_use]
    pub fn last(&self, actor: &Actor) -> u64 {
        self.vector.counter(actor).max(self.cloud.last(actor))
    }

    /// Adds one event.
    pub fn add(&mut self, dot: &Dot) {
        self.add_run(&dot.actor, Run::one(dot.counter), dot.time_secs);
    }

    /// Adds events of one actor. `time_secs` is the last one's.
    ///
    /// # Panics
    ///
    /// When the run begins at 0 or ends before it begins.
    pub fn add_run(&mut self, actor: &Actor, run: Run, time_secs: u64) {
        assert!(0 < run.first && run.first <= run.last, "{run:?} is no run of events");
        if run.first - 1 > self.vector.counter(actor) && !planted!(ClosesGaps) {
            self.cloud.insert(actor, run);
            return;
        }
        self.vector.advance(&Dot { actor: actor.clone(), counter: run.last, time_secs });
        self.close_gaps(actor);
    }

    /// Adds every event of `other`. Of an event that both have, the later time stays.
    pub fn merge(&mut self, other: &Self) {
        self.vector.merge(&other.vector);
        if !other.cloud.is_empty() {
            self.cloud.merge(&other.cloud);
        }
        self.settle();
    }

    /// The events of this clock that `other` has not.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> EventSet {
        let mut events = self.cloud.clone();
        for entry in self.vector.entries().iter().filter(|entry| entry.counter > 0) {
            events.insert(&entry.actor, Run { first: 1, last: entry.counter });
        }
        events.subtract(other);
        events
    }

    fn settle(&mut self) {
        if self.cloud.is_empty() {
            return;
        }
        let actors: SmallVec<[Actor; 4]> =
            self.cloud.iter().map(|(actor, _)| actor.clone()).collect();
        for actor in &actors {
            self.close_gaps(actor);
        }
    }

    /// Moves what the vector reaches from an actor's cloud to the vector.
    fn close_gaps(&mut self, actor: &Actor) {
        if self.cloud.is_empty() {
            return;
        }
        let entry = self.vector.entries().iter().find(|entry| entry.actor == *actor);
        let (mut counter, time_secs) =
            entry.map_or((0, 0), |entry| (entry.counter, entry.time_secs));
        let before = counter;
        while let Some(last) = self.cloud.take_from(actor, counter.saturating_add(1)) {
            counter = counter.max(last);
        }
        if counter > before {
            self.vector.advance(&Dot { actor: actor.clone(), counter, time_secs });
        }
    }
}

#[cfg(test)]
mod tests;
