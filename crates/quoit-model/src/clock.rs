//! Actors, dots and version vectors.
//!
//! An event is one update of a record by one actor; a dot names it. A version vector is a set of
//! events that contains, with an event, all earlier events of the same actor.

use smallvec::SmallVec;
use std::collections::HashMap;

/// Identity under which a store makes events: an opaque byte string. Quoit's own actors have 8
/// bytes; the actors of data types and those from Riak have other lengths.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Actor(pub SmallVec<[u8; 16]>);

impl Clone for Actor {
    /// Copies the bytes at once; the derived implementation would clone them one by one.
    #[inline]
    fn clone(&self) -> Self {
        Self(SmallVec::from_slice(&self.0))
    }
}

/// Name of one event: the `counter`-th event of `actor`. Equality ignores the time.
#[derive(Clone, Debug)]
pub struct Dot {
    /// Actor that made the event.
    pub actor: Actor,
    /// Number of the event, from 1.
    pub counter: u64,
    /// Time of the event in seconds since year 0, as Riak counts; 0 if unknown. Only pruning and
    /// display use it.
    pub time_secs: u64,
}

impl PartialEq for Dot {
    fn eq(&self, other: &Self) -> bool {
        self.counter == other.counter && self.actor == other.actor
    }
}

impl Eq for Dot {}

impl Dot {
    /// Takes over counter and time of `other`, an event of the same actor, if it is later.
    fn raise(&mut self, other: &Self) {
        if (other.counter, other.time_secs) > (self.counter, self.time_secs) {
            self.counter = other.counter;
            self.time_secs = other.time_secs;
        }
    }
}

/// A version vector: a set of events that has, for each actor, all events up to a counter.
///
/// Entries keep the order in which they arrived, because Riak's encodings depend on it. Equality
/// ignores the order and the times.
#[derive(Clone, Debug, Default)]
pub struct VersionVector {
    entries: SmallVec<[Dot; 2]>,
}

/// Number of entries up to which a linear search is faster than a hash table.
const SCAN_ENTRIES_MAX: usize = 32;

impl VersionVector {
    /// Makes a vector from entries in their order of arrival. If an actor has several entries, the highest
    /// counter is kept, at the position of the first one.
    #[must_use]
    pub fn from_entries(entries: impl IntoIterator<Item = Dot>) -> Self {
        let mut vector = Self::default();
        vector.absorb(entries.into_iter().collect::<Vec<_>>().iter());
        vector
    }

    /// Makes a vector from entries with distinct actors; returns `None` if two entries have the same actor.
    pub(crate) fn from_distinct(entries: SmallVec<[Dot; 2]>) -> Option<Self> {
        let distinct = if entries.len() <= SCAN_ENTRIES_MAX {
            let mut rest = entries.as_slice();
            let mut distinct = true;
            while let Some((first, behind)) = rest.split_first() {
                distinct &= behind.iter().all(|entry| entry.actor != first.actor);
                rest = behind;
            }
            distinct
        } else {
            let mut actors: Vec<&Actor> = entries.iter().map(|entry| &entry.actor).collect();
            actors.sort_unstable();
            actors.is_sorted_by(|one, next| one < next)
        };
        distinct.then_some(Self { entries })
    }

    /// Makes a vector from entries that are sorted by actor, with each actor once.
    pub(crate) fn from_sorted(entries: SmallVec<[Dot; 2]>) -> Self {
        debug_assert!(entries.is_sorted_by(|a, b| a.actor < b.actor), "unsorted: {entries:?}");
        Self { entries }
    }

    /// True if the set has no event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds one event and, with it, all earlier events of its actor.
    pub fn advance(&mut self, dot: &Dot) {
        match self.entries.iter_mut().find(|entry| entry.actor == dot.actor) {
            Some(entry) => entry.raise(dot),
            None => self.entries.push(dot.clone()),
        }
    }

    /// Drops the entries of the actors of `dots`, which must be sorted by actor.
    pub(crate) fn forget(&mut self, dots: &[Dot]) {
        debug_assert!(dots.is_sorted_by(|a, b| a.actor < b.actor), "unsorted: {dots:?}");
        let count_before = self.entries.len();
        let forgotten = |entry: &Dot| dots.binary_search_by(|dot| dot.actor.cmp(&entry.actor));
        self.entries.retain(|entry| forgotten(entry).is_err());
        debug_assert_eq!(
            count_before - self.entries.len(),
            dots.len(),
            "one entry is dropped for each actor"
        );
    }

    /// Adds every event of `other`. Where both vectors have an actor with the same counter, the
    /// later time stays.
    pub fn merge(&mut self, other: &Self) {
        self.absorb(other.entries.iter());
        debug_assert!(self.descends(other), "a merged vector has every event of both");
    }

    fn absorb<'a>(&mut self, dots: impl ExactSizeIterator<Item = &'a Dot>) {
        if self.entries.len().max(dots.len()) <= SCAN_ENTRIES_MAX {
            dots.for_each(|dot| self.advance(dot));
            return;
        }
        // A context may have thousands of entries, for which a linear search for each would be
        // slow.
        let indexed = self.entries.iter().enumerate();
        let mut places: HashMap<Actor, usize> =
            indexed.map(|(place, entry)| (entry.actor.clone(), place)).collect();
        for dot in dots {
            match places.get(&dot.actor).and_then(|place| self.entries.get_mut(*place)) {
                Some(entry) => entry.raise(dot),
                None => {
                    places.insert(dot.actor.clone(), self.entries.len());
                    self.entries.push(dot.clone());
                }
            }
        }
    }

    /// One entry for each actor, in order of arrival.
    #[must_use]
    pub fn entries(&self) -> &[Dot] {
        &self.entries
    }

    /// Highest counter of `actor`; 0 if the vector has no event of that actor.
    #[must_use]
    pub fn counter(&self, actor: &Actor) -> u64 {
        self.entries.iter().find(|entry| entry.actor == *actor).map_or(0, |entry| entry.counter)
    }

    /// True if the event is in the set.
    #[must_use]
    pub fn contains(&self, dot: &Dot) -> bool {
        self.counter(&dot.actor) >= dot.counter
    }

    /// True if every event of `other` is in the set.
    #[must_use]
    pub fn descends(&self, other: &Self) -> bool {
        if self.entries.len().min(other.entries.len()) <= SCAN_ENTRIES_MAX {
            return other.entries.iter().all(|entry| self.contains(entry));
        }
        let counters: HashMap<&Actor, u64> =
            self.entries.iter().map(|entry| (&entry.actor, entry.counter)).collect();
        let counter = |entry: &Dot| counters.get(&entry.actor).copied().unwrap_or(0);
        other.entries.iter().all(|entry| counter(entry) >= entry.counter)
    }
}

impl PartialEq for VersionVector {
    fn eq(&self, other: &Self) -> bool {
        self.descends(other) && other.descends(self)
    }
}

impl Eq for VersionVector {}
