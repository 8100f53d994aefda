//! The file of a part: the hash of each record, in the order of tags.
//!
//! ```text
//! byte  0  8  magic "QUOITRT\n"
//! byte  8  4  format version 1
//! byte 12  4  n_val
//! byte 16  2  partition
//! byte 18  6  zeros
//! byte 24  8  XXH3-64 of all bytes before
//! ```
//!
//! Blocks follow. A block has a head and the number of entries that the head says:
//!
//! ```text
//! head   0  4  number of entries, 1 to 4096
//!        4  4  zeros
//!        8  8  XXH3-64 of the entries, seeded with n_val * 2^16 + partition
//! entry  0  8  tag, 40 bits; the highest bit is set for a tombstone
//!        8  8  digest by which the record is compared
//!       16  4  segment
//!       20  4  value
//! ```
//!
//! Numbers are little-endian. An entry is used only for a record with the same tag, digest and
//! tombstone bit, so an entry that outlives its record does no harm. The file is therefore never
//! synced: blocks that a power cut has damaged count as absent.

use super::PartName;
use super::kept::KeptLeaf;
use crate::little_endian::{u32_at, u64_at};
use quoit_riak::TreeEntry;
use quoit_seam::{Disk, DiskFile};
use quoit_store::compare::Leaf;
use quoit_store::error::StoreError;
use quoit_store::index::Tag;
use std::collections::VecDeque;
use std::sync::Arc;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const MAGIC: [u8; 8] = *b"QUOITRT\n";
const VERSION: u32 = 1;
const FILE_HEAD_BYTES: usize = 32;
const BLOCK_HEAD_BYTES: usize = 16;
const ENTRY_BYTES: usize = 24;
/// Maximum number of entries in a block.
const BLOCK_COUNT: usize = 4_096;
const TOMBSTONE_BIT: u64 = 1 << 63;

fn head(name: PartName) -> [u8; FILE_HEAD_BYTES] {
    let mut bytes = [0; FILE_HEAD_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&name.n_val.to_le_bytes());
    bytes[16..18].copy_from_slice(&name.partition.0.to_le_bytes());
    let sum = xxh3_64(&bytes[..24]);
    bytes[24..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Checksum of a block's entries. The seed makes blocks of another part fail the check.
fn block_sum(entries: &[u8], name: PartName) -> u64 {
    xxh3_64_with_seed(entries, u64::from(name.n_val) << 16 | u64::from(name.partition.0))
}

impl KeptLeaf {
    fn append_to(self, out: &mut Vec<u8>) {
        let Leaf { tag, digest, tombstone } = self.leaf;
        let tombstone_bit = if tombstone { TOMBSTONE_BIT } else { 0 };
        out.extend_from_slice(&(tag.number() | tombstone_bit).to_le_bytes());
        out.extend_from_slice(&digest.to_le_bytes());
        out.extend_from_slice(&self.entry.segment.to_le_bytes());
        out.extend_from_slice(&self.entry.value.to_le_bytes());
    }

    fn read(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let long = |at: usize| u64_at(bytes, at).expect("an entry has all of its fields");
        let short = |at: usize| u32_at(bytes, at).expect("an entry has all of its fields");
        let leaf = Leaf {
            tag: Tag::from_number(long(0)),
            digest: long(8),
            tombstone: long(0) & TOMBSTONE_BIT != 0,
        };
        Self { leaf, entry: TreeEntry { segment: short(16), value: short(20) } }
    }
}

/// A file with these bytes as the entries of its only block, for fuzzing.
#[cfg(any(test, feature = "testing"))]
pub(super) fn file_of_entries(name: PartName, bytes: &[u8]) -> Vec<u8> {
    let entries = bytes.as_chunks::<ENTRY_BYTES>().0;
    let entries = entries.get(..BLOCK_COUNT).unwrap_or(entries);
    let count = entries.len();
    let entries = entries.as_flattened();
    let mut file = head(name).to_vec();
    file.extend_from_slice(&(count as u64).to_le_bytes());
    file.extend_from_slice(&block_sum(entries, name).to_le_bytes());
    file.extend_from_slice(entries);
    file
}

/// A file that is read from beginning to end.
pub(super) struct PartReader {
    name: PartName,
    file: Arc<dyn DiskFile>,
    /// Offset of the next block; `None` after the last block, or a damaged one.
    next: Option<u64>,
    block: VecDeque<KeptLeaf>,
    /// Number of entries that were read.
    count: u64,
    is_damaged: bool,
}

impl PartReader {
    /// Opens the file of a part; `None` if there is none, or its head is invalid.
    pub(super) fn open(disk: &dyn Disk, name: PartName) -> Option<Self> {
        let file = disk.open(&name.file_name(), false).ok()?;
        let mut bytes = [0; FILE_HEAD_BYTES];
        let count = file.read_at(&mut bytes, 0).ok()?;
        (count == FILE_HEAD_BYTES && bytes == head(name)).then(|| Self {
            name,
            file,
            next: Some(FILE_HEAD_BYTES as u64),
            block: VecDeque::new(),
            count: 0,
            is_damaged: false,
        })
    }

    /// The entries of a tag. Calls must come in ascending order of tags.
    pub(super) fn take(&mut self, tag: Tag) -> Vec<KeptLeaf> {
        let mut found = Vec::new();
        while let Some(kept) = self.front() {
            if kept.leaf.tag > tag {
                break;
            }
            if kept.leaf.tag == tag {
                found.push(kept);
            }
            self.block.pop_front();
        }
        found
    }

    /// True if a damaged block was found. It and the blocks after it count as absent.
    pub(super) const fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Number of entries that were read so far.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    fn front(&mut self) -> Option<KeptLeaf> {
        if self.block.is_empty()
            && let Some(at) = self.next
        {
            self.next = self.read_block(at);
        }
        self.block.front().copied()
    }

    /// Reads a block, and returns the offset of the next one.
    fn read_block(&mut self, at: u64) -> Option<u64> {
        if self.file.size_bytes().is_ok_and(|size_bytes| size_bytes <= at) {
            return None;
        }
        let next = self.read_sound_block(at);
        if next.is_none() {
            let (n_val, partition) = (self.name.n_val, self.name.partition.0);
            tracing::warn!(
                n_val,
                partition,
                at,
                "a file of a tree for Riak is damaged and made anew"
            );
            self.is_damaged = true;
        }
        next
    }

    /// As [`PartReader::read_block`]; `None` if the block is damaged.
    fn read_sound_block(&mut self, at: u64) -> Option<u64> {
        let mut head = [0; BLOCK_HEAD_BYTES];
        if self.file.read_at(&mut head, at).ok()? < BLOCK_HEAD_BYTES {
            return None;
        }
        let (count, sum) = head.split_at(8);
        let count = u64::from_le_bytes(count.try_into().ok()?);
        let count =
            usize::try_from(count).ok().filter(|count| (1..=BLOCK_COUNT).contains(count))?;
        let mut entries = vec![0; count * ENTRY_BYTES];
        let read = self.file.read_at(&mut entries, at + BLOCK_HEAD_BYTES as u64).ok()?;
        if read < entries.len() || sum != block_sum(&entries, self.name).to_le_bytes() {
            return None;
        }
        self.block.extend(entries.as_chunks().0.iter().map(KeptLeaf::read));
        self.count += count as u64;
        Some(at + (BLOCK_HEAD_BYTES + entries.len()) as u64)
    }
}

/// A new file, written beside the valid one.
pub(super) struct PartWriter {
    name: PartName,
    new_name: String,
    file: Arc<dyn DiskFile>,
    size_bytes: u64,
    /// Entries of the present block, encoded.
    block: Vec<u8>,
    count: u64,
}

impl PartWriter {
    /// Creates a file of this name.
    pub(super) fn create(
        disk: &dyn Disk,
        name: PartName,
        new_name: String,
    ) -> Result<Self, StoreError> {
        let file = disk.open(&new_name, true)?;
        file.write_at(&head(name), 0)?;
        let size_bytes = FILE_HEAD_BYTES as u64;
        Ok(Self { name, new_name, file, size_bytes, block: Vec::new(), count: 0 })
    }

    /// Adds an entry. Entries must come in the order of tags.
    pub(super) fn push(&mut self, kept: KeptLeaf) -> Result<(), StoreError> {
        kept.append_to(&mut self.block);
        self.count += 1;
        match self.block.len() == BLOCK_COUNT * ENTRY_BYTES {
            true => self.end_block(),
            false => Ok(()),
        }
    }

    fn end_block(&mut self) -> Result<(), StoreError> {
        if self.block.is_empty() {
            return Ok(());
        }
        let count = (self.block.len() / ENTRY_BYTES) as u64;
        let mut bytes = count.to_le_bytes().to_vec();
        bytes.extend_from_slice(&block_sum(&self.block, self.name).to_le_bytes());
        bytes.append(&mut self.block);
        self.file.write_at(&bytes, self.size_bytes)?;
        self.size_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Writes the last block. Returns the number of entries, and the name of the file.
    pub(super) fn end(mut self) -> Result<(u64, String), StoreError> {
        self.end_block()?;
        Ok((self.count, self.new_name))
    }
}
