//! The frame around each record of the log.
//!
//! ```text
//! byte  0  4  magic 51 ba 7e c0
//! byte  4  4  low half of XXH3-64 of bytes 8..56, seeded with store id and position
//! byte  8  8  sequence
//! byte 16  1  kind: 1 put, 2 remove, 3 batch, 4 drop of a partition
//! byte 17  1  flags: bit 0 tombstone, 1 replaces, 2 shares its tag, 3 inside a batch,
//!             4 has index entries
//! byte 18  2  partition
//! byte 20  1  n_val class, 0 for a piece of a record
//! byte 21  1  how much of the log before was durable ([`SyncedDistance`]), 0 = unknown
//! byte 22  2  size of the encoded key
//! byte 24  4  size of the value
//! byte 28  4  seconds since 1970 when the record expires, 0 = never
//! byte 32  8  identity
//! byte 40  8  digest
//! byte 48  8  XXH3-64 of key and value, xor store id
//! byte 56     key, value, zeros up to a multiple of 16
//! ```
//!
//! Numbers are little-endian. Both checksums depend on the store's random id, which clients never see. So a
//! value that was crafted to look like a record is not mistaken for one when the record around it is damaged.

use super::synced::SyncedDistance;
use crate::engine::RecordMeta;
use quoit_model::hash::{Identity, Partition};
use quoit_model::store_opening::StoreId;
use quoit_number::low_u32;
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

/// Alignment of records in bytes.
pub const ALIGNMENT_BYTES: usize = 16;

/// Size in bytes of the frame before key and value.
pub const HEADER_BYTES: usize = 56;

/// Bytes between the header of a batch and its first record: the number of records, which also keeps the
/// alignment.
pub const BATCH_PREFIX_BYTES: usize = 8;

/// Maximum size in bytes of a record with its key and value, and of a batch.
pub const RECORD_BYTES_MAX: u64 = 1 << 30;

const MAGIC: [u8; 4] = [0x51, 0xba, 0x7e, 0xc0];

const FLAG_TOMBSTONE: u8 = 1;
const FLAG_REPLACES: u8 = 1 << 1;
const FLAG_SHARES_TAG: u8 = 1 << 2;
const FLAG_IN_BATCH: u8 = 1 << 3;
const FLAG_INDEXED: u8 = 1 << 4;

/// Effect of a log record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// Stores a value.
    Put,
    /// Removes a key.
    Remove,
    /// Contains records of which all or none take effect.
    Batch,
    /// Removes all records of a partition that were written before.
    DropPartition,
}

/// The fields of the frame except the checksums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHeader {
    /// Position in the order of all writes of the store.
    pub sequence: u64,
    /// Effect of the record.
    pub kind: RecordKind,
    /// True if the index had an older version of the key when this record was written.
    pub replaces: bool,
    /// True if the index had another key with the same tag when this record was written.
    pub shares_tag: bool,
    /// True if the record takes effect only together with the batch around it.
    pub in_batch: bool,
    /// Partition of the record.
    pub partition: Partition,
    /// Identity of the record.
    pub identity: Identity,
    /// Size of the encoded key in bytes.
    pub key_bytes: u16,
    /// Size of the value in bytes.
    pub value_bytes: u32,
    /// Metadata that the caller stored with the record.
    pub meta: RecordMeta,
    /// Part of the log before this record that was durable when the record was written.
    pub synced: SyncedDistance,
}

impl RecordHeader {
    /// Size of header, key and value in bytes.
    #[must_use]
    pub const fn record_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + self.key_bytes as u64 + self.value_bytes as u64
    }

    /// Distance to the next record in bytes.
    #[must_use]
    pub const fn padded_bytes(&self) -> u64 {
        self.record_bytes().next_multiple_of(ALIGNMENT_BYTES as u64)
    }
}

/// The position of a record, on which its header's checksum depends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Id of the store.
    pub store_id: StoreId,
    /// Number of the segment.
    pub segment: u32,
    /// Offset of the record in the segment, in bytes.
    pub offset: u64,
}

impl Position {
    fn seed(&self) -> u64 {
        let place = (u64::from(self.segment) << 32) | (self.offset / ALIGNMENT_BYTES as u64);
        self.store_id.0.wrapping_add(place.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// Checksum of a record's body (key and value, or the contents of a batch).
#[must_use]
pub fn body_check(store_id: StoreId, body: &[u8]) -> u64 {
    xxh3_64(body) ^ store_id.0
}

/// As [`body_check`], for a body in two parts.
#[must_use]
pub fn body_check_of_parts(store_id: StoreId, front: &[u8], rest: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(front);
    hasher.update(rest);
    hasher.digest() ^ store_id.0
}

/// Writes a header to the first [`HEADER_BYTES`] of `out`.
///
/// # Panics
///
/// If `out` is shorter, or the record is larger than [`RECORD_BYTES_MAX`].
pub fn encode(header: &RecordHeader, body_check: u64, position: &Position, out: &mut [u8]) {
    // `decode` takes a header with a larger size for damage.
    assert!(header.record_bytes() <= RECORD_BYTES_MAX, "only records that can be read are written");
    debug_assert!(
        position.offset.is_multiple_of(ALIGNMENT_BYTES as u64),
        "a search finds a record only at a multiple of its alignment"
    );
    debug_assert!(
        !header.in_batch || matches!(header.kind, RecordKind::Put | RecordKind::Remove),
        "batches contain writes of records"
    );
    let out: &mut [u8; HEADER_BYTES] =
        out.first_chunk_mut().expect("the caller keeps room for the header");
    let kind = match header.kind {
        RecordKind::Put => 1,
        RecordKind::Remove => 2,
        RecordKind::Batch => 3,
        RecordKind::DropPartition => 4,
    };
    let flags = u8::from(header.meta.tombstone) * FLAG_TOMBSTONE
        + u8::from(header.replaces) * FLAG_REPLACES
        + u8::from(header.shares_tag) * FLAG_SHARES_TAG
        + u8::from(header.in_batch) * FLAG_IN_BATCH
        + u8::from(header.meta.indexed) * FLAG_INDEXED;
    out[0..4].copy_from_slice(&MAGIC);
    out[8..16].copy_from_slice(&header.sequence.to_le_bytes());
    out[16..18].copy_from_slice(&[kind, flags]);
    out[18..20].copy_from_slice(&header.partition.0.to_le_bytes());
    out[20..22].copy_from_slice(&[header.meta.n_val_class, header.synced.code()]);
    out[22..24].copy_from_slice(&header.key_bytes.to_le_bytes());
    out[24..28].copy_from_slice(&header.value_bytes.to_le_bytes());
    out[28..32].copy_from_slice(&header.meta.expires_at_secs.to_le_bytes());
    out[32..40].copy_from_slice(&header.identity.0.to_le_bytes());
    out[40..48].copy_from_slice(&header.meta.digest.to_le_bytes());
    out[48..56].copy_from_slice(&body_check.to_le_bytes());
    let check = header_check(out, position);
    out[4..8].copy_from_slice(&check);
}

/// Decodes the header at the start of `bytes`. Returns it with the checksum of the body; `None` if no valid
/// header of this position is there.
#[must_use]
pub fn decode(bytes: &[u8], position: &Position) -> Option<(RecordHeader, u64)> {
    let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
    if bytes[0..4] != MAGIC || bytes[4..8] != header_check(bytes, position) {
        return None;
    }
    let kind = match bytes[16] {
        1 => RecordKind::Put,
        2 => RecordKind::Remove,
        3 => RecordKind::Batch,
        4 => RecordKind::DropPartition,
        _ => return None,
    };
    let flags = bytes[17];
    let header = RecordHeader {
        sequence: u64_at(bytes, 8),
        kind,
        replaces: flags & FLAG_REPLACES != 0,
        shares_tag: flags & FLAG_SHARES_TAG != 0,
        in_batch: flags & FLAG_IN_BATCH != 0,
        partition: Partition(u16_at(bytes, 18)),
        identity: Identity(u64_at(bytes, 32)),
        key_bytes: u16_at(bytes, 22),
        value_bytes: u32_at(bytes, 24),
        meta: RecordMeta {
            digest: u64_at(bytes, 40),
            tombstone: flags & FLAG_TOMBSTONE != 0,
            n_val_class: bytes[20],
            expires_at_secs: u32_at(bytes, 28),
            indexed: flags & FLAG_INDEXED != 0,
        },
        synced: SyncedDistance::from_code(bytes[21]),
    };
    (header.record_bytes() <= RECORD_BYTES_MAX).then(|| (header, u64_at(bytes, 48)))
}

/// True if a header may start here: the cheap test before [`decode`].
#[must_use]
pub fn has_magic(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

fn header_check(bytes: &[u8; HEADER_BYTES], position: &Position) -> [u8; 4] {
    low_u32(xxh3_64_with_seed(&bytes[8..], position.seed())).to_le_bytes()
}

#[expect(clippy::indexing_slicing, reason = "fields are within the header")]
fn u16_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[expect(clippy::indexing_slicing, reason = "fields are within the header")]
fn u32_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(four)
}

#[expect(clippy::indexing_slicing, reason = "fields are within the header")]
fn u64_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}
