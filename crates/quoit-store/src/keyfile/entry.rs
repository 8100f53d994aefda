//! Key file entry: the facts about one key, and their encoding.
//!
//! ```text
//! flags       1 byte: bit 0 remove, bit 1 tombstone, bit 2 expires, bit 3 drop of a partition,
//!             bits 0 and 3 together a record with index entries, bits 4-7 n_val class
//! shared      varint: length of the common prefix with the key before
//! suffix size varint
//! suffix      the other bytes of the encoded key
//! identity    8 bytes
//! digest      8 bytes
//! sequence    varint, less the base of the file
//! partition   varint
//! offset      varint, in units of 16 bytes
//! size        varint, in bytes
//! expiry      varint, seconds since 1970; only with bit 2
//! ```
//!
//! Numbers of fixed size are big-endian. A varint has seven bits in each byte, the lowest first, and the
//! highest bit set in all bytes but the last.

use crate::engine::RecordMeta;
use crate::index::Location;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::{BucketRef, ENCODED_KEY_BYTES_MAX, KeyRef};
use quoit_number::low_u8;
use std::cmp::Ordering;

/// Effect of a write on its key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WriteKind {
    /// Stores a record.
    Put,
    /// Removes the record and leaves no tombstone.
    Remove,
    /// Removes all records of the partition that were written before. Its key is [`KeyWrite::DROP_KEY`].
    DropPartition,
}

/// The facts about a write, without the name of the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyWrite {
    /// Effect of the write.
    pub kind: WriteKind,
    /// Hash by which the index finds the record.
    pub identity: Identity,
    /// The partition that the record belongs to.
    pub partition: Partition,
    /// Position in the order of the store's writes.
    pub sequence: u64,
    /// Offset of the record in the segment, a multiple of 16.
    pub offset_bytes: u64,
    /// Size of the record in the segment, in bytes.
    pub size_bytes: u32,
    /// Metadata that the caller stored with the record.
    pub meta: RecordMeta,
}

impl KeyWrite {
    /// The name that key files use for drops of partitions.
    pub const DROP_KEY: KeyRef<'static> =
        KeyRef { bucket: BucketRef { bucket_type: &[0], bucket: &[0] }, key: &[0] };

    /// True if two writes with these facts are of one record when they have the same key.
    pub(super) fn may_share_record(&self, other: &Self) -> bool {
        self.partition == other.partition && self.is_drop() == other.is_drop()
    }

    fn is_drop(&self) -> bool {
        self.kind == WriteKind::DropPartition
    }
}

/// A write of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyEntry<'a> {
    /// The record's name.
    pub key: KeyRef<'a>,
    /// The name in its encoded form.
    pub encoded: &'a [u8],
    /// Facts about the write.
    pub facts: KeyWrite,
}

impl KeyEntry<'_> {
    /// The order of entries in a key file: by key, then by partition, with the newest write first.
    #[must_use]
    pub fn compare(&self, other: &KeyEntry<'_>) -> Ordering {
        self.key
            .cmp(&other.key)
            .then(self.facts.partition.cmp(&other.facts.partition))
            .then(self.facts.is_drop().cmp(&other.facts.is_drop()))
            .then(other.facts.sequence.cmp(&self.facts.sequence))
    }

    /// True if both are writes of the same record.
    #[must_use]
    pub fn is_of_same_record(&self, other: &KeyEntry<'_>) -> bool {
        self.encoded == other.encoded && self.facts.may_share_record(&other.facts)
    }
}

const FLAG_REMOVE: u8 = 1;
const FLAG_TOMBSTONE: u8 = 1 << 1;
const FLAG_EXPIRES: u8 = 1 << 2;
const FLAG_DROP: u8 = 1 << 3;
/// Two flags that otherwise exclude each other: a put of a record with index entries.
const KIND_INDEXED: u8 = FLAG_REMOVE | FLAG_DROP;
const N_VAL_CLASS_SHIFT: u32 = 4;

/// The encoded key of the entry before; empty for the first entry. An entry has only the bytes of its key
/// that differ from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyBefore<'k>(pub(super) &'k [u8]);

/// Appends an entry.
///
/// # Panics
///
/// If the sequence is below `sequence_base`.
#[expect(clippy::indexing_slicing, reason = "`shared` counts bytes of the key")]
pub(super) fn encode(
    encoded: &[u8],
    facts: &KeyWrite,
    before: KeyBefore<'_>,
    sequence_base: u64,
    out: &mut Vec<u8>,
) {
    let meta = &facts.meta;
    let kind = match facts.kind {
        WriteKind::Put => u8::from(meta.indexed) * KIND_INDEXED,
        WriteKind::Remove => FLAG_REMOVE,
        WriteKind::DropPartition => FLAG_DROP,
    };
    let flags = kind
        + u8::from(meta.tombstone) * FLAG_TOMBSTONE
        + u8::from(meta.expires_at_secs != 0) * FLAG_EXPIRES
        + (meta.n_val_class.min(15) << N_VAL_CLASS_SHIFT);
    out.push(flags);
    let shared = encoded.iter().zip(before.0).take_while(|(one, other)| one == other).count();
    let suffix = &encoded[shared..];
    push_varint(shared as u64, out);
    push_varint(suffix.len() as u64, out);
    out.extend_from_slice(suffix);
    out.extend_from_slice(&facts.identity.0.to_be_bytes());
    out.extend_from_slice(&meta.digest.to_be_bytes());
    let sequence = facts.sequence.checked_sub(sequence_base);
    push_varint(sequence.expect("the base is the lowest sequence"), out);
    push_varint(u64::from(facts.partition.0), out);
    push_varint(facts.offset_bytes / Location::ALIGNMENT_BYTES, out);
    push_varint(u64::from(facts.size_bytes), out);
    if meta.expires_at_secs != 0 {
        push_varint(u64::from(meta.expires_at_secs), out);
    }
}

/// Decodes an entry from the front of `input`. `key` must have the encoded key of the entry before, and has
/// that of this entry afterwards. Returns `None` if the bytes are not an entry.
pub(super) fn decode(input: &mut &[u8], key: &mut Vec<u8>, sequence_base: u64) -> Option<KeyWrite> {
    let (&flags, rest) = input.split_first()?;
    let mut rest = rest;
    read_suffix(&mut rest, key)?;
    let facts = decode_facts(flags, &mut rest, sequence_base)?;
    *input = rest;
    Some(facts)
}

/// Decodes an entry at the start of `input` that was encoded with an empty key before it and a base of 0.
pub(super) fn decode_whole(input: &[u8]) -> Option<KeyEntry<'_>> {
    let (encoded, mut rest) = decode_whole_key(input)?;
    let facts = decode_facts(*input.first()?, &mut rest, 0)?;
    Some(KeyEntry { key: KeyRef::decode(encoded).ok()?, encoded, facts })
}

/// Like [`decode_whole`], but returns the encoded key and the bytes after it.
pub(super) fn decode_whole_key(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = input.get(1..)?;
    if read_varint(&mut rest)? != 0 {
        return None;
    }
    let size = usize::try_from(read_varint(&mut rest)?).ok()?;
    rest.split_at_checked(size)
}

fn decode_facts(flags: u8, rest: &mut &[u8], sequence_base: u64) -> Option<KeyWrite> {
    let kind = match flags & (FLAG_REMOVE | FLAG_DROP) {
        0 => WriteKind::Put,
        FLAG_REMOVE => WriteKind::Remove,
        FLAG_DROP => WriteKind::DropPartition,
        // Both.
        _ => WriteKind::Put,
    };
    let identity = Identity(read_u64(rest)?);
    let digest = read_u64(rest)?;
    let sequence = sequence_base.checked_add(read_varint(rest)?)?;
    let partition = Partition(u16::try_from(read_varint(rest)?).ok()?);
    let offset_bytes = read_varint(rest)?.checked_mul(Location::ALIGNMENT_BYTES)?;
    let size_bytes = u32::try_from(read_varint(rest)?).ok()?;
    let expires_at_secs = match flags & FLAG_EXPIRES {
        0 => 0,
        _ => u32::try_from(read_varint(rest)?).ok()?,
    };
    Some(KeyWrite {
        kind,
        identity,
        partition,
        sequence,
        offset_bytes,
        size_bytes,
        meta: RecordMeta {
            digest,
            tombstone: flags & FLAG_TOMBSTONE != 0,
            n_val_class: flags >> N_VAL_CLASS_SHIFT,
            expires_at_secs,
            indexed: flags & KIND_INDEXED == KIND_INDEXED,
        },
    })
}

/// Decodes the length of the common prefix and the suffix, and applies them to the key before.
pub(super) fn read_suffix(input: &mut &[u8], key: &mut Vec<u8>) -> Option<()> {
    let shared = usize::try_from(read_varint(input)?).ok()?;
    let suffix_size = usize::try_from(read_varint(input)?).ok()?;
    let (suffix, rest) = input.split_at_checked(suffix_size)?;
    if shared > key.len() || shared + suffix_size > ENCODED_KEY_BYTES_MAX {
        return None;
    }
    key.truncate(shared);
    key.extend_from_slice(suffix);
    *input = rest;
    Some(())
}

/// Appends a varint.
pub(super) fn push_varint(number: u64, out: &mut Vec<u8>) {
    let mut rest = number;
    while rest >= 0x80 {
        out.push(low_u8(rest) | 0x80);
        rest >>= 7;
    }
    out.push(low_u8(rest));
}

/// Decodes a varint from the front of `input`. Returns `None` if it is cut off or too large.
pub(super) fn read_varint(input: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn read_u64(input: &mut &[u8]) -> Option<u64> {
    let (bytes, rest) = input.split_first_chunk::<8>()?;
    *input = rest;
    Some(u64::from_be_bytes(*bytes))
}
