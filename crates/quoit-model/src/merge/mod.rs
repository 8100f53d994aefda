//! Rules by which objects change: writes under each policy, and the merge of two replicas.
//!
//! The rules are those of dotted version vector sets (Preguiça, Baquero, Almeida and others,
//! "Dotted Version Vectors: Logical Clocks for Optimistic Replication", 2010; "Scalable and
//! Accurate Causality Tracking for Eventually Consistent Stores", 2014). Every value carries the
//! dot of the event that wrote it. A merge drops a value if the other object's clock covers its dot
//! and the other object does not have the value. Values without a dot, which come from Riak, are
//! compared by the clocks of the whole objects.

use crate::clock::{Actor, Dot, VersionVector};
use crate::object::{Metadata, Object, Sibling};
use bytes::Bytes;
use quoit_planted::planted;
use smallvec::SmallVec;
use std::cmp::Ordering;

/// Rule of a bucket for stored values that the writer had not seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WritePolicy {
    /// They stay as siblings of the new value (`allow_mult` = true).
    Siblings,
    /// They are dropped, unless they are later than the new value; clients see the latest (`allow_mult` =
    /// false).
    LatestModified,
    /// They are dropped, as are those that the writer had seen (`last_write_wins` = true).
    LastWriteWins,
    /// As [`WritePolicy::Siblings`], but the context of the writer is ignored (`write_once` =
    /// true).
    WriteOnce,
}

impl WritePolicy {
    /// True if a write may replace older values, on this replica or on others. A tombstone then has
    /// to stay when the new value expires. `has_stored` is true if a stored object was found.
    #[must_use]
    pub fn may_replace(self, has_stored: bool, context: &VersionVector) -> bool {
        match self {
            Self::Siblings | Self::LatestModified => has_stored || !context.is_empty(),
            // The context is ignored, and stored values stay beside the new one under one clock.
            Self::WriteOnce => has_stored,
            // The coordinator has possibly not read the stored object at all.
            Self::LastWriteWins => true,
        }
    }
}

/// A value that a client writes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NewValue {
    /// Metadata of the value.
    pub meta: Metadata,
    /// The bytes of the value; empty for a tombstone.
    pub value: Bytes,
    /// True if the write is a delete.
    pub deleted: bool,
    /// Time of the write in microseconds since 1970.
    pub last_modified_us: u64,
    /// Entity tag that clients see, without quotes.
    pub vtag: Bytes,
}

impl NewValue {
    fn into_sibling(self, dot: Option<Dot>) -> Sibling {
        let Self { meta, value, deleted, last_modified_us, vtag } = self;
        Sibling { dot, deleted, last_modified_us, vtag, meta, value }
    }
}

impl Object {
    /// Merges two replicas of a record: keeps each value that both have, and each value that one of
    /// them has and the other has not replaced. Siblings of `self` come first, each group in its
    /// order.
    ///
    /// A put that was forwarded twice may have written one value under two events; both copies have
    /// the same tag. The merge keeps the copy with the lesser event. The clock covers both events,
    /// so the other copy disappears from every replica. A later value that replaces the kept copy
    /// comes from a client that has seen it.
    ///
    /// By [`Object::digest`], the merge is commutative and idempotent. It is associative for objects whose
    /// siblings all have dots; a sibling without a dot may come back, but is never lost. Costs the product of
    /// the numbers of siblings; values are shared.
    #[must_use]
    pub fn merge(&self, other: &Self) -> Self {
        if (self.has_data_type() || other.has_data_type())
            && let Some(merged) = self.merge_data_types(other)
        {
            return merged;
        }
        let self_covers = self.clock.descends(&other.clock);
        let other_covers = other.clock.descends(&self.clock);
        let mine = self.siblings.iter().filter(|sibling| {
            other.has(sibling)
                || !other.replaced(sibling, other_covers && !self_covers)
                || planted!(KeepsReplaced)
        });
        let theirs = other.siblings.iter().filter(|sibling| {
            !self.has(sibling) && !self.replaced(sibling, self_covers && !other_covers)
        });
        let mut siblings = mine.chain(theirs).cloned().collect();
        drop_repeated(&mut siblings);
        drop_expired(&mut siblings);
        debug_assert!(
            siblings.len() <= self.siblings.len() + other.siblings.len(),
            "a merge makes no values"
        );
        let mut clock = self.clock.clone();
        clock.merge(&other.clock);
        Self { clock, siblings }
    }

    /// True if a merge with any plain object of this clock leaves this object as it is. Its clock
    /// then covers `clock` strictly, and `clock` covers none of its siblings, so the other object
    /// can't have replaced one of them. False for data types, for siblings without a dot, and for
    /// an empty clock, which says nothing.
    #[must_use]
    pub fn supersedes(&self, clock: &VersionVector) -> bool {
        let is_unknown = |sibling: &Sibling| {
            sibling.dot.as_ref().is_some_and(|dot| !clock.contains(dot)) && !sibling.is_data_type()
        };
        !clock.is_empty()
            && self.clock.descends(clock)
            && !clock.descends(&self.clock)
            && self.siblings.iter().all(is_unknown)
    }

    /// Merges two replicas of a record of a bucket where the last write wins: keeps the latest
    /// value, chosen as [`Object::resolve_latest`] does, under its own clock. The events of the
    /// dropped values are not kept: replicas drop different values, so their clocks would never
    /// become equal.
    ///
    /// As far as [`Object::digest`] can tell, the merge is commutative, associative and idempotent
    /// once both objects hold one value. The kept value is the greatest in a total order of all
    /// values ever written, so no replica can have dropped it for another one. Therefore the result
    /// may be stored, unlike the answer of [`Object::resolve_latest`]. Causality plays no part: a
    /// write that did not read the stored object does not know its events.
    #[must_use]
    pub fn merge_last_write_wins(&self, other: &Self) -> Self {
        let latest = |of: &Self| of.siblings.iter().max_by(|a, b| by_age(a, b)).cloned();
        let (ours, theirs) = (latest(self), latest(other));
        let order = match (&ours, &theirs) {
            (Some(ours), Some(theirs)) => by_age(ours, theirs),
            (ours, theirs) => ours.is_some().cmp(&theirs.is_some()),
        };
        let (mut clock, latest) = match order {
            Ordering::Less => (other.clock.clone(), theirs),
            Ordering::Equal | Ordering::Greater => (self.clock.clone(), ours),
        };
        if order == Ordering::Equal {
            clock.merge(&other.clock);
        }
        debug_assert_eq!(
            latest.is_some(),
            self.siblings.len() + other.siblings.len() > 0,
            "the latest of some values is left"
        );
        Self { clock, siblings: latest.into_iter().collect() }
    }

    /// Returns the object after a write that this store coordinates.
    ///
    /// `context` is the causal history that the writer had read. It may be stale, concurrent with
    /// the stored object, empty, or ahead of it. `dot` is the new event. The caller ensures that
    /// its counter is above every counter of its actor in `stored` and `context` (see
    /// [`check_context`](crate::context::check_context)).
    ///
    /// Under [`WritePolicy::LatestModified`], values that the writer had not seen are dropped too, unless
    /// they are later than the new value. Later values stay beside it, and [`Object::resolve_latest`] answers
    /// with the latest. A value is only ever dropped for a newer event whose value is kept. If a write
    /// dropped its own value in favour of a later one, replicas that compare different pairs could together
    /// drop all values.
    ///
    /// Copies the clock and the siblings that stay; values are shared.
    #[must_use]
    pub fn write(
        stored: Option<&Self>,
        context: &VersionVector,
        new: NewValue,
        dot: Dot,
        policy: WritePolicy,
    ) -> Self {
        if let Some(stored) = stored
            && stored.has_data_type()
            && let Some(object) = stored.write_over_data_type(context, &new, &dot, policy)
        {
            return object;
        }
        let blind = VersionVector::default();
        // With an empty context a write-once value replaces no value, on other replicas either.
        let context = if policy == WritePolicy::WriteOnce { &blind } else { context };
        let mut clock = stored.map_or_else(VersionVector::default, |object| object.clock.clone());
        if !planted!(ForgetsContexts) {
            clock.merge(context);
        }
        debug_assert!(!clock.contains(&dot), "the event {dot:?} is not new to {clock:?}");
        clock.advance(&dot);
        let mut new = new.into_sibling(Some(dot));
        new.meta.replaces =
            new.meta.expires_at_secs.is_some() && policy.may_replace(stored.is_some(), context);
        let mut siblings = match (stored, policy) {
            (None, _) | (_, WritePolicy::LastWriteWins) => one(new),
            (Some(stored), WritePolicy::Siblings) => with_new(stored.unknown_to(context), new),
            // `unknown_to` can't be used here: every context, even the empty one, covers an object without a
            // clock.
            (Some(stored), WritePolicy::WriteOnce) => with_new(stored.siblings.iter(), new),
            (Some(stored), WritePolicy::LatestModified) => {
                let new_us = new.last_modified_us;
                let later = |old: &&Sibling| old.last_modified_us > new_us && !planted!(DropsLater);
                with_new(stored.unknown_to(context).filter(later), new)
            }
        };
        drop_repeated(&mut siblings);
        drop_expired(&mut siblings);
        debug_assert!(!siblings.is_empty(), "a written object has a value");
        Self { clock, siblings }
    }

    /// Makes an object from a value and a clock from elsewhere, without a new event (option `asis`).
    /// Replication and repair tools write such objects; the store merges them with the stored object.
    #[must_use]
    pub fn given(clock: VersionVector, mut new: NewValue) -> Self {
        // The values that it replaced elsewhere are not known, so assume that there were some.
        new.meta.replaces = new.meta.expires_at_secs.is_some();
        Self { clock, siblings: one(new.into_sibling(None)) }
    }

    /// True if the order of the latest values of two objects depends on their bytes, and one of
    /// them is the state of a data type.
    pub(crate) fn is_as_late_as(&self, other: &Self) -> bool {
        let latest = |of: &Self| of.siblings.iter().max_by(|a, b| by_age(a, b)).cloned();
        let (Some(mut ours), Some(theirs)) = (latest(self), latest(other)) else { return false };
        ours.value = theirs.value.clone();
        (ours.is_data_type() || theirs.is_data_type()) && by_age(&ours, &theirs) == Ordering::Equal
    }

    /// Drops all siblings but the one modified last, for answers to clients of a bucket with
    /// `allow_mult` = false.
    ///
    /// The result must not be stored: its clock still covers the dropped siblings, so two replicas
    /// that stored different choices could lose both values in the next merge. At equal times a
    /// live value beats a tombstone; then dot, vtag and bytes decide, so that all replicas choose
    /// the same value.
    pub fn resolve_latest(&mut self) {
        if self.siblings.len() > 1 {
            let latest = self.siblings.drain(..).max_by(by_age);
            self.siblings = latest.into_iter().collect();
        }
    }

    /// True if this object has the sibling: one with the same dot or, without a dot, an equal one.
    fn has(&self, sibling: &Sibling) -> bool {
        self.siblings.iter().any(|own| match (&own.dot, &sibling.dot) {
            (Some(own), Some(dot)) => own == dot,
            (None, None) => own == sibling,
            _ => false,
        })
    }

    /// True if this object, which does not have the sibling, has replaced it. `is_newer` is true if
    /// this object's clock strictly covers that of the sibling's object.
    fn replaced(&self, sibling: &Sibling, is_newer: bool) -> bool {
        sibling.dot.as_ref().map_or(is_newer, |dot| self.clock.contains(dot))
    }

    /// Siblings that a writer with this context had not seen.
    fn unknown_to(&self, context: &VersionVector) -> impl Iterator<Item = &Sibling> {
        let knows_all = context.descends(&self.clock);
        self.siblings.iter().filter(move |sibling| {
            !knows_all && !sibling.dot.as_ref().is_some_and(|dot| context.contains(dot))
        })
    }
}

fn one(sibling: Sibling) -> SmallVec<[Sibling; 1]> {
    let mut siblings = SmallVec::new();
    siblings.push(sibling);
    siblings
}

fn with_new<'a>(old: impl Iterator<Item = &'a Sibling>, new: Sibling) -> SmallVec<[Sibling; 1]> {
    let mut siblings: SmallVec<[Sibling; 1]> = old.cloned().collect();
    siblings.push(new);
    siblings
}

/// Drops each sibling that repeats a write of another one: same tag and content, but a greater
/// event. The tag alone is not enough: Riak derives it from the writer's context, which two writers
/// may share.
fn drop_repeated(siblings: &mut SmallVec<[Sibling; 1]>) {
    if siblings.len() < 2 || planted!(KeepsRepeated) {
        return;
    }
    let is_repeated = |sibling: &Sibling| {
        let Some(own) = tagged_event(sibling) else { return false };
        let same = siblings.iter().filter(|other| is_same_write(sibling, other));
        same.filter_map(tagged_event).any(|other| other < own)
    };
    let repeated: SmallVec<[bool; 8]> = siblings.iter().map(is_repeated).collect();
    let mut is_repeated = repeated.into_iter();
    siblings.retain(|_| !is_repeated.next().unwrap_or(false));
    debug_assert!(!siblings.is_empty(), "of repeated values the one of the least event stays");
}

/// Drops the tombstones of expired values if there is another value. The clock keeps their events.
fn drop_expired(siblings: &mut SmallVec<[Sibling; 1]>) {
    if siblings.len() > 1 && !siblings.iter().all(Sibling::has_expired) {
        siblings.retain(|sibling| !sibling.has_expired());
        debug_assert!(!siblings.is_empty(), "only tombstones beside other values are dropped");
    }
}

/// True if two siblings have the same tag and content. Times of expiry are ignored, because each
/// coordinator computes them by its own clock.
fn is_same_write(one: &Sibling, other: &Sibling) -> bool {
    let has_same_meta = || {
        let Metadata { expires_at_secs, replaces, .. } = other.meta;
        Metadata { expires_at_secs, replaces, ..one.meta.clone() } == other.meta
    };
    one.vtag == other.vtag
        && one.deleted == other.deleted
        && one.value == other.value
        && has_same_meta()
}

/// Event of a value that has an entity tag of its own and is not a data type.
fn tagged_event(sibling: &Sibling) -> Option<(&Actor, u64)> {
    let dot = sibling.dot.as_ref()?;
    let is_tagged = !sibling.vtag.is_empty() && !sibling.is_data_type();
    is_tagged.then_some((&dot.actor, dot.counter))
}

fn by_age(a: &Sibling, b: &Sibling) -> Ordering {
    fn rank(sibling: &Sibling) -> impl Ord {
        let dot = sibling.dot.as_ref().map(|dot| (&dot.actor, dot.counter));
        (sibling.last_modified_us, !sibling.deleted, dot, &sibling.vtag, &sibling.value)
    }
    rank(a).cmp(&rank(b))
}

#[cfg(test)]
mod repeated_tests;
#[cfg(test)]
mod tests;
