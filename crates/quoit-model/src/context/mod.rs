//! Causal contexts: the causal history of a record as clients receive it with an answer and send it
//! back with their next write.
//!
//! To clients a context is an opaque byte string. Quoit's own form has, in this order:
//!
//! | piece | form |
//! | --- | --- |
//! | format | byte 0x57, which begins neither a DEFLATE stream nor an external term |
//! | entries | varint number, then an entry for each actor, sorted by actor |
//! | entry | varint length of the actor, actor, varint counter (not 0) |
//! | checksum | lowest 32 bits of the XXH3-64 of all before it, little-endian |
//!
//! A context omits the times of entries, so equal version vectors have equal contexts.
//! [`decode_context`] accepts contexts of Riak nodes as well, because clients keep them across a
//! migration.

use crate::clock::{Actor, Dot, VersionVector};
use crate::cursor::{Cursor, Truncated, put_counted, put_varint};
use crate::etf::{ETF_VERSION, Limits, Term, deflate_raw, inflate_raw};
use crate::riak_clock::{RiakClockError, clock_of_term, decode_riak_clock, encode_riak_clock};
use bytes::Bytes;
use quoit_number::{length_u32, low_u32};
use smallvec::SmallVec;
use std::fmt::Write;
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

/// First byte of a context. Bits 1 and 2 would be the block type of a DEFLATE stream, and 3 is not
/// a valid type.
pub const CONTEXT_FORMAT_1: u8 = 0x57;

/// Maximum number of entries of a context.
pub const CONTEXT_ENTRIES_MAX: usize = 10_000;

/// Maximum size of a Riak clock after inflation, in bytes.
pub const RIAK_CLOCK_BYTES_MAX: usize = 1 << 20;

const CHECKSUM_BYTES: usize = 4;

/// An entry of a clock has five terms: two tuples, actor, counter and time.
const RIAK_CLOCK_LIMITS: Limits = Limits {
    depth_max: 8,
    terms_max: length_u32(CONTEXT_ENTRIES_MAX) * 5 + 8,
    inflated_bytes_max: RIAK_CLOCK_BYTES_MAX,
};

/// Error of reading a causal context that a client sent.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ContextError {
    /// The bytes are neither a context of Quoit nor one of Riak.
    #[error(
        "vector clock of {size_bytes} bytes that begins with {start} is not valid: {why}; send back the \
         bytes of an earlier answer unchanged, or none"
    )]
    Garbage {
        /// Size of the context.
        size_bytes: usize,
        /// Its first bytes in hexadecimal.
        start: String,
        /// Description of the fault.
        why: String,
    },
    /// The context has more than [`CONTEXT_ENTRIES_MAX`] entries.
    #[error(
        "vector clock has {entry_count} entries, more than {CONTEXT_ENTRIES_MAX}; \
         read the record again and send the clock of that answer"
    )]
    TooManyEntries {
        /// Number of entries.
        entry_count: usize,
    },
    /// The context claims an event of this store's actor that the store has not issued.
    #[error(
        "vector clock claims event {counter} of this store's actor {actor}, which has issued \
         {issued_max} so far; read the record again and send the clock of that answer"
    )]
    NeverIssued {
        /// The store's actor in hexadecimal.
        actor: String,
        /// The counter claimed.
        counter: u64,
        /// The highest counter issued.
        issued_max: u64,
    },
}

/// Encodes the context of a clock. Equal clocks have equal contexts, even if their entries have other times
/// or another order. The context of the empty clock is not empty. Costs one allocation and a short hash.
#[must_use]
pub fn encode_context(clock: &VersionVector) -> Bytes {
    let entries = clock.entries();
    let actors_bytes: usize = entries.iter().map(|entry| entry.actor.0.len() + 16).sum();
    let mut out = Vec::with_capacity(16 + actors_bytes);
    encode_context_into(clock, &mut out);
    out.into()
}

/// Appends the bytes that [`encode_context`] returns, without an allocation for up to four entries.
#[expect(clippy::indexing_slicing, reason = "the context was appended at `start`")]
pub fn encode_context_into(clock: &VersionVector, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(CONTEXT_FORMAT_1);
    if let [entry] = clock.entries() {
        put_entries(out, &[entry]);
    } else {
        let mut entries: SmallVec<[&Dot; 4]> = clock.entries().iter().collect();
        entries.sort_unstable_by(|a, b| a.actor.cmp(&b.actor));
        put_entries(out, &entries);
    }
    let checksum = checksum(&out[start..]);
    out.extend_from_slice(&checksum);
}

/// Appends the entries, without those of counter 0, which stand for no event.
fn put_entries(out: &mut Vec<u8>, entries: &[&Dot]) {
    let told = || entries.iter().filter(|entry| entry.counter > 0);
    put_varint(out, told().count() as u64);
    for entry in told() {
        put_counted(out, &entry.actor.0);
        put_varint(out, entry.counter);
    }
}

/// Encodes the context of a clock as a Riak node does, with the times of the entries. Messages to
/// Riak nodes use this form, and [`decode_context`] accepts it.
#[must_use]
pub fn encode_riak_context(clock: &VersionVector) -> Bytes {
    let mut term = Vec::new();
    encode_riak_clock(clock, &mut term);
    deflate_raw(&term)
}

/// Decodes the clock of a context. An empty context stands for the empty clock: the writer has seen no
/// events.
///
/// # Errors
///
/// Returns an error if the bytes are neither a context of Quoit nor one of Riak, or have too many
/// entries.
pub fn decode_context(context: &[u8]) -> Result<VersionVector, ContextError> {
    let clock = match context.first() {
        None => return Ok(VersionVector::default()),
        Some(&CONTEXT_FORMAT_1) => decode_own(context)?,
        Some(_) => decode_riak(context).map_err(|error| garbage(context, error.to_string()))?,
    };
    let entry_count = clock.entries().len();
    if entry_count > CONTEXT_ENTRIES_MAX {
        return Err(ContextError::TooManyEntries { entry_count });
    }
    Ok(clock)
}

/// Refuses a context that claims events of this store's own actor that the store has not issued.
/// Otherwise later writes with those events would count as already seen by that client, and a merge
/// would drop them. Events of other actors are normal.
///
/// # Errors
///
/// Returns an error if the counter of `own` exceeds `issued_max`, the highest counter that the
/// store has issued.
pub fn check_context(
    clock: &VersionVector,
    own: &Actor,
    issued_max: u64,
) -> Result<(), ContextError> {
    let counter = clock.counter(own);
    if counter <= issued_max {
        return Ok(());
    }
    Err(ContextError::NeverIssued { actor: hex(&own.0), counter, issued_max })
}

fn decode_own(context: &[u8]) -> Result<VersionVector, ContextError> {
    let cut_off = || garbage(context, "it is cut off".into());
    let (body, sum) = context.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(cut_off)?;
    if *sum != checksum(body) {
        return Err(garbage(context, "its checksum is wrong".into()));
    }
    let mut cursor = Cursor::borrowing(body);
    let entry_count = read_header(&mut cursor).map_err(|_| cut_off())?;
    if entry_count > CONTEXT_ENTRIES_MAX {
        return Err(ContextError::TooManyEntries { entry_count });
    }
    let mut entries: SmallVec<[Dot; 2]> = SmallVec::new();
    for _ in 0..entry_count {
        let entry = read_entry(&mut cursor).map_err(|_| cut_off())?;
        let sorted = entries.last().is_none_or(|before| before.actor < entry.actor);
        if !sorted || entry.counter == 0 {
            return Err(garbage(context, "its entries are not sorted actors with counters".into()));
        }
        entries.push(entry);
    }
    if cursor.remaining() > 0 {
        return Err(garbage(context, "bytes follow its last entry".into()));
    }
    Ok(VersionVector::from_sorted(entries))
}

fn read_header(cursor: &mut Cursor<'_>) -> Result<usize, Truncated> {
    cursor.u8()?;
    cursor.count()
}

fn read_entry(cursor: &mut Cursor<'_>) -> Result<Dot, Truncated> {
    let actor = Actor(SmallVec::from_slice(cursor.counted_slice()?));
    Ok(Dot { actor, counter: cursor.varint()?, time_secs: 0 })
}

/// Decodes Riak's two forms: the external term `{encode_raw | encode_zlib, Data}`, and a raw
/// DEFLATE stream of a clock.
fn decode_riak(context: &[u8]) -> Result<VersionVector, RiakContextError> {
    if context.first() == Some(&ETF_VERSION)
        && let Ok(term) = Term::decode(&Bytes::copy_from_slice(context), &RIAK_CLOCK_LIMITS)
    {
        let [method, data] = term.as_tuple().ok_or(RiakContextError::NoMethod)?;
        if method.is_atom(b"encode_raw") {
            return Ok(clock_of_term(data)?);
        }
        let deflated = data.as_binary().filter(|_| method.is_atom(b"encode_zlib"));
        return inflated_clock(deflated.ok_or(RiakContextError::NoMethod)?);
    }
    inflated_clock(context)
}

fn inflated_clock(deflated: &[u8]) -> Result<VersionVector, RiakContextError> {
    let inflated =
        inflate_raw(deflated, RIAK_CLOCK_BYTES_MAX).ok_or(RiakContextError::NotDeflated)?;
    Ok(decode_riak_clock(&inflated, &RIAK_CLOCK_LIMITS)?)
}

#[derive(Debug, Error)]
enum RiakContextError {
    #[error("it is a term, but not {{encode_raw, Clock}} or {{encode_zlib, Data}}")]
    NoMethod,
    #[error("it does not inflate to at most {RIAK_CLOCK_BYTES_MAX} bytes")]
    NotDeflated,
    #[error(transparent)]
    Clock(#[from] RiakClockError),
}

fn garbage(context: &[u8], why: String) -> ContextError {
    let start = hex(context.get(..16).unwrap_or(context));
    ContextError::Garbage { size_bytes: context.len(), start, why }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("strings take everything");
        text
    })
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    low_u32(xxh3_64(bytes)).to_le_bytes()
}

#[cfg(test)]
mod tests;
