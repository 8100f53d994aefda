//! Common parts of tables and logs: numbers, checksums, keys with sequence numbers, blocks.

use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;

/// Size in bytes of sequence number and kind, which follow a key. Before them, an entry with an expiry has a
/// time of eight bytes.
const SUFFIX_BYTES: usize = 8;
const MASK_DELTA: u32 = 0xa282_ead8;

/// Kinds of entries: a deletion, a value, and values with the time of their writing or of their
/// expiry.
pub(super) const DELETION: u8 = 0;
pub(super) const VALUE: u8 = 1;
pub(super) const VALUE_WRITTEN_AT: u8 = 2;
pub(super) const VALUE_EXPIRES_AT: u8 = 3;

/// An entry of a table or a log.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: Bytes,
    pub(super) sequence: u64,
    /// The value; `None` for a deletion.
    pub(super) value: Option<Bytes>,
    /// Time of writing in seconds since 1970, if the entry has one.
    pub(super) written_secs: Option<u32>,
    /// Time of expiry in microseconds since 1970, if the entry has one.
    pub(super) expires_at_us: Option<u64>,
    pub(super) file: Arc<Path>,
    /// Offset of the block or record that has the entry.
    pub(super) at: u64,
}

/// Reads a number in groups of seven bits, lowest group first.
pub(super) fn varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = input.split_first()?;
        *input = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Reads a length and that many bytes.
pub(super) fn counted<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(varint(input)?).ok()?;
    let (part, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(part)
}

/// True if a stored checksum matches the bytes.
pub(super) fn has_checksum(bytes: &[u8], stored: u32) -> bool {
    let checksum = crc32c::crc32c(bytes);
    checksum.rotate_right(15).wrapping_add(MASK_DELTA) == stored
}

/// The parts of a table's key.
pub(super) struct TableKey {
    pub(super) key: Bytes,
    pub(super) sequence: u64,
    pub(super) kind: u8,
    pub(super) written_secs: Option<u32>,
    pub(super) expires_at_us: Option<u64>,
}

impl TableKey {
    /// `None` if the bytes are not a key of a table.
    pub(super) fn read(stored: &Bytes) -> Option<Self> {
        let (rest, suffix) = stored.split_last_chunk::<SUFFIX_BYTES>()?;
        let suffix = u64::from_le_bytes(*suffix);
        let kind = quoit_number::low_u8(suffix);
        let (key, time) = match kind {
            DELETION | VALUE => (rest, 0),
            VALUE_WRITTEN_AT | VALUE_EXPIRES_AT => {
                let (key, time) = rest.split_last_chunk()?;
                (key, u64::from_le_bytes(*time))
            }
            _ => return None,
        };
        let key = stored.slice_ref(key);
        let (written_secs, expires_at_us) = (written_of(kind, time), expiry_of(kind, time));
        Some(Self { key, sequence: suffix >> 8, kind, written_secs, expires_at_us })
    }
}

/// The second in which an entry of this kind with this time was written; 0 stands for none.
pub(super) fn written_of(kind: u8, time: u64) -> Option<u32> {
    let secs = (kind == VALUE_WRITTEN_AT && time != 0).then_some(time / 1_000_000)?;
    u32::try_from(secs).ok()
}

/// The time of expiry of an entry of this kind with this time; 0 stands for none.
pub(super) fn expiry_of(kind: u8, time: u64) -> Option<u64> {
    (kind == VALUE_EXPIRES_AT && time != 0).then_some(time)
}

/// Keys and values of a block, in order; `None` if the block is damaged. A key is stored as the
/// length of the prefix that it shares with the previous key, and its other bytes. After the
/// entries are the offsets of keys that are stored whole.
pub(super) fn entries_of(block: &Bytes) -> Option<Vec<(Bytes, Bytes)>> {
    let restarts = u32::from_le_bytes(*block.last_chunk()?) as usize;
    let end = block.len().checked_sub(restarts.checked_add(1)?.checked_mul(4)?)?;
    let mut input = block.get(..end)?;
    let mut entries = Vec::new();
    let mut key: Vec<u8> = Vec::new();
    while !input.is_empty() {
        let shared = usize::try_from(varint(&mut input)?).ok()?;
        let own = usize::try_from(varint(&mut input)?).ok()?;
        let value_len = usize::try_from(varint(&mut input)?).ok()?;
        if shared > key.len() {
            return None;
        }
        key.truncate(shared);
        let (delta, rest) = input.split_at_checked(own)?;
        key.extend_from_slice(delta);
        let (value, rest) = rest.split_at_checked(value_len)?;
        entries.push((Bytes::copy_from_slice(&key), block.slice_ref(value)));
        input = rest;
    }
    Some(entries)
}

/// The first key of a block, which is stored whole.
pub(super) fn first_entry_of(block: &Bytes) -> Option<Bytes> {
    let mut input = &block[..];
    let shared = varint(&mut input)?;
    let own = usize::try_from(varint(&mut input)?).ok()?;
    varint(&mut input)?;
    input.get(..own).filter(|_| shared == 0).map(|key| block.slice_ref(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tables_key_has_the_time_of_its_writing_or_of_its_expiry() {
        let stored = |kind: u8, time: &[u8]| {
            let suffix = (7 << 8 | u64::from(kind)).to_le_bytes();
            TableKey::read(&[b"key", time, &suffix].concat().into()).expect("a key")
        };
        let time = 1_700_000_000_000_000u64.to_le_bytes();
        for (kind, time, written, expires) in [
            (VALUE, &[][..], None, None),
            (VALUE_WRITTEN_AT, &time, Some(1_700_000_000), None),
            (VALUE_WRITTEN_AT, &[0; 8], None, None),
            (VALUE_EXPIRES_AT, &time, None, Some(1_700_000_000_000_000)),
            (VALUE_EXPIRES_AT, &[0; 8], None, None),
        ] {
            let read = stored(kind, time);
            assert_eq!((&read.key[..], read.sequence, read.kind), (&b"key"[..], 7, kind));
            assert_eq!((read.written_secs, read.expires_at_us), (written, expires), "kind {kind}");
        }
    }
}
