//! How objects change: writes under each policy, and the merge of replicas.
//!
//! The rules are those of dotted version vector sets (Preguiça, Baquero, Almeida and others,
//! "Dotted Version Vectors: Logical Clocks for Optimistic Replication", 2010; "Scalable and
//! Accurate Causality Tracking for Eventually Consistent Stores", 2014): every value carries the
//! event that wrote it, and it goes exactly when a clock that knows the event comes without the
//! value. Values without a dot, which come from Riak, fall back to the comparison of whole clocks.

use crate::clock::{Actor, Dot, VersionVector};
use crate::object::{Metadata, Object, Sibling};
use bytes::Bytes;
use quoit_planted::planted;
use smallvec::SmallVec;
use std::cmp::Ordering;

/// A bucket's way with values that the writer had not seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WritePolicy {
    /// They stay beside the new one (`allow_mult` = true).
    Siblings,
    /// They go unless they are later; clients see the latest (`allow_mult` = false).
    LatestModified,
    /// They go, known or not (`last_write_wins` = true).
    LastWriteWins,
    /// As [`WritePolicy::Siblings`], and writers know nothing (`write_once` = true).
    WriteOnce,
}

impl WritePolicy {
    /// Whether a write may replace older values, here or on other replicas: then a tombstone has to stay
    /// when its value expires. `has_stored`: whether a stored object was found.
    #[must_use]
    pub fn may_replace(self, has_stored: bool, context: &VersionVector) -> bool {
        match self {
            Self::Siblings | Self::LatestModified => has_stored || !context.is_empty(),
            // It knows nothing, and what is stored stays beside it under one clock.
            Self::WriteOnce => has_stored,
            // Nobody may have looked for a stored object.
            Self::LastWriteWins => true,
        }
    }
}

/// A value that is about to be written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NewValue {
    /// Everything that describes the value.
    pub meta: Metadata,
    /// The value itself, empty for a tombstone.
    pub value: Bytes,
    /// Whether the write is a delete.
    pub deleted: bool,
    /// When the value is written, microseconds since 1970.
    pub last_modified_us: u64,
    /// The entity tag that clients see, without quotes.
    pub vtag: Bytes,
}

impl NewValue {
    fn into_sibling(self, dot: Option<Dot>) -> Sibling {
        let Self { meta, value, deleted, last_modified_us, vtag } = self;
        Sibling { dot, deleted, last_modified_us, vtag, meta, value }
    }
}

impl Object {
    /// Merges two replicas of a record: keeps each value that one of them has and the other has not
    /// replaced. Siblings of `self` come first, each in its order.
    ///
    /// A value that two events have written (its put was forwarded twice, so they have one tag) stands there
    /// once, under the lesser of them. The clock covers both, so that the other one goes from every replica;
    /// and a value that replaces the lesser one has been written by a client that saw it.
    ///
    /// Commutative and idempotent as far as [`Object::digest`] looks, and associative between
    /// objects whose siblings all have dots; a value without one may come back as a false sibling,
    /// never get lost. Costs the product of the numbers of siblings; shares the values.
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
        keep_once(&mut siblings);
        drop_expired(&mut siblings);
        let mut clock = self.clock.clone();
        clock.merge(&other.clock);
        Self { clock, siblings }
    }

    /// Whether this object stays as it is whatever plain object of that clock is merged with it: it knows
    /// all that one knows and more, and has nothing of which that one could know that it is replaced. Never
    /// for data types, nor for an empty clock, which says nothing.
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

    /// Merges two replicas of a record where the last write wins: keeps the value with the latest time, as
    /// [`Object::resolve_latest`] chooses, under its own clock. The events of what is dropped are not kept:
    /// replicas drop different values, and would differ in their clocks for ever.
    ///
    /// Commutative, associative and idempotent as far as [`Object::digest`] looks, once both hold one
    /// value: the choice is the greatest in a total order of all values ever written, which no replica
    /// can have dropped for another. So what it drops may be dropped for good, unlike the answers of
    /// [`Object::resolve_latest`]. Causality is not looked at: a write that did not read the stored
    /// object does not know its events.
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
        Self { clock, siblings: latest.into_iter().collect() }
    }

    /// The object after a write that this store coordinates.
    ///
    /// `context` is what the writer had read; it may be stale, concurrent with what is stored,
    /// empty, or ahead of it. `dot` is the new event: its counter is above every counter of its
    /// actor in `stored` and
    /// `context`, which the caller has seen to (see
    /// [`check_context`](crate::context::check_context)).
    ///
    /// Under [`WritePolicy::LatestModified`] values that the writer did not know go as well, unless
    /// they are later than the new one: those stay beside it, and [`Object::resolve_latest`]
    /// answers with the latest. Nothing is ever dropped but for a newer event whose value is kept:
    /// were the new value dropped for a later one, replicas that decide so about different pairs
    /// could between them drop all.
    ///
    /// Copies the clock and those siblings that stay; values are shared.
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
        // A write-once value knows nothing, so that it can't replace anything on another replica either.
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
            // Also of an object without a clock, which everybody's context is beyond.
            (Some(stored), WritePolicy::WriteOnce) => with_new(stored.siblings.iter(), new),
            (Some(stored), WritePolicy::LatestModified) => {
                let new_us = new.last_modified_us;
                let later = |old: &&Sibling| old.last_modified_us > new_us && !planted!(DropsLater);
                with_new(stored.unknown_to(context).filter(later), new)
            }
        };
        keep_once(&mut siblings);
        drop_expired(&mut siblings);
        Self { clock, siblings }
    }

    /// A value with a clock that was made elsewhere, without a new event: what replication and repair tools
    /// have merged with what is stored (`asis`).
    #[must_use]
    pub fn given(clock: VersionVector, mut new: NewValue) -> Self {
        // Which values it has replaced elsewhere is not known.
        new.meta.replaces = new.meta.expires_at_secs.is_some();
        Self { clock, siblings: one(new.into_sibling(None)) }
    }

    /// Whether the last values of the two can only be told apart by a look at these, which are states.
    pub(crate) fn is_as_late_as(&self, other: &Self) -> bool {
        let latest = |of: &Self| of.siblings.iter().max_by(|a, b| by_age(a, b)).cloned();
        let (Some(mut ours), Some(theirs)) = (latest(self), latest(other)) else { return false };
        ours.value = theirs.value.clone();
        (ours.is_data_type() || theirs.is_data_type()) && by_age(&ours, &theirs) == Ordering::Equal
    }

    /// Drops all siblings but the one modified last: what clients of a bucket without siblings are
    /// answered. For answers only, never to be stored: the clock still covers the siblings that
    /// were dropped, so two replicas that stored their choices could lose both values in the next
    /// merge. Of equal times a live value beats a tombstone; what is left to choose is decided by
    /// dot, vtag and value, so that all replicas choose the same.
    pub fn resolve_latest(&mut self) {
        if self.siblings.len() > 1 {
            let latest = self.siblings.drain(..).max_by(by_age);
            self.siblings = latest.into_iter().collect();
        }
    }

    /// Whether this object has the very sibling: of the same event or, where there is none, equal.
    fn has(&self, sibling: &Sibling) -> bool {
        self.siblings.iter().any(|own| match (&own.dot, &sibling.dot) {
            (Some(own), Some(dot)) => own == dot,
            (None, None) => own == sibling,
            _ => false,
        })
    }

    /// Whether this object, which does not have the sibling, knows that it was replaced. `is_newer`
    /// says whether its clock is strictly beyond that of the sibling's object.
    fn replaced(&self, sibling: &Sibling, is_newer: bool) -> bool {
        sibling.dot.as_ref().map_or(is_newer, |dot| self.clock.contains(dot))
    }

    /// The siblings that a writer with this context had not seen.
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

/// Drops each sibling of which another one is the same write by its tag and content, under a lesser event.
/// The tag alone would not do: Riak makes it of the writer's context, which two writers may share.
fn keep_once(siblings: &mut SmallVec<[Sibling; 1]>) {
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
}

/// Drops what stays of expired values where there is another value: the clock keeps their events.
fn drop_expired(siblings: &mut SmallVec<[Sibling; 1]>) {
    if siblings.len() > 1 && !siblings.iter().all(Sibling::has_expired) {
        siblings.retain(|sibling| !sibling.has_expired());
    }
}

/// Whether two siblings have the same tag and content. Each coordinator has computed times by its own clock.
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

/// The event of a value that has an entity tag of its own.
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
