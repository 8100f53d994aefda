//! Entries of log files: a head of fixed size, the record's encoded name, and the encoded tombstone.
//!
//! ```text
//! byte  0  8  XXH3-64 of bytes 8 to 47, seeded with the file's salt
//! byte  8  8  sequence number
//! byte 16  8  identity of the record
//! byte 24  2  partition
//! byte 26  2  0
//! byte 28  4  length of the name, in bytes
//! byte 32  4  length of the tombstone, in bytes
//! byte 36  4  bytes of the file that were durable when the entry was written
//! byte 40  8  XXH3-64 of name and tombstone, seeded with the file's salt
//! byte 48     name, tombstone
//! ```
//!
//! Numbers are little-endian. A damaged name or tombstone affects only its own entry, since the head has the
//! lengths. After a damaged head, the reader looks for the next head by its checksum. Without the salt, a
//! client could choose a key whose bytes would then be read as an entry.

use super::{ReapRecord, ReapSequence};
use crate::appended::appended;
use crate::little_endian::{u32_at, u64_at};
use bytes::Bytes;
use quoit_model::hash::{Identity, Partition};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// Size of a head, in bytes.
pub(super) const HEAD_BYTES: usize = 48;
/// Size of the checksum at the beginning of a head, in bytes.
const CHECKSUM_BYTES: usize = 8;

/// The head of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EntryHead {
    pub(super) sequence: ReapSequence,
    pub(super) partition: Partition,
    pub(super) identity: Identity,
    /// Bytes of the file that were durable when the entry was written.
    pub(super) durable_bytes: u32,
    name_bytes: u32,
    tombstone_bytes: u32,
    body_checksum: u64,
}

impl EntryHead {
    /// Reads a head; `None` if the bytes are not a sound head.
    pub(super) fn read(bytes: &[u8], salt: u64) -> Option<Self> {
        let bytes: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
        // This check rejects most other bytes without computing a checksum.
        if bytes[26..28] != [0; 2] {
            return None;
        }
        let checksum = xxh3_64_with_seed(&bytes[CHECKSUM_BYTES..], salt);
        if checksum != u64_at(bytes, 0)? {
            return None;
        }
        Some(Self {
            sequence: ReapSequence(u64_at(bytes, 8)?),
            identity: Identity(u64_at(bytes, 16)?),
            partition: Partition(u16::from_le_bytes([bytes[24], bytes[25]])),
            name_bytes: u32_at(bytes, 28)?,
            tombstone_bytes: u32_at(bytes, 32)?,
            durable_bytes: u32_at(bytes, 36)?,
            body_checksum: u64_at(bytes, 40)?,
        })
    }

    /// Returns the size of the whole entry, in bytes.
    pub(super) const fn entry_bytes(&self) -> usize {
        HEAD_BYTES + self.name_bytes as usize + self.tombstone_bytes as usize
    }

    /// Returns the record of the entry that begins with this head; `None` if the entry is damaged or
    /// incomplete.
    pub(super) fn record(&self, entry: &Bytes, salt: u64) -> Option<ReapRecord> {
        if entry.len() < self.entry_bytes() {
            return None;
        }
        let body = entry.slice(HEAD_BYTES..self.entry_bytes());
        (xxh3_64_with_seed(&body, salt) == self.body_checksum).then(|| ReapRecord {
            partition: self.partition,
            identity: self.identity,
            name: body.slice(..self.name_bytes as usize),
            tombstone: body.slice(self.name_bytes as usize..),
        })
    }
}

/// Appends the entry of a record to a buffer.
///
/// # Panics
///
/// If the name or the tombstone has 4 GiB or more.
pub(super) fn append_entry(
    record: &ReapRecord,
    sequence: ReapSequence,
    durable_bytes: u32,
    salt: u64,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let length =
        |bytes: &Bytes| u32::try_from(bytes.len()).expect("objects are smaller than 4 GiB");
    let mut body = Xxh3::with_seed(salt);
    body.update(&record.name);
    body.update(&record.tombstone);
    let mut head = [0; HEAD_BYTES];
    head[8..16].copy_from_slice(&sequence.0.to_le_bytes());
    head[16..24].copy_from_slice(&record.identity.0.to_le_bytes());
    head[24..26].copy_from_slice(&record.partition.0.to_le_bytes());
    head[28..32].copy_from_slice(&length(&record.name).to_le_bytes());
    head[32..36].copy_from_slice(&length(&record.tombstone).to_le_bytes());
    head[36..40].copy_from_slice(&durable_bytes.to_le_bytes());
    head[40..48].copy_from_slice(&body.digest().to_le_bytes());
    let checksum = xxh3_64_with_seed(&head[CHECKSUM_BYTES..], salt);
    head[..8].copy_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&head);
    out.extend_from_slice(&record.name);
    out.extend_from_slice(&record.tombstone);
    debug_assert_eq!(
        EntryHead::read(appended(out, start), salt).map(|head| head.entry_bytes()),
        Some(out.len() - start),
        "an entry is as long as its head says"
    );
}

/// A part of a log file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum LogPart {
    /// An entry.
    Whole(EntryHead, ReapRecord),
    /// An entry with a sound head, whose record is damaged or incomplete.
    Damaged(EntryHead),
    /// Bytes without a sound head.
    Unknown,
}

/// Iterator over the parts of a log file from an offset on, with the range of bytes of each.
pub(super) struct LogParts<'a> {
    bytes: &'a Bytes,
    salt: u64,
    offset: usize,
}

impl<'a> LogParts<'a> {
    pub(super) const fn new(bytes: &'a Bytes, salt: u64, offset: usize) -> Self {
        Self { bytes, salt, offset }
    }
}

impl Iterator for LogParts<'_> {
    type Item = (std::ops::Range<usize>, LogPart);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.offset;
        let rest = self.bytes.get(start..).filter(|rest| !rest.is_empty())?;
        let Some(head) = EntryHead::read(rest, self.salt) else {
            let mut heads = rest.windows(HEAD_BYTES).skip(1);
            let next = heads.position(|bytes| EntryHead::read(bytes, self.salt).is_some());
            let length = next.map_or(rest.len(), |between| 1 + between);
            self.offset = start + length;
            return Some((start..self.offset, LogPart::Unknown));
        };
        self.offset = self.bytes.len().min(start + head.entry_bytes());
        debug_assert!(self.offset > start, "each part has bytes, so the parts come to an end");
        let part = match head.record(&self.bytes.slice(start..self.offset), self.salt) {
            Some(record) => LogPart::Whole(head, record),
            None => LogPart::Damaged(head),
        };
        Some((start..self.offset, part))
    }
}
