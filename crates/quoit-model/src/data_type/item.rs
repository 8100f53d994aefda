//! The smallest part of a state: what events have written to one item.
//!
//! Every rule about concurrent events is here: that a write lives until an event that has seen it undoes
//! it, and that what was undone does not come back. Elements of sets, flags, registers and counters, and
//! the presence of a field are such items; they differ in what a write brings, and in what they read from
//! several.

use super::{CausalClock, EventSet};
use crate::clock::Dot;
use quoit_planted::planted;
use smallvec::SmallVec;

/// An event's write to an item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Write<P> {
    /// The event.
    pub(super) dot: Dot,
    /// Written payload.
    pub(super) payload: P,
}

/// The writes to an item that nothing has undone. (A dot store, `DotFun`, in the terms of Almeida,
/// Shoker and Baquero, "Delta State Replicated Data Types", 2018.)
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Item<P> {
    /// Sorted by actor and counter.
    live: SmallVec<[Write<P>; 1]>,
    /// Events whose write to this item is undone, but which are still to come; never none in a box, since
    /// hardly any item has some.
    deferred: Option<Box<EventSet>>,
}

/// Change that one operation makes to an item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ItemChange<P> {
    /// The write, if there is one.
    pub(super) write: Option<Write<P>>,
    /// The events whose writes to the item it undoes.
    pub(super) undone: EventSet,
}

impl<P> Default for Item<P> {
    fn default() -> Self {
        Self { live: SmallVec::new(), deferred: None }
    }
}

impl<P> Default for ItemChange<P> {
    fn default() -> Self {
        Self { write: None, undone: EventSet::default() }
    }
}

impl<P> ItemChange<P> {
    /// Whether it does nothing.
    pub(super) fn is_none(&self) -> bool {
        self.write.is_none() && self.undone.is_empty()
    }
}

impl<P> Item<P> {
    /// An item as it was stored: `live` sorted by actor and counter.
    pub(super) fn from_parts(live: SmallVec<[Write<P>; 1]>, deferred: EventSet) -> Self {
        debug_assert!(live.is_sorted_by(|a, b| order(&a.dot) < order(&b.dot)), "unsorted writes");
        Self { live, deferred: (!deferred.is_empty()).then(|| Box::new(deferred)) }
    }

    /// The writes that count, sorted by actor and counter.
    pub(super) fn live(&self) -> &[Write<P>] {
        &self.live
    }

    /// The newest write of each actor. The writes of a counter are sums: the newest of an actor has what its
    /// older ones have, and one that still counts beside it is undone by an event that has not come yet.
    pub(super) fn newest(&self) -> impl Iterator<Item = &Write<P>> {
        let later = self.live.iter().skip(1).map(Some).chain([None]);
        let with_later = self.live.iter().zip(later);
        with_later
            .filter(|(write, later)| later.is_none_or(|later| later.dot.actor != write.dot.actor))
            .map(|(write, _)| write)
    }

    /// Events whose writes are undone before they have come, should there be any.
    pub(super) fn deferred(&self) -> Option<&EventSet> {
        self.deferred.as_deref()
    }

    /// Whether any write counts.
    pub(super) fn is_live(&self) -> bool {
        !self.live.is_empty()
    }

    /// Whether there is nothing to keep.
    pub(super) fn is_void(&self) -> bool {
        self.live.is_empty() && self.deferred.is_none()
    }

    /// Undoes writes of events that the state has seen.
    pub(super) fn undo(&mut self, events: &EventSet) {
        self.live.retain(|write| !events.contains(&write.dot));
    }

    /// Forgets deferred events that the state has seen by now.
    pub(super) fn settle(&mut self, clock: &CausalClock) {
        self.deferred.take_if(|deferred| {
            deferred.subtract(clock);
            deferred.is_empty()
        });
    }

    fn is_deferred(&self, dot: &Dot) -> bool {
        self.deferred().is_some_and(|deferred| deferred.contains(dot))
    }

    fn has(&self, dot: &Dot) -> bool {
        self.live.iter().any(|write| write.dot == *dot)
    }
}

impl<P: Clone> Item<P> {
    /// Takes over an operation's change. `clock` is what the state had seen before. Whether events are
    /// deferred.
    pub(super) fn join(&mut self, change: &ItemChange<P>, clock: &CausalClock) -> bool {
        if !change.undone.is_empty() {
            self.undo(&change.undone);
            let to_come = to_come(&change.undone, clock);
            if let Some(to_come) = to_come.filter(|_| !planted!(ForgetsDeferred)) {
                self.deferred.get_or_insert_default().merge(&to_come);
            }
        }
        if let Some(write) = &change.write
            && !clock.contains(&write.dot)
            && !self.is_deferred(&write.dot)
        {
            self.insert(write.clone());
        }
        self.deferred.is_some()
    }

    /// Merges the same item of two states with these clocks: a write stays if both have it, or if the
    /// other has not seen its event.
    pub(super) fn merge(&mut self, clock: &CausalClock, other: &Self, other_clock: &CausalClock) {
        let is_undone = |dot: &Dot| other_clock.contains(dot) && !planted!(KeepsUndone);
        let stays = |dot: &Dot| !is_undone(dot) && !planted!(UndoesUnseen);
        self.live.retain(|write| other.has(&write.dot) || stays(&write.dot));
        for write in &other.live {
            if !clock.contains(&write.dot) {
                self.insert(write.clone());
            }
        }
        if let Some(theirs) = other.deferred() {
            self.deferred.get_or_insert_default().merge(theirs);
        }
        if let Some(deferred) = self.deferred.as_deref() {
            self.live.retain(|write| !deferred.contains(&write.dot));
            self.settle(clock);
            self.settle(other_clock);
        }
    }

    fn insert(&mut self, write: Write<P>) {
        let place = self.live.partition_point(|own| order(&own.dot) < order(&write.dot));
        if self.live.get(place).is_none_or(|own| own.dot != write.dot) {
            self.live.insert(place, write);
        }
    }
}

/// Those of the undone events that the clock has not, should there be any.
pub(super) fn to_come(undone: &EventSet, clock: &CausalClock) -> Option<EventSet> {
    (!clock.has_all(undone)).then(|| {
        let mut to_come = undone.clone();
        to_come.subtract(clock);
        to_come
    })
}

/// The order of writes in an item.
pub(super) fn order(dot: &Dot) -> impl Ord {
    (&dot.actor, dot.counter)
}
