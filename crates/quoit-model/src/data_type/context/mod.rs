//! Causal contexts of data types. Clients receive a context with the value that they read, and send
//! it back with removes.
//!
//! To clients a context is an opaque byte string. It has, in this order:
//!
//! | piece | form |
//! | --- | --- |
//! | format | byte 0x5f, which begins no context of a plain object |
//! | vector | varint number, then an entry for each actor, sorted by actor |
//! | entry | varint length of the actor, actor, varint counter (not 0) |
//! | cloud | the events beyond gaps, as `docs/design/data-types.md` says |
//! | checksum | lowest 32 bits of the XXH3-64 of all before it, seeded with the record's identity |
//!
//! A store refuses a context of another record, because the checksum's seed differs. Applied here,
//! such a context would defer events that this record never sees.

use super::{CausalClock, EventSet, StoredFormError};
use crate::clock::{Actor, Dot, VersionVector};
use crate::cursor::{Cursor, put_counted, put_varint};
use bytes::Bytes;
use quoit_number::low_u32;
use smallvec::SmallVec;
use std::fmt::Write;
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// First byte of a context.
pub const CONTEXT_FORMAT_1: u8 = 0x5f;

/// Maximum number of entries of the vector and runs of the cloud together.
pub const CONTEXT_ENTRIES_MAX: usize = 1000;

const CHECKSUM_BYTES: usize = 4;

/// Last byte of an incarnation. It distinguishes incarnations from the actors of events on fallback
/// copies.
const KEPT: u8 = 1;
/// Last byte of the actors of events on copies that the store keeps only for a time.
const PASSING: u8 = 0;

/// Error of reading a context that a client sent with a remove.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RemoveContextError {
    /// The bytes are not a context of a data type, or are a context of another record.
    #[error(
        "context of {size_bytes} bytes that begins with {start} does not belong to this record ({why}); \
         send back the context of an earlier answer about this record unchanged, or none"
    )]
    Garbage {
        /// Size of the context.
        size_bytes: usize,
        /// Its first bytes in hexadecimal.
        start: String,
        /// Description of the fault.
        why: &'static str,
    },
    /// The context has more than [`CONTEXT_ENTRIES_MAX`] entries.
    #[error(
        "context has {entry_count} entries, more than {CONTEXT_ENTRIES_MAX}; fetch the record again \
         and send the context of that answer"
    )]
    TooManyEntries {
        /// Number of entries.
        entry_count: usize,
    },
    /// The context claims an event of this store that the store has not issued.
    #[error(
        "context claims event {counter} of actor {actor}, which this store has not issued; fetch the \
         record again and send the context of that answer"
    )]
    NeverIssued {
        /// The actor in hexadecimal.
        actor: String,
        /// The counter claimed.
        counter: u64,
    },
}

/// Makes an incarnation: the actor under which a store makes the events of one record, from its
/// first event in the present life of the record. It is the store's own actor and a number that the
/// store has never used before, so that its counters can begin at 1 without gaps.
#[must_use]
pub fn incarnation(store: &Actor, number: u64) -> Actor {
    let mut bytes = store.0.clone();
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.push(KEPT);
    Actor(bytes)
}

/// Makes the actor of data-type events on a copy that the store keeps only for a time, such as a fallback
/// copy. `passing` is the actor of the store's plain writes to the copies of that partition; it is retired
/// before the copies are removed.
#[must_use]
pub fn passing_incarnation(passing: &Actor) -> Actor {
    let mut bytes = passing.0.clone();
    bytes.push(PASSING);
    Actor(bytes)
}

/// The number of an incarnation of this store; `None` for other actors.
pub(super) fn incarnation_number(actor: &Actor, store: &Actor) -> Option<u64> {
    let named = actor.0.strip_prefix(store.0.as_slice())?;
    let number = named.strip_suffix(&[KEPT])?;
    Some(u64::from_be_bytes(number.try_into().ok()?))
}

/// Encodes the context of a state with this clock. `record` is the identity hash of the record.
#[must_use]
pub fn encode_context(clock: &CausalClock, record: u64) -> Bytes {
    let mut entries: SmallVec<[&Dot; 8]> =
        clock.vector().entries().iter().filter(|entry| entry.counter > 0).collect();
    entries.sort_unstable_by_key(|entry| &entry.actor);
    let mut out = Vec::with_capacity(8 + entries.len() * 24);
    out.push(CONTEXT_FORMAT_1);
    put_varint(&mut out, entries.len() as u64);
    for entry in entries {
        put_counted(&mut out, &entry.actor.0);
        put_varint(&mut out, entry.counter);
    }
    clock.cloud().encode_into(&mut out);
    let checksum = checksum(&out, record);
    out.extend_from_slice(&checksum);
    out.into()
}

/// Decodes the clock of a context. Its entries have no times.
///
/// # Errors
///
/// Returns an error if the bytes are not a context of this record, or have too many entries.
pub fn decode_context(context: &[u8], record: u64) -> Result<CausalClock, RemoveContextError> {
    let garbage = |why| {
        let start = hex(context.get(..16).unwrap_or(context));
        RemoveContextError::Garbage { size_bytes: context.len(), start, why }
    };
    if context.first() != Some(&CONTEXT_FORMAT_1) {
        return Err(garbage("another format"));
    }
    let cut_off = || garbage("cut off");
    let (body, sum) = context.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(cut_off)?;
    if *sum != checksum(body, record) {
        return Err(garbage("wrong checksum"));
    }
    let mut cursor = Cursor::borrowing(body);
    let (entries, cloud) = decode_parts(&mut cursor).map_err(|bad| match bad {
        StoredFormError::Truncated { .. } => cut_off(),
        StoredFormError::UnknownFormat { .. } => garbage("another format"),
        StoredFormError::BadForm { what, .. } => garbage(what),
    })?;
    if cursor.remaining() > 0 {
        return Err(garbage("bytes behind its end"));
    }
    let entry_count = entries.len() + cloud.run_count();
    if entry_count > CONTEXT_ENTRIES_MAX {
        return Err(RemoveContextError::TooManyEntries { entry_count });
    }
    Ok(CausalClock::new(VersionVector::from_sorted(entries), cloud))
}

type Parts = (SmallVec<[Dot; 2]>, EventSet);

fn decode_parts(cursor: &mut Cursor<'_>) -> Result<Parts, StoredFormError> {
    cursor.u8()?;
    let entry_count = cursor.count()?;
    let mut entries: SmallVec<[Dot; 2]> = SmallVec::new();
    for _ in 0..entry_count {
        let actor = Actor(SmallVec::from_slice(cursor.counted_slice()?));
        let entry = Dot { actor, counter: cursor.varint()?, time_secs: 0 };
        let sorted = entries.last().is_none_or(|before| before.actor < entry.actor);
        if !sorted || entry.counter == 0 {
            let what = "entries that are not sorted actors with counters";
            return Err(StoredFormError::BadForm { what, at: cursor.at() });
        }
        entries.push(entry);
    }
    Ok((entries, EventSet::decode(cursor)?))
}

/// Refuses a context that claims events that this store has not issued. Otherwise later events of
/// the store would count as seen by the client that removes. Events of other stores are normal.
///
/// `clock` is that of the stored record. `store` is the store's own actor; it has issued counters
/// and incarnation numbers up to `issued_max`.
///
/// # Errors
///
/// Returns an error if the context claims such an event.
pub fn check_context(
    context: &CausalClock,
    clock: &CausalClock,
    store: &Actor,
    issued_max: u64,
) -> Result<(), RemoveContextError> {
    let in_vector = context.vector().entries().iter().map(|entry| (&entry.actor, entry.counter));
    let in_cloud = context.cloud().iter().map(|(actor, _)| (actor, context.cloud().last(actor)));
    for (actor, counter) in in_vector.chain(in_cloud) {
        let issued = match incarnation_number(actor, store) {
            Some(number) => match clock.last(actor) {
                // An incarnation of an earlier life of the record, or of an earlier copy on this
                // store.
                0 => number <= issued_max,
                last => counter <= last,
            },
            None => actor != store || counter <= issued_max,
        };
        if !issued {
            return Err(RemoveContextError::NeverIssued { actor: hex(&actor.0), counter });
        }
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("strings take everything");
        text
    })
}

fn checksum(bytes: &[u8], record: u64) -> [u8; CHECKSUM_BYTES] {
    low_u32(xxh3_64_with_seed(bytes, record)).to_le_bytes()
}

#[cfg(test)]
mod tests;
