//! Values that identify their write. Every byte follows from the run, the key and the number of the write.
//!
//! ```text
//! 0..4     "QVF1"
//! 4..8     run
//! 8..16    XXH3-64 of the key
//! 16..24   number of the write
//! 24..32   check: XXH3-64 of bytes 0..24 and the size of the value
//! 32..     SplitMix64 of the check, counted on
//! ```
//!
//! Numbers are little-endian.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::random::mix;

/// Size of the header of each value, and so the minimum size of a value.
pub const VALUE_SIZE_BYTES_MIN: usize = 32;
const _: () = assert!(VALUE_SIZE_BYTES_MIN.is_multiple_of(8), "the filler begins at a whole word");

const MAGIC: [u8; 4] = *b"QVF1";

/// The meaning of a value's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecodedValue {
    /// A write of this run to the key with this hash.
    Own { key_hash: u64, sequence: u64 },
    /// A write of another run, damaged or not.
    OtherRun,
    /// A value of this run with changed bytes.
    Damaged,
    /// Not a value of a verified run.
    Unknown,
}

/// The hash that identifies a key.
pub(super) fn key_hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// The numbers that identify a write.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriteIdentity {
    /// Number of the run.
    pub(super) run: u32,
    pub(super) key_hash: u64,
    /// Number of the write.
    pub(super) sequence: u64,
}

/// Writes the value of a write. A size below the minimum is raised to it.
pub(super) fn write_value(value: &mut Vec<u8>, write: WriteIdentity, size_bytes: usize) {
    let WriteIdentity { run, key_hash, sequence } = write;
    let size_bytes = size_bytes.max(VALUE_SIZE_BYTES_MIN);
    value.clear();
    value.reserve(size_bytes);
    value.extend_from_slice(&MAGIC);
    value.extend_from_slice(&run.to_le_bytes());
    value.extend_from_slice(&key_hash.to_le_bytes());
    value.extend_from_slice(&sequence.to_le_bytes());
    let check = check_of(value, size_bytes);
    value.extend_from_slice(&check.to_le_bytes());
    value.resize(size_bytes, 0);
    // The header is four words of eight bytes.
    let (words, rest) = value.as_chunks_mut::<8>();
    let mut index = 0;
    for word in words.iter_mut().skip(VALUE_SIZE_BYTES_MIN / 8) {
        *word = filler(check, index);
        index += 1;
    }
    rest.iter_mut().zip(filler(check, index)).for_each(|(byte, filled)| *byte = filled);
}

/// Decodes a value and checks every byte of it.
pub(super) fn decode(value: &[u8], run: u32) -> DecodedValue {
    let Some((head, tail)) = value.split_first_chunk::<VALUE_SIZE_BYTES_MIN>() else {
        return if value.starts_with(&MAGIC) {
            DecodedValue::Damaged
        } else {
            DecodedValue::Unknown
        };
    };
    let is_marked = head.starts_with(&MAGIC);
    let is_own = head[4..8] == run.to_le_bytes();
    let (key_hash, sequence, check) = (word(&head[8..16]), word(&head[16..24]), word(&head[24..]));
    let is_whole = is_marked
        && check == check_of(&head[..24], value.len())
        && (0_u64..)
            .zip(tail.chunks(8))
            .all(|(index, chunk)| filler(check, index).starts_with(chunk));
    match (is_marked, is_own, is_whole) {
        (true, true, true) => DecodedValue::Own { key_hash, sequence },
        // One of mark and run number is enough to recognize a damaged value. With neither of them, it never
        // was a value of this run.
        (true, false, _) => DecodedValue::OtherRun,
        (true, true, false) | (false, true, _) => DecodedValue::Damaged,
        (false, false, _) => DecodedValue::Unknown,
    }
}

/// The number in eight bytes.
fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

fn check_of(head: &[u8], size_bytes: usize) -> u64 {
    xxh3_64_with_seed(head, size_bytes as u64)
}

fn filler(check: u64, index: u64) -> [u8; 8] {
    mix(check.wrapping_add(index)).to_le_bytes()
}
