//! Actors, dots and version vectors.

use smallvec::SmallVec;

/// Who makes events: an opaque byte string. Quoit's own actors have 8 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Actor(pub SmallVec<[u8; 16]>);

/// One event: the `counter`-th of `actor`. Compared by actor and counter alone.
#[derive(Clone, Debug)]
pub struct Dot {
    /// Who made the event.
    pub actor: Actor,
    /// The event's number, from 1.
    pub counter: u64,
    /// When, in seconds since year 0 as Riak counts them; only for pruning rules and display.
    pub time_secs: u64,
}

impl PartialEq for Dot {
    fn eq(&self, other: &Self) -> bool {
        self.counter == other.counter && self.actor == other.actor
    }
}

impl Eq for Dot {}

/// A set of events, downward closed for each actor: actor -> highest counter.
///
/// Entries keep the order in which they arrived (Riak's encodings depend on it); equality does not look
/// at order or times.
#[derive(Clone, Debug, Default)]
pub struct VersionVector {
    entries: SmallVec<[Dot; 2]>,
}

impl VersionVector {
    /// One entry an actor, in arrival order.
    #[must_use]
    pub fn entries(&self) -> &[Dot] {
        &self.entries
    }

    /// Highest counter of `actor`, 0 when it has none.
    #[must_use]
    pub fn counter(&self, actor: &Actor) -> u64 {
        self.entries.iter().find(|entry| entry.actor == *actor).map_or(0, |entry| entry.counter)
    }

    /// Whether the event is in the set.
    #[must_use]
    pub fn contains(&self, dot: &Dot) -> bool {
        self.counter(&dot.actor) >= dot.counter
    }

    /// Whether every event of `other` is in the set.
    #[must_use]
    pub fn descends(&self, other: &Self) -> bool {
        other.entries.iter().all(|entry| self.contains(entry))
    }
}

impl PartialEq for VersionVector {
    fn eq(&self, other: &Self) -> bool {
        self.descends(other) && other.descends(self)
    }
}

impl Eq for VersionVector {}
