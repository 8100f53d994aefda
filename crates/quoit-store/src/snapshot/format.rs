//! The format of the file around the entries.
//!
//! ```text
//! header
//!   bytes 0..8    magic
//!   bytes 8..12   format version
//! entries of the partitions, 21 bytes each
//! state of the engine
//! table: for each partition, from 0 on
//!   bytes 0..8    offset of its entries
//!   bytes 8..16   number of its entries
//!   bytes 16..24  XXH3-64 of its entries
//! footer
//!   bytes 0..8    offset of the state
//!   bytes 8..16   size of the state
//!   bytes 16..20  number of partitions
//!   bytes 20..24  format version
//!   bytes 24..32  XXH3-64 of state, table, and bytes 0..24
//!   bytes 32..40  magic
//! ```
//!
//! All numbers are big-endian.

use crate::index::ENTRY_BYTES;

/// First and last bytes of every snapshot.
pub(super) const MAGIC: [u8; 8] = *b"\x8bQUOITI\n";

pub(super) const VERSION: u32 = 2;
pub(super) const HEADER_BYTES: usize = 12;
pub(super) const FOOTER_BYTES: usize = 40;

/// Number of bytes of the footer that its checksum covers.
pub(super) const FOOTER_CHECKED_BYTES: usize = 24;

/// Size of a row of the table in bytes.
pub(super) const ROW_BYTES: usize = 24;

/// Position and checksum of the entries of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Row {
    pub(super) offset: u64,
    pub(super) entry_count: u64,
    pub(super) checksum: u64,
}

impl Row {
    pub(super) fn encode(&self) -> [u8; ROW_BYTES] {
        let mut bytes = [0; ROW_BYTES];
        bytes[..8].copy_from_slice(&self.offset.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.entry_count.to_be_bytes());
        bytes[16..].copy_from_slice(&self.checksum.to_be_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; ROW_BYTES]) -> Self {
        Self {
            offset: u64_at(bytes, 0),
            entry_count: u64_at(bytes, 8),
            checksum: u64_at(bytes, 16),
        }
    }

    /// Size of the entries in bytes; `None` if they would not end before `end`.
    pub(super) fn size_bytes(&self, end: u64) -> Option<usize> {
        let size = self.entry_count.checked_mul(ENTRY_BYTES as u64)?;
        let within = self.offset >= HEADER_BYTES as u64 && self.offset.checked_add(size)? <= end;
        within.then(|| usize::try_from(size).ok()).flatten()
    }
}

pub(super) fn header() -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..].copy_from_slice(&VERSION.to_be_bytes());
    bytes
}

/// Contents of the footer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Footer {
    pub(super) state_offset: u64,
    pub(super) state_size: u64,
    pub(super) partition_count: u32,
    pub(super) version: u32,
    pub(super) checksum: u64,
}

impl Footer {
    /// The bytes of the footer that the checksum covers.
    pub(super) fn encode_checked(&self) -> [u8; FOOTER_CHECKED_BYTES] {
        let mut bytes = [0; FOOTER_CHECKED_BYTES];
        bytes[..8].copy_from_slice(&self.state_offset.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.state_size.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.partition_count.to_be_bytes());
        bytes[20..].copy_from_slice(&self.version.to_be_bytes());
        bytes
    }

    /// Decodes a footer; `None` if it does not end with the magic.
    pub(super) fn decode(bytes: &[u8; FOOTER_BYTES]) -> Option<Self> {
        let counts = u64_at(bytes, 16);
        (bytes[32..] == MAGIC).then(|| Self {
            state_offset: u64_at(bytes, 0),
            state_size: u64_at(bytes, 8),
            partition_count: (counts >> 32) as u32,
            version: quoit_number::low_u32(counts),
            checksum: u64_at(bytes, 24),
        })
    }
}

/// The number in the eight bytes at `at`.
#[expect(clippy::indexing_slicing, reason = "fields are within the header, the row or the footer")]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(eight)
}
