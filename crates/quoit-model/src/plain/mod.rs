//! Plain objects, read and written without owning their parts.
//!
//! Most records hold one live value with little metadata. [`PlainObject`] is such an object as a
//! view of its stored bytes: a read or a replacement takes no allocation and no reference count.
//! For any other object, and for damaged bytes, [`PlainObject::read`] returns `None`, and the
//! caller uses [`Object`](crate::object::Object).

mod stored;

use crate::clock::{Dot, VersionVector};
use crate::cursor::Cursor;
use crate::digest;
use crate::merge::WritePolicy;

/// An object with one value that is not a tombstone, has a dot, and has neither links, user
/// metadata, index entries nor entries of [`Metadata::other`](crate::object::Metadata::other).
#[derive(Clone, Debug)]
pub struct PlainObject<'a> {
    /// All events that the object has seen.
    pub clock: VersionVector,
    /// The event that wrote the value.
    pub dot: DotRef,
    /// Time of the write in microseconds since 1970; 0 if unknown.
    pub last_modified_us: u64,
    /// Entity tag that clients see, without quotes; empty if unknown.
    pub vtag: &'a [u8],
    /// Media type. Over HTTP it has no parameters; a Protocol Buffers client can send some.
    pub content_type: Option<&'a [u8]>,
    /// Character set of the value.
    pub charset: Option<&'a [u8]>,
    /// Content coding. The server does not apply it.
    pub content_encoding: Option<&'a [u8]>,
    /// Time at which the value expires, in seconds since 1970; `None` if it never expires.
    pub expires_at_secs: Option<u32>,
    /// As [`Metadata::replaces`](crate::object::Metadata::replaces).
    pub replaces: bool,
    /// The bytes of the value.
    pub value: &'a [u8],
}

/// Reference to the dot of a value.
#[derive(Clone, Debug)]
pub enum DotRef {
    /// Index of the clock entry that is the dot, time included.
    InClock(usize),
    /// The dot itself, if the clock's entry of the actor has a higher counter or another time, or
    /// is absent.
    Explicit(Dot),
}

impl<'a> PlainObject<'a> {
    /// Reads the stored form. Returns `None` if the object is not plain, or its bytes are damaged.
    /// Allocates nothing for an object of at most two clock entries.
    #[must_use]
    pub fn read(stored: &'a [u8]) -> Option<Self> {
        stored::decode_plain(&mut Cursor::borrowing(stored), true)
    }

    /// Reads all but the value from the first bytes of the stored form; the value of the result is
    /// empty. Returns `None` if the object is not plain, or the bytes end too early.
    ///
    /// The checksum over the whole record can't be verified here. Instead, `digest`, which comes
    /// from another source, confirms the clock and the dot, without their times. Returns `None` if
    /// the digest differs.
    #[must_use]
    pub fn read_front(front: &'a [u8], digest: u64) -> Option<Self> {
        stored::decode_plain(&mut Cursor::borrowing(front), false)
            .filter(|object| object.digest() == digest)
    }

    /// The event that wrote the value.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "`decode_plain` and `written` checked the place")]
    pub fn dot(&self) -> &Dot {
        match &self.dot {
            DotRef::InClock(place) => &self.clock.entries()[*place],
            DotRef::Explicit(dot) => dot,
        }
    }

    /// Starts a new object: an empty value with this dot under a clock that has the dot's event.
    ///
    /// # Panics
    ///
    /// Panics if the clock has no entry of the dot's actor.
    #[must_use]
    pub fn written(clock: VersionVector, dot: &Dot) -> Self {
        let mut entries = clock.entries().iter().enumerate();
        let found = entries.find(|(_, entry)| entry.actor == dot.actor);
        let (place, entry) = found.expect("the clock has the event");
        let same = entry == dot && entry.time_secs == dot.time_secs;
        let dot = if same { DotRef::InClock(place) } else { DotRef::Explicit(dot.clone()) };
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

    /// Returns the clock after the write of `dot` at `new_us` (microseconds since 1970) if the new
    /// value is then the only one, by the rules of [`Object::write`](crate::object::Object::write)
    /// and with the same requirements on `dot`. Returns `None` if the stored value stays.
    #[must_use]
    pub fn clock_if_replaced(
        stored: Option<&PlainObject<'_>>,
        context: &VersionVector,
        dot: &Dot,
        new_us: u64,
        policy: WritePolicy,
    ) -> Option<VersionVector> {
        let Some(stored) = stored else {
            // The context of a write-once value is ignored.
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

    /// Appends the stored form, byte for byte as
    /// [`Object::encode_into`](crate::object::Object::encode_into) does.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        stored::encode_plain(self, out);
    }

    /// As [`PlainObject::encode_into`], but leaves out the bytes of the value, which are the end of the
    /// stored form.
    pub fn encode_front_into(&self, out: &mut Vec<u8>) {
        stored::encode_front(self, out);
    }

    /// Digest of the object, equal to [`Object::digest`](crate::object::Object::digest).
    #[must_use]
    pub fn digest(&self) -> u64 {
        digest::of_plain(&self.clock, self.dot())
    }
}

#[cfg(test)]
mod tests;
