//! Plain objects, read and written without owning their parts.
//!
//! Most records hold one live value with little that describes it. [`PlainObject`] is such an
//! object as a view of its stored bytes: answering a read from it, or replacing it, takes no
//! allocation and no reference count. Every other object, damaged ones included, is not plain:
//! [`PlainObject::read`] answers `None`, and [`Object`](crate::object::Object) has all of it.

mod stored;

use crate::clock::{Dot, VersionVector};
use crate::cursor::Cursor;
use crate::digest;
use crate::merge::WritePolicy;

/// An object of one value that is no tombstone, has a dot, and neither links, user metadata, index
/// entries nor entries that only Riak knows.
#[derive(Clone, Debug)]
pub struct PlainObject<'a> {
    /// All events that the object has seen.
    pub clock: VersionVector,
    /// The event that wrote the value.
    pub dot: DotPlace,
    /// When the value was written, microseconds since 1970; 0 when unknown.
    pub last_modified_us: u64,
    /// The entity tag that clients see, without quotes; empty when unknown.
    pub vtag: &'a [u8],
    /// Media type without parameters.
    pub content_type: Option<&'a [u8]>,
    /// Character set parameter of the media type.
    pub charset: Option<&'a [u8]>,
    /// Content coding; never applied by the server.
    pub content_encoding: Option<&'a [u8]>,
    /// When the object expires, seconds since 1970; `None` = never.
    pub expires_at_secs: Option<u32>,
    /// As [`Metadata::replaces`](crate::object::Metadata::replaces).
    pub replaces: bool,
    /// The value itself.
    pub value: &'a [u8],
}

/// Where the event of a value is told.
#[derive(Clone, Debug)]
pub enum DotPlace {
    /// It is this entry of the object's clock, time included.
    InClock(usize),
    /// It is told by itself: the clock has a later event of the actor, or none.
    Explicit(Dot),
}

impl<'a> PlainObject<'a> {
    /// Reads the stored form; `None` when the object is not plain, or its bytes are damaged. No
    /// allocation for an object of at most two clock entries.
    #[must_use]
    pub fn read(stored: &'a [u8]) -> Option<Self> {
        stored::decode_plain(&mut Cursor::borrowing(stored), true)
    }

    /// Reads what comes before the value from the front of the stored form: the object without its
    /// value. `None` when the object is not plain, or the front ends too early.
    ///
    /// A checksum over the whole can't be looked at. `digest`, which came from elsewhere, confirms
    /// the clock and the event of the value, but for their times; `None` when it does not.
    #[must_use]
    pub fn read_front(front: &'a [u8], digest: u64) -> Option<Self> {
        stored::decode_plain(&mut Cursor::borrowing(front), false)
            .filter(|object| object.digest() == digest)
    }

    /// The event that wrote the value.
    #[must_use]
    pub fn dot(&self) -> &Dot {
        match &self.dot {
            DotPlace::InClock(place) => &self.clock.entries()[*place],
            DotPlace::Explicit(dot) => dot,
        }
    }

    /// A new value alone under a clock that has its event.
    ///
    /// # Panics
    ///
    /// When the clock has no entry of the event's actor.
    #[must_use]
    pub fn written(clock: VersionVector, dot: &Dot) -> Self {
        let place = clock.entries().iter().position(|entry| entry.actor == dot.actor);
        let place = place.expect("the clock has the event");
        let entry = &clock.entries()[place];
        let same = entry == dot && entry.time_secs == dot.time_secs;
        let dot = if same { DotPlace::InClock(place) } else { DotPlace::Explicit(dot.clone()) };
        Self {
            clock,
            dot,
            last_modified_us: 0,
            vtag: &[],
            content_type: None,
            charset: None,
            content_encoding: None,
            expires_at_secs: None,
            replaces: false,
            value: &[],
        }
    }

    /// The clock after the write of `dot` at `new_us`, if the new value is then the only one: the
    /// rules of [`Object::write`](crate::object::Object::write), with the same demands on `dot`.
    #[must_use]
    pub fn clock_if_replaced(
        stored: Option<&PlainObject<'_>>,
        context: &VersionVector,
        dot: &Dot,
        new_us: u64,
        policy: WritePolicy,
    ) -> Option<VersionVector> {
        let Some(stored) = stored else {
            // A write-once value knows nothing.
            let mut clock = match policy {
                WritePolicy::WriteOnce => VersionVector::default(),
                _ => context.clone(),
            };
            clock.advance(dot);
            return Some(clock);
        };
        let known = || context.contains(stored.dot()) || context.descends(&stored.clock);
        let replaced = match policy {
            WritePolicy::LastWriteWins => true,
            WritePolicy::Siblings => known(),
            WritePolicy::WriteOnce => false,
            WritePolicy::LatestModified => stored.last_modified_us <= new_us || known(),
        };
        if !replaced {
            return None;
        }
        let mut clock = stored.clock.clone();
        clock.merge(context);
        clock.advance(dot);
        Some(clock)
    }

    /// Appends the stored form, as [`Object::encode_into`](crate::object::Object::encode_into) does
    /// for the same object.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        stored::encode_plain(self, out);
    }

    /// The digest of the object: as [`Object::digest`](crate::object::Object::digest).
    #[must_use]
    pub fn digest(&self) -> u64 {
        digest::of_plain(&self.clock, self.dot())
    }
}

#[cfg(test)]
mod tests;
