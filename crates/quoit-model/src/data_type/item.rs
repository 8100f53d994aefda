//! Items: the smallest parts of a state, and the rules of concurrency.
//!
//! Elements of sets, flags, registers, counters and the presence of fields are items. They differ
//! in the payload of a write, and in how a reader combines several writes. Two rules hold for all
//! items: a write counts until an event that has seen it undoes it, and an undone write does not
//! come back. Other modules need no rules about concurrent events.

use super::{CausalClock, EventSet};
use crate::clock::Dot;
use quoit_planted::planted;
use smallvec::SmallVec;

/// A write of an event to an item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Write<P> {
    /// The event that made the write.
    pub(super) dot: Dot,
    /// Payload of the write.
    pub(super) payload: P,
}

/// An item: the writes to it that count. (A dot store, `DotFun`, in the terms of Almeida, Shoker
/// and Baquero, "Delta State Replicated Data Types", 2018.)
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Item<P> {
    /// Writes that count, sorted by actor and counter.
    live: SmallVec<[Write<P>; 1]>,
    /// Deferred events: their writes to this item are undone, but the state has not seen them yet.
    /// Boxed, since few items have some; the set is never empty.
    deferred: Option<Box<EventSet>>,
}

/// Change of an item by one operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ItemChange<P> {
    /// The write, if the operation makes one.
    pub(super) write: Option<Write<P>>,
    /// The events whose writes to the item the operation undoes.
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
    /// True if the change has no effect.
    pub(super) fn is_none(&self) -> bool {
        self.write.is_none() && self.undone.is_empty()
    }
}

impl<P> Item<P> {
    /// Makes an item from its stored parts; `live` is sorted by actor and counter.
    pub(super) fn from_parts(live: SmallVec<[Write<P>; 1]>, deferred: EventSet) -> Self {
        debug_assert!(live.is_sorted_by(|a, b| order(&a.dot) < order(&b.dot)), "unsorted writes");
        Self { live, deferred: (!deferred.is_empty()).then(|| Box::new(deferred)) }
    }

    /// The writes that count, sorted by actor and counter.
    pub(super) fn live(&self) -> &[Write<P>] {
        &self.live
    }

    /// The newest write of each actor. A write to a counter holds the sum of what its actor has
    /// counted, older writes included. An older write of the same actor that still counts will be
    /// undone by an event that has not arrived yet.
    pub(super) fn newest(&self) -> impl Iterator<Item = &Write<P>> {
        let later = self.live.iter().skip(1).map(Some).chain([None]);
        let with_later = self.live.iter().zip(later);
        with_later
            .filter(|(write, later)| later.is_none_or(|later| later.dot.actor != write.dot.actor))
            .map(|(write, _)| write)
    }

    /// The deferred events, if there are any.
    pub(super) fn deferred(&self) -> Option<&EventSet> {
        self.deferred.as_deref()
    }

    /// True if any write counts.
    pub(super) fn is_live(&self) -> bool {
        !self.live.is_empty()
    }

    /// True if the item has neither writes that count nor deferred events, and can be dropped.
    pub(super) fn is_void(&self) -> bool {
        self.live.is_empty() && self.deferred.is_none()
    }

    /// Drops the writes of these events.
    pub(super) fn undo(&mut self, events: &EventSet) {
        self.live.retain(|write| !events.contains(&write.dot));
    }

    /// Drops deferred events that the clock has.
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
    /// Applies the change of an operation. `clock` holds the events that the state had seen before.
    /// Returns true if the item has deferred events afterwards.
    pub(super) fn join(&mut self, change: &ItemChange<P>, clock: &CausalClock) -> bool {
        if !change.undone.is_empty() {
            self.undo(&change.undone);
            let unseen_events = unseen_events(&change.undone, clock);
            if let Some(unseen_events) = unseen_events.filter(|_| !planted!(ForgetsDeferred)) {
                self.deferred.get_or_insert_default().merge(&unseen_events);
            }
        }
        if let Some(write) = &change.write
            && !clock.contains(&write.dot)
            && !self.is_deferred(&write.dot)
        {
            self.insert(write.clone());
        }
        self.assert_deferred();
        self.deferred.is_some()
    }

    /// Merges the same item of two states with these clocks. A write stays if both have it, or if
    /// the state without it has not seen its event.
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
        self.assert_deferred();
    }

    /// In debug builds, asserts that no event both counts and is deferred.
    fn assert_deferred(&self) {
        debug_assert!(
            self.deferred().is_none_or(|deferred| !deferred.is_empty()),
            "an item without deferred events has no set of them"
        );
        debug_assert!(
            self.deferred.is_none() || !self.live.iter().any(|write| self.is_deferred(&write.dot)),
            "the writes of deferred events do not count"
        );
    }

    fn insert(&mut self, write: Write<P>) {
        let place = self.live.partition_point(|own| order(&own.dot) < order(&write.dot));
        if self.live.get(place).is_none_or(|own| own.dot != write.dot) {
            self.live.insert(place, write);
            debug_assert!(
                self.live
                    .iter()
                    .skip(place.saturating_sub(1))
                    .take(3)
                    .is_sorted_by(|a, b| order(&a.dot) < order(&b.dot)),
                "writes are sorted, and each event has one"
            );
        }
    }
}

/// The events of `undone` that the clock does not have; `None` if it has them all.
pub(super) fn unseen_events(undone: &EventSet, clock: &CausalClock) -> Option<EventSet> {
    (!clock.has_all(undone)).then(|| {
        let mut unseen_events = undone.clone();
        unseen_events.subtract(clock);
        unseen_events
    })
}

/// The order of writes in an item.
pub(super) fn order(dot: &Dot) -> impl Ord {
    (&dot.actor, dot.counter)
}
