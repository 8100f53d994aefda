//! The causal clock of a data type: the events that its state has seen.

use super::{EventSet, Run};
use crate::clock::{Actor, Dot, VersionVector};
use quoit_planted::planted;
use smallvec::SmallVec;

/// A set of events: a version vector and a dot cloud. The cloud holds events beyond a gap, which
/// arise when deltas are lost or reordered.
///
/// Invariant: no run of an actor in the cloud begins right after the actor's entry of the vector.
/// When a gap closes, the run moves to the vector, so that equal sets compare equal. Events in the
/// cloud have no times: when a run moves to the vector, the entry keeps the time that it had.
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
    /// Makes a clock from a vector and a cloud, which may overlap.
    #[must_use]
    pub fn new(vector: VersionVector, cloud: EventSet) -> Self {
        let mut clock = Self { vector, cloud };
        clock.settle();
        clock.assert_invariants();
        clock
    }

    /// In debug builds, asserts that no run of the cloud begins right after the vector's entry, or
    /// before its end.
    fn assert_invariants(&self) {
        debug_assert!(
            self.cloud.iter().all(|(actor, runs)| {
                let known = self.vector.counter(actor);
                runs.first().is_some_and(|run| run.first - 1 > known)
            }),
            "a gap is between the vector and each run of the cloud: {self:?}"
        );
    }

    /// The version vector: for each actor, the counter up to which all events are known.
    #[must_use]
    pub fn vector(&self) -> &VersionVector {
        &self.vector
    }

    /// The dot cloud: events beyond gaps.
    #[must_use]
    pub fn cloud(&self) -> &EventSet {
        &self.cloud
    }

    /// True if no event is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.vector.is_empty() && self.cloud.is_empty()
    }

    /// True if the event is known.
    #[must_use]
    pub fn contains(&self, dot: &Dot) -> bool {
        self.vector.contains(dot) || (!self.cloud.is_empty() && self.cloud.contains(dot))
    }

    /// True if every event of `other` is known.
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

    /// True if all events of a run are known.
    #[must_use]
    pub fn has_run(&self, actor: &Actor, run: Run) -> bool {
        // A run can't be known partly by the vector and partly by the cloud, since there is a gap
        // between them.
        self.vector.counter(actor) >= run.last || self.cloud.has_run(actor, run)
    }

    /// True if every event of a set is known.
    #[must_use]
    pub fn has_all(&self, events: &EventSet) -> bool {
        let has_all =
            |(actor, runs): (&Actor, &[Run])| runs.iter().all(|run| self.has_run(actor, *run));
        events.iter().all(has_all)
    }

    /// The counter of the next event of an actor whose counters have no gaps; `None` if the last
    /// event has the highest possible counter.
    #[must_use]
    pub fn next_counter(&self, actor: &Actor) -> Option<u64> {
        self.last(actor).checked_add(1)
    }

    /// The counter of the last known event of an actor; 0 if there is none.
    #[must_use]
    pub fn last(&self, actor: &Actor) -> u64 {
        self.vector.counter(actor).max(self.cloud.last(actor))
    }

    /// Adds one event.
    pub fn add(&mut self, dot: &Dot) {
        self.add_run(&dot.actor, Run::one(dot.counter), dot.time_secs);
    }

    /// Adds events of one actor. `time_secs` is the time of the last one.
    ///
    /// # Panics
    ///
    /// Panics if the run begins at 0 or ends before it begins.
    pub fn add_run(&mut self, actor: &Actor, run: Run, time_secs: u64) {
        assert!(0 < run.first && run.first <= run.last, "{run:?} is no run of events");
        if run.first - 1 > self.vector.counter(actor) && !planted!(ClosesGaps) {
            self.cloud.insert(actor, run);
            self.assert_invariants();
            return;
        }
        self.vector.advance(&Dot { actor: actor.clone(), counter: run.last, time_secs });
        self.close_gaps(actor);
        self.assert_invariants();
        debug_assert!(self.has_run(actor, run), "an added run is known");
    }

    /// Adds every event of `other`. Where both vectors have an actor with the same counter, the
    /// later time stays.
    pub fn merge(&mut self, other: &Self) {
        self.vector.merge(&other.vector);
        if !other.cloud.is_empty() {
            self.cloud.merge(&other.cloud);
        }
        self.settle();
        self.assert_invariants();
        debug_assert!(self.covers(other), "a merged clock has every event of both");
    }

    /// The events of this clock that `other` does not have.
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

    /// Moves the runs of an actor that the vector reaches from the cloud to the vector.
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
